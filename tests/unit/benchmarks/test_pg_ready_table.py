"""The table and the picture of `pg_ready` by cluster size; the documents show the latest."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.pg_ready_sizes import with_table
from benchmarks.pg_ready_table import picture, sizes_of, table
from benchmarks.report import Row, parse

ROOT = Path(__file__).resolve().parents[3]


def measured(nodes: int, list_s: float, serial_s: float, delay_s: float = 0.0) -> list[Row]:
    params: dict[str, object] = {"nodes": nodes, "groups": nodes // 18, "sync_delay_s": delay_s}
    return [
        Row("pg_ready_list_s", list_s, "s", params),
        Row("pg_ready_serial_s", serial_s, "s", params),
        Row("rejected_prepare_ratio", 0.0, "1", params),
    ]


ROWS = [
    Row("machine_cores", 2.0, "1", {"memory_gib": 24}),
    *measured(2_000, 0.9, 1.08),
    *measured(200, 0.1, 0.11),
    *measured(200, 0.12, 0.13, delay_s=60.0),
]


def test_a_row_for_each_size_smallest_first():
    assert [(size.nodes, size.groups) for size in sizes_of(ROWS)] == [(200, 11), (2_000, 111)]
    lines = table(ROWS).splitlines()
    assert "2 cores and 24 GiB" in lines[0]
    assert lines[-2:] == [
        "| 200 | 11 | 0.1 s | 0.11 s | 1.10 | 0 % | 0.12 s | 0.13 s | 0 % |",
        "| 2,000 | 111 | 0.9 s | 1.08 s | 1.20 | 0 % | - | - | - |",
    ]


def test_the_picture_is_a_document_with_a_curve_for_each_form():
    root = ET.fromstring(picture(ROWS))
    curves = [one for one in root.iter() if one.tag.endswith("polyline")]
    assert [len((one.get("points") or "").split()) for one in curves] == [2, 2, 1]


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="no row"):
        picture([])


def test_only_what_stands_between_the_markers_is_replaced():
    text = "before\n<!-- pg_ready: begin -->\nold\n<!-- pg_ready: end -->\nafter\n"
    assert with_table(text, "new") == text.replace("old", "new")
    with pytest.raises(ValueError, match="begin"):
        with_table("no markers", "new")


@pytest.mark.parametrize("document", ["README.md", "docs/benchmarks.md"])
def test_the_documents_show_the_lines_that_are_kept(document):
    """After a change of either: `./run bench pg_ready_sizes --draw`."""
    kept = list(parse((ROOT / "docs" / "measured" / "pg_ready.jsonl").read_text()))
    assert {size.nodes for size in sizes_of(kept)} >= {200, 1_000, 2_000}
    assert table(kept) in (ROOT / document).read_text()
    assert (ROOT / "docs" / "measured" / "pg_ready.svg").read_text() == picture(kept)
