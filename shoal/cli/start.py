"""`shoal start`: a GCS with a head agent, or an agent that joins a cluster."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cluster_common import limits
from cluster_common.transport import auth, own_host
from shoal import child_process
from shoal.cli import options, printing, started
from shoal.gcs_calls import GcsCalls
from shoal.processes import (
    AgentOptions,
    AgentProcess,
    GcsOptions,
    GcsProcess,
    SessionFolder,
    default_temp_dir,
    start_agent,
    start_gcs,
)

HEAD_PORT_DEFAULT = 7_400
AUTO_HOST = "auto"
_LOOK_S = 0.5
"""`--block` looks at its processes this often; signals come at once."""

_ENDINGS = frozenset({signal.SIGINT, signal.SIGTERM})

_RECONNECT_HINT = "export SHOAL_TOKEN_FILE={file}"


@click.command(
    "start",
    epilog="""\b
Examples:
  shoal start --head
  shoal start --head --host auto --storage-path /var/lib/shoal
  shoal start --address 10.0.0.1:7400 --num-gpus 8 --labels rack=r7,zone=a
  shoal start --address 10.0.0.1:7400 --via 10.0.7.1:7401 --labels rack=r7
  shoal start --head --block --num-cpus 4 --resources '{"special": 2}'
""",
)
@click.option("--head", is_flag=True, help="Start the GCS and the first node.")
@click.option("--address", metavar="HOST:PORT", help="Join the cluster of this GCS.")
@click.option(
    "--via",
    metavar="HOST:PORT",
    help="With --address: the agent that relays this node's session, one for each rack. While it"
    " cannot, the session goes to the GCS itself.",
)
@click.option(
    "--host",
    help="Address to listen on and to be reached at; 'auto': this machine's own. "
    "Default: loopback for --head, the way to the GCS for --address.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"Of the GCS (--head); 0 is any free one.  [default: {HEAD_PORT_DEFAULT}]",
)
@click.option("--agent-port", type=click.IntRange(0, 65_535), default=0, help="0: any free one.")
@click.option("--node-name", help="A name for people.")
@click.option("--num-cpus", type=click.FloatRange(0), help="Default: what the machine has.")
@click.option("--num-gpus", type=click.FloatRange(0))
@click.option("--memory", type=click.IntRange(0), help="Bytes.  [default: 70 % of the machine's]")
@click.option("--object-store-memory", type=click.IntRange(0), help="Bytes.")
@click.option(
    "--resources", metavar="JSON", callback=options.parse_resources, default="{}", help="Custom."
)
@click.option(
    "--labels", metavar="K=V,…", callback=options.parse_labels, default="", help="Such as rack=r1."
)
@click.option("--scheduler", is_flag=True, help="This node schedules too (the head always does).")
@click.option(
    "--storage",
    type=click.Choice(["sqlite", "memory", "redis"]),
    default="sqlite",
    show_default=True,
    help="Of the GCS (--head).",
)
@click.option(
    "--storage-path",
    help="Folder of the GCS's database, or redis://host:port/db; give one to keep the cluster's"
    " state over stop and start.",
)
@click.option("--temp-dir", type=click.Path(path_type=Path, file_okay=False), help="For logs.")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR"]))
@click.option("--block", is_flag=True, help="Stay until Ctrl-C or SIGTERM, then end everything.")
@options.json_option
def command(**given: Any) -> None:
    """Starts this machine's part of a cluster and prints how to go on."""
    head, address = given["head"], given["address"]
    if head == bool(address):
        raise click.UsageError("give either --head (a new cluster) or --address (join one)")
    if address:
        _check_join_options(given)
    elif given["via"]:
        raise click.UsageError("--via is for nodes that join, so only for --address")
    _check_amounts(given)
    host = _host(given["host"], None if head else address)
    temp_dir = given["temp_dir"] or default_temp_dir()
    token_file = _settle_token(host, temp_dir, head=head)
    session = SessionFolder(temp_dir)
    gcs: GcsProcess | None = None
    agent: AgentProcess | None = None
    try:
        if head:
            gcs = _start_gcs(session, host, given)
            address = gcs.address
        else:
            with GcsCalls(started.check_address(address)) as calls:
                calls.cluster_info()
        agent_options = _agent_options(host, given)
        agent = start_agent(session, address, agent_options, die_with_parent=given["block"])
        record = _record(address, session, token_file, gcs, agent)
        path = record.save(temp_dir)
        if given["block"]:
            # From here on a signal waits for `_stay`, however soon it comes.
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    except BaseException:
        for process in (agent, gcs):
            if process is not None:
                process.stop()
        session.remove()
        raise
    _report(record, agent, as_json=given["as_json"], block=given["block"])
    if given["block"]:
        _stay([p for p in (agent, gcs) if p is not None], session, path)


