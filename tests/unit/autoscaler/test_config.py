"""The configuration file: what is wrong is named with its place and what is allowed."""

import json

import pytest
import yaml
from click.testing import CliRunner

from autoscaler.app import main, read_config
from autoscaler.core.config import NODE_TYPE_LABEL, parse_config

GOOD = {
    "provider": {"type": "local"},
    "idle_timeout_s": 5,
    "node_types": {
        "trainer": {
            "resources": {"CPU": 1, "trainer": 1},
            "labels": {"rack": "r1"},
            "max_nodes": 32,
        }
    },
}


def changed(path, value):
    copy = json.loads(json.dumps(GOOD))
    *parents, last = path.split(".")
    place = copy
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copy


def test_yaml_and_json_say_the_same(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(GOOD))
    (tmp_path / "a.json").write_text(json.dumps(GOOD))
    read = read_config(tmp_path / "a.yaml")
    assert read == read_config(tmp_path / "a.json")
    trainer = read.node_types["trainer"]
    assert trainer.resources == {"CPU": 10_000, "trainer": 10_000}
    assert (trainer.min_nodes, trainer.max_nodes) == (0, 32)
    assert trainer.labels == {"rack": "r1", NODE_TYPE_LABEL: "trainer"}
    assert read.idle_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("provider", None, ["provider", "missing"]),
        ("provider", {}, ["provider.type"]),
        ("node_types", {}, ["node_types", "0 entries"]),
        ("idle_timeout_s", "soon", ["idle_timeout_s", "'soon'", "number"]),
        ("idle_timeout_s", -1, ["idle_timeout_s"]),
        ("max_workers", 3, ["'max_workers'", "provider, idle_timeout_s, node_types"]),
        ("node_types.trainer.max_nodes", None, ["node_types.trainer.max_nodes", "missing"]),
        ("node_types.trainer.max_nodes", True, ["node_types.trainer.max_nodes", "whole number"]),
        ("node_types.trainer.max_nodes", 1.5, ["node_types.trainer.max_nodes", "1.5"]),
        ("node_types.trainer.min_nodes", 33, ["min_nodes 33", "max_nodes 32"]),
        ("node_types.trainer.resources", {}, ["node_types.trainer.resources", "empty"]),
        ("node_types.trainer.resources", {"CPU": -1}, ["node_types.trainer.resources", "'CPU'"]),
        ("node_types.trainer.resources", {"CPU": "1"}, ["node_types.trainer.resources", "number"]),
        ("node_types.trainer.labels", {"rack": "a b"}, ["node_types.trainer.labels", "'rack'"]),
        ("node_types.trainer.labels", {NODE_TYPE_LABEL: "x"}, ["set by the autoscaler"]),
        ("node_types.trainer.cpus", 3, ["node_types.trainer", "'cpus'", "min_nodes"]),
        ("node_types.trainer", [], ["node_types.trainer", "list", "mapping"]),
    ],
)
def test_errors_name_the_place_and_what_is_allowed(path, value, words):
    with pytest.raises(ValueError) as caught:
        parse_config(changed(path, value))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("a.yaml", "node_types: [", "not valid yaml"),
        ("a.json", "{", "not valid json"),
        ("a.yaml", "", "the configuration is missing"),
        ("a.yaml", yaml.safe_dump(changed("provider.type", "moon")), "'moon' is not one of local"),
        ("a.yaml", yaml.safe_dump(changed("provider.host", 7)), "provider.host"),
        ("a.yaml", yaml.safe_dump(changed("provider.zone", "a")), "'zone' is not one of"),
    ],
)
def test_a_wrong_file_ends_the_command_before_anything_starts(tmp_path, name, text, word):
    file = tmp_path / name
    file.write_text(text)
    result = CliRunner().invoke(main, ["--config", str(file), "--address", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert word in result.output


def test_a_file_can_be_checked_without_a_cluster(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    result = CliRunner().invoke(
        main, ["--config", str(file), "--address", "127.0.0.1:1", "--check"]
    )
    assert (result.exit_code, "1 node types" in result.output) == (0, True)
