"""Figures: rounding, the direction of better, medians, and what counts as a row."""

from __future__ import annotations

import json

from benchmarks.part_run import medians
from benchmarks.report import Row, emit, parse, ratio, rounded


def test_above_one_is_better_for_rates_and_for_costs():
    assert ratio(200, 100, "1/s") == 2.0
    assert ratio(0.5, 1.0, "s") == 2.0
    assert ratio(300, 600, "MiB") == 2.0
    assert ratio(0.0, 10.0, "%") == float("inf")


def test_a_row_survives_printing_and_parsing_beside_other_output(capsys):
    emit(Row("boot_s", 1.23456, "s", {"nodes": 36}))
    printed = capsys.readouterr().out
    assert json.loads(printed) == {
        "name": "boot_s",
        "value": 1.235,
        "unit": "s",
        "params": {"nodes": 36},
    }
    assert list(parse("noise\n" + printed)) == [Row("boot_s", 1.235, "s", {"nodes": 36})]


def test_medians_keep_the_order_and_count_the_samples():
    rows = [Row("b", 3.0, "s"), Row("a", 1.0, "1/s"), Row("b", 1.0, "s"), Row("b", 2.0, "s")]
    assert medians(rows) == [
        Row("b", 2.0, "s", {"samples": 3}),
        Row("a", 1.0, "1/s", {"samples": 1}),
    ]


def test_rounding_keeps_four_digits():
    assert [rounded(value) for value in (0.00012345, 123456.0, 1.0)] == [0.0001234, 123500.0, 1.0]
