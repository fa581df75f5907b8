"""Habits of the house that no linter knows."""

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARTS = (
    "cluster_common",
    "gcs_service",
    "raylet_agent",
    "driver_client",
    "cluster_simulator",
    "shoal",
    "benchmarks",
)
SOURCES = sorted(p for part in PARTS for p in (ROOT / part).rglob("*.py"))
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
NAMES_OF_NOTHING = {"utils", "helpers", "helper", "common", "manager", "misc"}


def relative(path):
    return str(path.relative_to(ROOT))


def test_no_file_is_longer_than_400_lines():
    long = {
        relative(p): n for p in SOURCES if (n := len(p.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert long == {}


def test_no_function_is_longer_than_70_lines():
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = _first_statement(node)
                lines = (node.end_lineno or 0) - body + 1
                if lines > FUNCTION_LINES_MAX:
                    long[f"{relative(path)}:{node.name}"] = lines
    assert long == {}


def _first_statement(node):
    """Signatures and docstrings do not count: options of a public call are many and documented."""
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1].lineno if documented and len(node.body) > 1 else first.lineno


def test_every_file_is_about_a_noun():
    nameless = [relative(p) for p in SOURCES if p.stem in NAMES_OF_NOTHING]
    assert nameless == []


def test_every_module_says_what_it_is_for():
    silent = [
        relative(p)
        for p in SOURCES
        if p.read_text() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_nothing_is_left_for_later():
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [relative(p) for p in SOURCES if marks.search(p.read_text())]
    assert found == []


def test_no_path_of_one_machine_is_in_the_tree():
    machine = re.compile(r"(?<![\w.])/(work|home/[a-z]+|root)/")
    found = [relative(p) for p in SOURCES if machine.search(p.read_text())]
    assert found == []


@pytest.mark.parametrize("script", ["run", ".ci/run"])
def test_scripts_can_be_executed(script):
    assert os.access(ROOT / script, os.X_OK)


def test_every_package_is_typed():
    untyped = [part for part in PARTS[:-1] if not (ROOT / part / "py.typed").exists()]
    assert untyped == []
