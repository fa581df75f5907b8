"""What a user gets: the table's figures, why groups wait, and a picture."""

import json
import subprocess
import sys
from xml.etree import ElementTree as ET

from click.testing import CliRunner

from cluster_simulator import scenarios
from cluster_simulator.launch_report import launch
from cluster_simulator.run import RunOptions
from cluster_simulator.timeline import drawn
from cluster_simulator.world import Load
from shoal.cli import simulate as command

RACKS = scenarios.BY_NAME["racks"]


def report(nodes, **load):
    options = RunOptions(check_every=0, digesting=False, load=Load(**load))
    return launch(RACKS, 3, nodes=nodes, options=options, virtual_s=5.0)


def test_a_launch_that_fits_ends_when_everything_is_up():
    found = report(36)
    assert (found.gangs_up, found.actors_up) == (2, 144)
    assert 0 < found.placed_last_ms < found.up_last_ms < 1_000
    assert found.virtual_s < 5
    assert found.waiting == []


def test_what_does_not_fit_waits_and_says_why():
    found = report(36, gangs=3)
    assert (found.gangs_placed, found.waiting_groups) == (2, 1)
    assert found.waiting[0].reason == "domain_incomplete"
    assert "36 nodes" in found.waiting[0].message


def test_the_command_lists_the_scenarios_there_are():
    assert set(command.SCENARIOS) == set(scenarios.BY_NAME)


def test_the_command_prints_a_table_and_draws(tmp_path):
    svg = tmp_path / "launch.svg"
    flags = ["racks", "--nodes", "36", "--gangs", "3", "--seconds", "2", "--svg", str(svg)]
    done = CliRunner().invoke(command.command, flags)
    assert done.exit_code == 0, done.output
    assert "2 of 3" in done.output
    assert "domain_incomplete" in done.output
    drawing = ET.fromstring(svg.read_text())
    assert drawing.tag.endswith("svg")
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}rect"))) > 6


def test_the_picture_is_bounded_however_many_gangs_there_are():
    found = report(180, gangs=90, bundles=2)
    assert found.gangs_up == 90
    assert drawn(found).count('height="7"') < 200


def test_developers_get_a_line_for_many_seeds():
    done = subprocess.run(
        [sys.executable, "-m", "cluster_simulator", "--seeds", "8"], capture_output=True, check=True
    )
    assert done.stdout.decode().splitlines()[-1].endswith("0 failed")


def test_json_is_one_document():
    done = CliRunner().invoke(command.command, ["racks", "--nodes", "18", "--json"])
    assert json.loads(done.output)["actors_up"] == 72
