from __future__ import annotations

import pytest
from click.testing import CliRunner

from raylet_agent import app, exit_codes
from raylet_agent import settings as s
from raylet_agent.core.runtime_env import canonical, environment_of


def options(**changes):
    context = app.command.make_context("shoal-agent", ["--gcs-address", "127.0.0.1:1"])
    return {**context.params, **changes}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gcs_address": "nowhere"}, "--gcs-address 'nowhere' must be host:port"),
        ({"gcs_address": "host:0"}, "1 .. 65535"),
        ({"via": "r7"}, "--via 'r7' must be host:port"),
        ({"host": ""}, "--host"),
        ({"host": "0.0.0.0"}, "a token is needed"),
        ({"port": 70_000}, "--port 70000"),
        ({"num_cpus": -1.0}, "CPU"),
        ({"num_gpus": 0.5}, "--num-gpus"),
        ({"resources": "{"}, "--resources is not JSON"),
        ({"resources": "[]"}, "--resources must be a JSON object"),
        ({"resources": '{"CPU": 1}'}, "an option of its own"),
        ({"resources": '{"a_group_b": 1}'}, "reserved"),
        ({"resources": '{"disk": "x"}'}, "disk"),
        ({"labels": "rack"}, "key=value"),
        ({"labels": "a=1,a=2"}, "twice"),
        ({"labels": "a=b c"}, "a"),
        ({"prestart": -2}, "--prestart"),
        ({"worker_entry": "module"}, "module:function"),
        ({"die_with_parent_fd": 987}, "not an open descriptor"),
        ({"log_level": "LOUD"}, "DEBUG"),
        ({"assignments": ("speed=1",)}, "gcs_reconnect_timeout_s"),
        ({"assignments": ("gcs_reconnect_timeout_s=0",)}, "above 0"),
        ({"node_name": "a/b"}, "--node-name"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(change, text):
    with pytest.raises(ValueError, match=r".") as caught:
        app.read_settings(options(**change))
    assert text in str(caught.value)


def test_options_become_one_record():
    settings = app.read_settings(
        options(
            num_cpus=2.0,
            num_gpus=1.0,
            memory=10,
            resources='{"disk": 0.5}',
            labels="rack=r1, zone=z",
            assignments=("gcs_reconnect_timeout_s=5",),
        )
    )
    assert settings.total == {"CPU": 20_000, "GPU": 10_000, "memory": 100_000, "disk": 5_000}
    assert settings.labels == {"rack": "r1", "zone": "z"}
    assert settings.gcs_reconnect_timeout_s == 5


def test_the_command_ends_with_the_code_of_a_wrong_option():
    result = CliRunner().invoke(app.command, ["--gcs-address", "nowhere"])
    assert result.exit_code == exit_codes.BAD_OPTION
    assert "--gcs-address" in result.stderr


def test_a_missing_entry_is_named():
    settings = app.read_settings(options(worker_entry="json:no_such", preload=""))
    with pytest.raises(ValueError, match="json:no_such"):
        app.load_entry(settings)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"pip": 1}', '{"env_vars": 1}', '{"env_vars": {"A": 1}}']
)
def test_a_wrong_runtime_environment_is_refused(text):
    with pytest.raises(ValueError, match="runtime environment"):
        environment_of(text)


def test_an_environment_that_changes_nothing_is_none():
    assert [canonical(text) for text in ("", "{}", '{"env_vars": {}}')] == ["", "", ""]
    assert s.DEFAULT_ENTRY == "driver_client.worker_main:run_worker"