def _check_join_options(given: dict[str, Any]) -> None:
    stated = {"--port": given["port"] is not None, "--storage-path": given["storage_path"]}
    if given["via"]:
        started.check_address(given["via"], "--via")
    for option, is_stated in stated.items():
        if is_stated:
            raise click.UsageError(f"{option} belongs to the GCS, so only to --head")


def _check_amounts(given: dict[str, Any]) -> None:
    from cluster_common import resources

    resources.vector({"CPU": given["num_cpus"] or 0, "GPU": given["num_gpus"] or 0})


def _host(stated: str | None, gcs_address: str | None) -> str:
    """The address to be reached at."""
    if stated and stated != AUTO_HOST:
        return stated
    if gcs_address is None:
        return own_host.outward_host() if stated == AUTO_HOST else limits.LOOPBACK_HOSTS[0]
    try:
        return own_host.host_towards(started.check_address(gcs_address))
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _settle_token(host: str, temp_dir: Path, *, head: bool) -> str:
    """A head that others can reach makes its token file at first start; returns the file or ""."""
    import os

    named = os.environ.get(auth.TOKEN_FILE_VARIABLE)
    if not head or own_host.is_loopback(host) or os.environ.get(auth.TOKEN_VARIABLE):
        auth.require_token_for(host)
        return named or ""
    file = Path(named) if named else temp_dir / "token"
    auth.configure(auth.make_token_file(file))
    # For the processes started from here.
    os.environ[auth.TOKEN_FILE_VARIABLE] = str(file)
    return str(file)


def _start_gcs(session: SessionFolder, host: str, given: dict[str, Any]) -> GcsProcess:
    storage = given["storage"]
    path = given["storage_path"] or (session.path / "gcs" if storage == "sqlite" else None)
    gcs_options = GcsOptions(
        host=host,
        port=HEAD_PORT_DEFAULT if given["port"] is None else given["port"],
        storage=storage,
        storage_path=path,
        log_level=given["log_level"],
    )
    return start_gcs(session, gcs_options, die_with_parent=given["block"])


def _agent_options(host: str, given: dict[str, Any]) -> AgentOptions:
    same = (
        "via",
        "node_name",
        "num_cpus",
        "num_gpus",
        "memory",
        "object_store_memory",
        "resources",
        "labels",
        "log_level",
        "head",
    )
    return AgentOptions(
        host=host,
        port=given["agent_port"],
        scheduler=given["scheduler"] or given["head"],
        **{name: given[name] for name in same},
    )


def _record(
    address: str,
    session: SessionFolder,
    token_file: str,
    gcs: GcsProcess | None,
    agent: AgentProcess,
) -> started.Started:
    processes = [started.StartedProcess.of("agent", agent.pid, agent.address)]
    if gcs is not None:
        processes.append(started.StartedProcess.of("gcs", gcs.pid, gcs.address))
    return started.Started(address, session.session_name, token_file, processes)


def _report(record: started.Started, agent: AgentProcess, *, as_json: bool, block: bool) -> None:
    if as_json:
        printing.print_json(
            {
                "gcs_address": record.gcs_address,
                "session": record.session,
                "token_file": record.token_file,
                "node_id": agent.node_id,
                "processes": [
                    {"part": p.part, "pid": p.pid, "address": p.address} for p in record.processes
                ],
            }
        )
        return
    for process in record.processes:
        click.echo(f"{process.part:5} {process.address}  pid {process.pid}")
    click.echo(f"node  {agent.node_id}")
    click.echo("\nNext:")
    if record.token_file:
        click.echo(
            f"  {_RECONNECT_HINT.format(file=record.token_file)}    (copy it to other nodes)"
        )
    click.echo(f'  import shoal; shoal.init(address="{record.gcs_address}")')
    click.echo(f"  shoal start --address {record.gcs_address}    (on another machine)")
    click.echo("  shoal status")
    click.echo("  Ctrl-C ends it" if block else "  shoal stop")


def _stay(
    processes: Sequence[GcsProcess | AgentProcess],
    session: SessionFolder,
    path: Path,
) -> None:
    """Waits for a signal or the end of a process, then ends all and forgets the record.

    The signals are blocked already.
    """
    ended: list[GcsProcess | AgentProcess] = []
    got: signal.struct_siginfo | None = None
    while not ended and (got := signal.sigtimedwait(_ENDINGS, _LOOK_S)) is None:
        ended = [process for process in processes if not process.is_alive()]
    # A machine that goes says SIGTERM: work moves to the others. A head has nobody to move to.
    is_head = any(isinstance(process, GcsProcess) for process in processes)
    drain = got is not None and got.si_signo == signal.SIGTERM and not is_head
    for process in processes:
        if isinstance(process, AgentProcess):
            process.stop(drain=drain)
        else:
            process.stop()
    path.unlink(missing_ok=True)
    if ended:
        part = "gcs" if isinstance(ended[0], GcsProcess) else "agent"
        last_words = child_process.tail_of(next(session.logs.glob(f"{part}-*.err")))
        raise click.ClickException(f"{ended[0]!r} ended by itself{last_words}")
    session.remove()
