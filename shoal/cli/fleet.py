"""`shoal fleet`: many nodes in one process, in the foreground."""

from __future__ import annotations

import click

from shoal.cli import options, started


@click.command(
    "fleet",
    epilog="""\b
Examples:
  shoal fleet --nodes 1000
  shoal fleet --nodes 36 --leases --resources '{"CPU": 4, "slot": 1}'
""",
)
@click.option("--nodes", type=click.IntRange(1, 20_000), required=True, help="How many.")
@options.address_option
@click.option(
    "--connections",
    type=click.IntRange(0, 20_000),
    default=100,
    show_default=True,
    help="TCP connections to the GCS; 0: one for each node.",
)
@click.option("--own-streams", is_flag=True, help="One stream per node, not per connection.")
@click.option(
    "--rack-size",
    type=click.IntRange(0, 20_000),
    default=18,
    show_default=True,
    help="Nodes that share a label rack; 0: no such label.",
)
@click.option(
    "--resources",
    default='{"CPU": 8}',
    show_default=True,
    callback=options.parse_resources,
    help="Of each node, JSON.",
)
@click.option("--labels", default="", callback=options.parse_labels, help="key=value,key=value")
@click.option("--leases", is_flag=True, help="Nodes listen, so that actors can be made there.")
@click.option(
    "--sync-delay",
    "sync_delay_s",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    help="Seconds that nodes hold their resource snapshots back.",
)
def command(
    *,
    nodes: int,
    address: str | None,
    connections: int,
    own_streams: bool,
    rack_size: int,
    resources: dict[str, float],
    labels: dict[str, str],
    leases: bool,
    sync_delay_s: float,
) -> None:
    """Adds many nodes with faked workers to a cluster, until Ctrl-C. For tests and measurements."""
    # Late: starting a process needs more than --help does.
    from shoal.fleet import Fleet

    with Fleet(
        started.find_address(address),
        nodes,
        rack_size=rack_size,
        connections=connections,
        own_streams=own_streams,
        resources=resources,
        labels=labels,
        leases=leases,
        sync_delay_s=sync_delay_s,
    ) as fleet:
        click.echo(f"{nodes} nodes joined in {fleet.join_s:.1f} s; Ctrl-C ends them")
        fleet.wait()
