from __future__ import annotations

import json

from benchmarks import pg_choose


def test_it_prints_one_row_a_figure(monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["pg_choose", "--nodes", "400", "--groups", "5", "--bundles", "4"]
    )
    pg_choose.main()
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == [
        "choose_total_s",
        "choose_fragmented_total_s",
        "create_total_s",
        "choose_one_freed_ms",
        "choose_one_freed_max_ms",
    ]
    assert rows[0]["params"] == {"nodes": 400, "groups": 5, "bundles": 4}
    assert rows[2]["params"]["commands"] == 20
    assert all(row["value"] > 0 for row in rows)
