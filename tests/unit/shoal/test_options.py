from pathlib import Path

from shoal.agent_process import AgentOptions
from shoal.processes import GcsOptions


def test_an_agent_gets_only_what_was_stated():
    flags = AgentOptions().arguments("g:1", Path("/t"), "s", Path("/p"))
    assert flags == [
        *("--gcs-address", "g:1"),
        *("--host", "127.0.0.1"),
        *("--port", "0"),
        *("--session-name", "s"),
        *("--temp-dir", "/t"),
        *("--port-file", "/p"),
    ]


def test_every_option_of_an_agent_becomes_a_flag():
    options = AgentOptions(
        via="r:2",
        node_name="n",
        num_cpus=2,
        num_gpus=0,
        memory=5,
        resources={"x": 1.5},
        labels={"rack": "r1", "zone": "a"},
        scheduler=True,
        head=True,
        preload=("a", "b"),
        settings={"one": "1"},
    )
    flags = options.arguments("g:1", Path("/t"), "s", Path("/p"))
    assert flags[:4] == ["--gcs-address", "g:1", "--via", "r:2"]
    assert flags[14:] == [
        *("--node-name", "n"),
        *("--num-cpus", "2"),
        *("--num-gpus", "0"),
        *("--memory", "5"),
        *("--resources", '{"x": 1.5}'),
        *("--labels", "rack=r1,zone=a"),
        *("--preload", "a,b"),
        *("--set", "one=1"),
        "--scheduler",
        "--head",
    ]


def test_a_gcs_gets_its_storage():
    flags = GcsOptions(port=7, storage="sqlite", storage_path=Path("/d")).arguments("s", Path("/p"))
    assert flags == [
        *("--host", "127.0.0.1"),
        *("--port", "7"),
        *("--storage", "sqlite"),
        *("--storage-path", "/d"),
        *("--session-name", "s"),
        *("--port-file", "/p"),
    ]
