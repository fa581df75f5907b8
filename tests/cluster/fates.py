"""An actor whose starts the test decides, brought into a phase of its life by any process.

Everything goes through one folder: start number n of the subject writes `pid-n` and goes on once
`open-n` exists. So the phase is a fact on the disk, not a guess about time.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shoal
from cluster_api.v1 import types_pb2 as t
from shoal.exceptions import ActorDiedError
from shoal.gcs_calls import GcsCalls
from shoal.util.autoscaler import cluster_resource_state
from tests.cluster.remote_code import pass_gate
from tests.cluster.waiting import until, until_gone

NOWHERE = {"nowhere": 1.0}
"""A resource that no node has."""


@shoal.remote(num_cpus=1, max_restarts=2)
class Subject:
    """Each start waits at its own gate inside the constructor."""

    def __init__(self, folder: str, _argument: object = None) -> None:
        start = next(n for n in itertools.count(1) if not (Path(folder) / f"pid-{n}").exists())
        written = Path(folder) / f".pid-{start}"
        written.write_text(str(os.getpid()), encoding="ascii")
        written.rename(Path(folder) / f"pid-{start}")
        pass_gate(f"{folder}/open-{start}")
        Path(f"{folder}/made-{start}").touch()

    def pid(self) -> int:
        return os.getpid()


class Story:
    """What the folder tells about a subject's starts."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def let(self, start: int) -> None:
        """Opens the gate of one start."""
        (self.folder / f"open-{start}").touch()

    def pid(self, start: int) -> int:
        """Waits until that start is inside its constructor; its process."""
        path = self.folder / f"pid-{start}"
        until(path.exists, f"start {start} of the subject")
        return int(path.read_text(encoding="ascii"))

    def is_made(self, start: int) -> bool:
        """Whether the constructor of that start came to its end."""
        return (self.folder / f"made-{start}").exists()

    def pids(self) -> list[int]:
        """Processes of all starts so far."""
        return [int(p.read_text(encoding="ascii")) for p in self.folder.glob("pid-*")]


def bring_to(phase: str, story: Story, **options: Any) -> Any:
    """Creates a subject and waits until it is in `phase`; its handle. Runs in the owner."""
    folder = str(story.folder)
    if phase == "no room":
        return Subject.options(resources=NOWHERE, **options).remote(folder)
    if phase == "no argument":
        never = wait_for.remote(f"{folder}/argument")
        return Subject.options(**options).remote(folder, never)
    subject = Subject.options(**options).remote(folder)
    if phase == "starting":
        story.pid(1)
        return subject
    story.let(1)
    pid = shoal.get(subject.pid.remote())
    if phase == "restarting":
        os.kill(pid, signal.SIGKILL)
        story.pid(2)
    return subject


@shoal.remote(num_cpus=0, max_retries=0)
def wait_for(path: str) -> None:
    pass_gate(path)


def died(ask: Callable[[], object]) -> ActorDiedError:
    """The error that a call of a dead actor raises."""
    try:
        ask()
    except ActorDiedError as error:
        return error
    raise AssertionError("the actor answered; it should be dead")


def listed_cause(address: str, name: str) -> str | None:
    """Why the newest actor of this name is dead according to the GCS; None: it is not dead."""
    with GcsCalls(address) as gcs:
        for record in gcs.actors().actors:
            if record.name == name:
                dead = record.state == t.ACTOR_STATE_DEAD
                text = t.ActorDeathCause.Name(record.death.cause)
                return text.removeprefix("ACTOR_DEATH_CAUSE_") if dead else None
    return None


def nothing_left(story: Story) -> None:
    """Waits until the subject's processes are gone, resources are free, nothing is wanted."""
    until_gone(story.pids())
    until(everything_free, "every resource is free")
    until(nothing_wanted, "no demand is left")


def nothing_wanted() -> bool:
    state = cluster_resource_state()
    return not state.pending and not state.infeasible


def everything_free() -> bool:
    return shoal.available_resources() == shoal.cluster_resources()
