"""The record of what `shoal start` left running on this machine: one JSON file a start.

    <temp_dir>/started/<number>.json

`shoal stop` ends what is written there and nothing else; a process is recognised by its pid *and*
the time it was created, since pids are used again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import click
import msgspec
import psutil

from cluster_common.transport import auth
from shoal.session_folder import default_temp_dir

ADDRESS_VARIABLE = "SHOAL_ADDRESS"
_FOLDER = "started"
KILLED_GRACE_S = 5.0
LOOK_AGAIN_S = 0.02
_SAME_PROCESS_S = 0.5
"""Creation times are read from the kernel's clock ticks; two looks differ by less than this."""


class StartedProcess(msgspec.Struct, frozen=True):
    """One background process. `part` is "gcs" or "agent"."""

    part: str
    pid: int
    created_s: float
    address: str

    @classmethod
    def of(cls, part: str, pid: int, address: str) -> StartedProcess:
        """The record of a process that runs now."""
        return cls(part, pid, psutil.Process(pid).create_time(), address)

    def running(self) -> psutil.Process | None:
        """The process, if it is still the one that was started."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created_s) < _SAME_PROCESS_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


class Started(msgspec.Struct, frozen=True):
    """One `shoal start`."""

    gcs_address: str
    session: str
    token_file: str
    processes: list[StartedProcess]

    def save(self, temp_dir: Path) -> Path:
        """Writes the record; readable by this user only."""
        folder = temp_dir / _FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 1 + max(
            (int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit()), default=0
        )
        path = folder / f"{number}.json"
        path.write_bytes(msgspec.json.encode(self))
        path.chmod(0o600)
        return path


def records(temp_dir: Path | None = None) -> list[tuple[Path, Started]]:
    """All records of this machine, newest first."""
    folder = (temp_dir or default_temp_dir()) / _FOLDER
    paths = sorted(folder.glob("*.json"), key=lambda p: int(p.stem), reverse=True)
    return [(path, msgspec.json.decode(path.read_bytes(), type=Started)) for path in paths]


def find_address(stated: str | None) -> str:
    """`--address`, else `SHOAL_ADDRESS`, else the newest cluster started here that still runs.

    Also makes the cluster's token known to this process when it was started here.

    Raises:
        click.UsageError: none of them; says what to do. Or it is no `host:port`.
    """
    address = stated or os.environ.get(ADDRESS_VARIABLE)
    running = [r for _, r in records() if any(p.running() for p in r.processes)]
    for record in running:
        if address in (None, record.gcs_address):
            if record.token_file and auth.current_token() is None:
                auth.configure(auth.make_token_file(Path(record.token_file)))
            return record.gcs_address
    if address is None:
        raise click.UsageError(
            f"no cluster address: give --address host:port, set {ADDRESS_VARIABLE}, "
            "or start a cluster here with `shoal start --head`"
        )
    return check_address(address)


def check_address(address: str, what: str = "address") -> str:
    """The address, if it is one; `what` names it in the error.

    Raises:
        click.UsageError: not `host:port`.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise click.UsageError(f"{what} {address!r} is not host:port with a port of 1 .. 65535")
    return address


def end(processes: list[StartedProcess], grace_s: float) -> tuple[int, int]:
    """An orderly end of all, SIGKILL after `grace_s`; returns (ended, of these killed).

    Agents get SIGINT: everything here goes, so there is no other node to drain to.
    """
    running = [one for one in processes if one.running() is not None]
    for one in running:
        _signal(one, signal.SIGINT if one.part == "agent" else signal.SIGTERM)
    stubborn = _left_after(running, grace_s)
    for one in stubborn:
        _signal(one, signal.SIGKILL)
    _left_after(stubborn, KILLED_GRACE_S)
    return len(running), len(stubborn)


def _left_after(processes: list[StartedProcess], grace_s: float) -> list[StartedProcess]:
    """Those that run after `grace_s`. Zombies have ended: who reaps them is not our matter."""
    end = time.monotonic() + grace_s
    while left := [one for one in processes if one.running() is not None]:
        if time.monotonic() >= end:
            break
        # They are no children of ours: nobody tells us when they end.
        time.sleep(LOOK_AGAIN_S)
    return left


def _signal(one: StartedProcess, number: int) -> None:
    process = one.running()
    if process is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
