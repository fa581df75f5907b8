"""The agent's command: checks every option, then runs the agent."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from cluster_common.transport import auth
from raylet_agent import exit_codes
from raylet_agent import settings as s
from raylet_agent.shell.agent_process import load_entry, run_agent

_MEMORY_SHARE = 0.7
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_EPILOG = """Exit codes: 0 stopped, 1 failed, 2 wrong option, 3 refused by the cluster, 4 the GCS
could not be reached for gcs_reconnect_timeout_s, 5 the fork server was lost.

SIGTERM drains the node: nothing new, what runs has stop_grace_s; a second one, or SIGINT, ends at
once.

Example: python -m raylet_agent --gcs-address 127.0.0.1:6380 --num-cpus 4 --labels rack=r1"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.option("--gcs-address", required=True, help="host:port of the GCS.")
@click.option("--via", default="", help="host:port of an agent that relays to the GCS.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option("--advertise", default="", help="Host others reach it at; default --host.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0: any free one.")
@click.option("--node-name", default="", help="Shown in lists; default hostname:port.")
@click.option("--num-cpus", type=float, default=None, help="CPUs of the node; default all.")
@click.option("--num-gpus", type=float, default=0.0, show_default=True, help="GPUs, whole.")
@click.option("--memory", type=int, default=None, help="Bytes; default 70 % of the machine's.")
@click.option("--object-store-memory", type=int, default=0, help="Bytes.")
@click.option("--resources", default="", help="Further resources, JSON: '{\"disk\": 2}'.")
@click.option("--labels", default="", help="key=value,key=value")
@click.option("--scheduler", is_flag=True, help="Choose nodes for others; --head implies it.")
@click.option("--head", is_flag=True, help="The head node.")
@click.option(
    "--prestart", type=int, default=-1, help="Workers forked at the start and kept ahead."
)
@click.option("--session-name", default="", help="Folder of the logs; default from the GCS.")
@click.option("--temp-dir", default="", help="Folder of sessions.")
@click.option("--port-file", default="", help="JSON {address, node_id, pid}, written when joined.")
@click.option("--worker-entry", default=s.DEFAULT_ENTRY, show_default=True, help="module:function")
@click.option("--preload", default=",".join(s.DEFAULT_PRELOAD), show_default=True, help="Modules.")
@click.option("--die-with-parent-fd", type=int, default=-1, help="End when it reaches its end.")
@click.option("--log-level", default="INFO", show_default=True, help="DEBUG, INFO, WARNING, ERROR")
@click.option("--set", "assignments", multiple=True, help=f"name=value: {', '.join(s.TUNABLE)}")
@click.version_option(package_name="shoal")
def command(**options: Any) -> None:
    """Runs the agent of one node in the foreground."""
    sys.exit(run(options))


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; ends the process."""
    command.main(args=None if argv is None else list(argv), prog_name="shoal-agent")


def run(options: dict[str, Any]) -> int:
    """Checks the options and runs the agent; returns its exit code."""
    try:
        settings = read_settings(options)
        entry = load_entry(settings)
    except ValueError as error:
        click.echo(f"shoal-agent: {error}", err=True)
        return exit_codes.BAD_OPTION
    return run_agent(settings, entry)


def read_settings(options: dict[str, Any]) -> s.AgentSettings:
    """The settings record.

    Raises:
        ValueError: an option is wrong; the message names it and what is allowed.
    """
    host = cast("str", options["host"])
    if not host:
        raise ValueError("--host is empty; 127.0.0.1 serves this machine only")
    auth.require_token_for(host)
    if options["log_level"].upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ValueError(f"--log-level {options['log_level']!r}: DEBUG, INFO, WARNING or ERROR")
    _check_descriptor(options["die_with_parent_fd"])
    if options["prestart"] < -1:
        raise ValueError(f"--prestart {options['prestart']} must be at least 0")
    cpus, memory = options["num_cpus"], options["memory"]
    return s.AgentSettings(
        gcs_address=s.check_address("--gcs-address", options["gcs_address"]),
        via=s.check_address("--via", options["via"]) if options["via"] else "",
        host=host,
        reached_at=options["advertise"] or advertised(host),
        port=s.check_port(options["port"]),
        node_name=s.check_name("--node-name", options["node_name"]),
        total=s.parse_total(
            num_cpus=float(os.cpu_count() or 1) if cpus is None else cpus,
            num_gpus=options["num_gpus"],
            memory=default_memory() if memory is None else memory,
            object_store_memory=options["object_store_memory"],
            custom=options["resources"],
        ),
        labels=s.parse_labels(options["labels"]),
        scheduler=options["scheduler"],
        head=options["head"],
        prestart=options["prestart"],
        session_name=s.check_name("--session-name", options["session_name"]),
        temp_dir=options["temp_dir"] or str(Path(tempfile.gettempdir(), "shoal")),
        port_file=options["port_file"],
        worker_entry=s.check_entry(options["worker_entry"]),
        preload=tuple(filter(None, (part.strip() for part in options["preload"].split(",")))),
        die_with_parent_fd=options["die_with_parent_fd"],
        log_level=options["log_level"],
        **s.parse_tuning(options["assignments"]),
    )


def advertised(host: str) -> str:
    """The host in the agent's address: that of `--host`, or this machine's own for all interfaces.

    Raises:
        ValueError: the machine's name has no address.
    """
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - recognised, not bound
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise ValueError(
            f"--host {host}: this machine's name has no address ({error}); give --advertise"
        ) from None


def default_memory() -> int:
    """70 % of the memory of the machine, or of the container if that has less, in bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = _CONTAINER_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    if limit.isdigit():
        total = min(total, int(limit))
    return int(total * _MEMORY_SHARE)


def _check_descriptor(descriptor: int) -> None:
    if descriptor < 0:
        return
    try:
        os.fstat(descriptor)
    except OSError:
        raise ValueError(f"--die-with-parent-fd {descriptor} is not an open descriptor") from None


if __name__ == "__main__":
    main()
