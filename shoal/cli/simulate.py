"""`shoal simulate`: a launch under virtual time, on a cluster that needs no machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from shoal.cli import printing

SCENARIOS = ("racks", "churn", "owner_death", "drain_waves", "late_sync", "mixed", "storm", "night")


@click.command(
    "simulate",
    epilog="""\b
Examples:
  shoal simulate racks --nodes 10000
  shoal simulate racks --nodes 36 --gangs 3 --svg launch.svg
  shoal simulate storm --nodes 50 --seed 7 --json
""",
)
@click.argument("scenario", type=click.Choice(SCENARIOS))
@click.option("--nodes", type=click.IntRange(1, 20_000), default=36, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Decides all.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="Virtual time at most; a launch without faults ends when everything is up.",
)
@click.option("--gangs", type=click.IntRange(0, 100_000), default=0, help="0: one for each rack.")
@click.option("--bundles", type=click.IntRange(0, 20_000), default=0, help="Of each gang; 0: 18.")
@click.option("--bundle-cpus", type=click.IntRange(0, 1_000), default=0, help="0: a whole node.")
@click.option("--actors-per-bundle", type=click.IntRange(0, 100), default=4, show_default=True)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the timeline.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    *,
    scenario: str,
    nodes: int,
    seed: int,
    seconds: float,
    gangs: int,
    bundles: int,
    bundle_cpus: int,
    actors_per_bundle: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Tells how long a launch would take, what would wait and why. Starts no cluster.

    The control plane's real decisions run under virtual time; networks, disks and workers are
    modelled. --gangs to --actors-per-bundle are for the scenario racks.
    """
    flags: list[tuple[str, object]] = [
        ("--nodes", nodes),
        ("--seed", seed),
        ("--seconds", seconds),
        ("--gangs", gangs),
        ("--bundles", bundles),
        ("--bundle-cpus", bundle_cpus),
        ("--actors-per-bundle", actors_per_bundle),
    ]
    if svg is not None:
        flags.append(("--svg", svg))
    words = [text for flag, value in flags for text in (flag, str(value))]
    done = subprocess.run(  # noqa: S603 - our own module, our own flags
        [sys.executable, "-m", "cluster_simulator", scenario, "--launch", *words],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise click.exceptions.Exit(done.returncode)
    report: dict[str, Any] = json.loads(done.stdout)
    if as_json:
        printing.print_json(report)
        return
    _print(report)
    if svg is not None:
        click.echo(f"timeline: {svg}")


def _print(report: dict[str, Any]) -> None:
    title = f"{report['scenario']}, {report['nodes']} nodes, seed {report['seed']}"
    printing.print_table(title, ("", ""), _rows(report))
    waiting = report["waiting"]
    if waiting:
        rows = [(one["group"], one["reason"], one["message"]) for one in waiting]
        count = report["waiting_groups"]
        shown = f"{count} groups wait" + (f", first {len(rows)}" if count > len(rows) else "")
        printing.print_table(shown, ("group", "reason", "why"), rows)


def _rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    def milliseconds(name: str) -> str:
        value = report[name]
        return "-" if value is None else f"{value:,.1f} ms"

    rows = [
        ("gangs placed", f"{report['gangs_placed']} of {report['gangs']}"),
        ("gangs up", f"{report['gangs_up']} of {report['gangs']}"),
        ("actors up", f"{report['actors_up']} of {report['actors']}"),
        ("last gang placed after", milliseconds("placed_last_ms")),
        ("half of the gangs up after", milliseconds("up_median_ms")),
        ("last gang up after", milliseconds("up_last_ms")),
        ("prepares refused", str(report["prepares_refused"])),
        ("drivers lost", str(report["drivers_lost"])),
        ("virtual time", f"{report['virtual_s']:.2f} s"),
        ("computed in", f"{report['real_s']:.1f} s, {report['events']:,} events"),
    ]
    return rows + [(f"fault: {name}", str(count)) for name, count in report["faults"].items()]
