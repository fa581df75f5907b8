from __future__ import annotations

from pathlib import Path

import pytest

from driver_client.core.runtime_env_rules import FIELDS, check, merged
from driver_client.runtime_env import RuntimeEnv, RuntimeEnvConfig

GOOD = [
    {},
    {"working_dir": "."},
    {"working_dir": Path()},
    {"py_modules": ["a", Path("b"), pytest]},
    {"pip": ["a", "--no-index"]},
    {"pip": "requirements.txt"},
    {"pip": {"packages": ["a"], "pip_check": True, "pip_version": "==24.0"}},
    {"uv": {"packages": ["a"], "uv_pip_install_options": ["--offline"]}},
    {"config": {"setup_timeout_seconds": -1, "eager_install": False}},
    {"config": RuntimeEnvConfig(setup_timeout_seconds=5)},
    {"worker_process_setup_hook": print},
    {"worker_process_setup_hook": "package.module.function"},
    {"excludes": ["*.log"], "env_vars": None},
]
BAD = [
    ({"conda": "x"}, "conda"),
    ({"working_dir": 1}, "working_dir"),
    ({"working_dir": "s3://bucket/x.zip"}, "s3://"),
    ({"working_dir": ""}, "empty"),
    ({"py_modules": "x"}, "py_modules"),
    ({"py_modules": [1]}, "py_modules"),
    ({"pip": 1}, "pip"),
    ({"pip": [1]}, "pip"),
    ({"pip": {"packages": ["a"], "check": True}}, "check"),
    ({"pip": {"pip_check": True}}, "packages"),
    ({"pip": {"packages": ["a"], "pip_version": "24.0"}}, "specifier"),
    ({"uv": {"packages": ["a"], "pip_check": True}}, "pip_check"),
    ({"pip": ["a"], "uv": ["b"]}, "not both"),
    ({"config": {"setup_timeout_seconds": 0}}, "above 0"),
    ({"config": {"setup_timeout_seconds": True}}, "whole number"),
    ({"config": {"log_files": []}}, "log_files"),
    ({"excludes": "x"}, "excludes"),
    ({"worker_process_setup_hook": "plain"}, "module.function"),
    ({"env_vars": {"A=B": "x"}}, "A=B"),
    ([], "dict"),
]


@pytest.mark.parametrize("environment", GOOD)
def test_what_is_offered_passes(environment):
    check("runtime_env", environment)


@pytest.mark.parametrize(("environment", "told"), BAD)
def test_what_is_wrong_is_named(environment, told):
    with pytest.raises((ValueError, TypeError), match="runtime_env") as caught:
        check("runtime_env", environment)
    assert told in str(caught.value)


def test_an_unknown_field_names_the_allowed_ones():
    with pytest.raises(ValueError, match="has no field 'conda'") as caught:
        RuntimeEnv(conda="x")
    assert all(field in str(caught.value) for field in FIELDS)


def test_variables_merge_and_other_fields_are_replaced():
    parent = {"env_vars": {"A": "1", "B": "1"}, "working_dir": "p", "py_modules": ["x"]}
    child = {"env_vars": {"B": "2"}, "py_modules": ["y"]}
    assert merged(parent, child) == {
        "env_vars": {"A": "1", "B": "2"},
        "working_dir": "p",
        "py_modules": ["y"],
    }


def test_pip_and_uv_replace_each_other():
    assert merged({"pip": {"packages": ["a"]}}, {"uv": {"packages": ["b"]}}) == {
        "uv": {"packages": ["b"]}
    }
    assert merged({"uv": ["b"]}, {"env_vars": {"A": "1"}}) == {
        "uv": ["b"],
        "env_vars": {"A": "1"},
    }


def test_the_class_is_a_dict_that_checks_itself():
    environment = RuntimeEnv(pip=["a"], env_vars={"A": "1"})
    assert environment == {"pip": ["a"], "env_vars": {"A": "1"}}
    assert environment.has_pip()
    assert not environment.has_uv()
    assert RuntimeEnv.deserialize(environment.serialize()) == environment
    with pytest.raises(TypeError, match="env_vars"):
        environment["env_vars"] = {"A": 1}
    assert environment.to_dict() is not environment
