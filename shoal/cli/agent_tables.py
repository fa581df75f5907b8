"""What the agents keep, for `shoal status -v`: the largest of each table over some of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cluster_api.v1 import agent_pb2
from shoal.cli import printing
from shoal.gcs_calls import ClusterCallError, GcsCalls, agent_state

AGENTS_ASKED_MAX = 32
"""All at once: a large cluster's oldest nodes, the head among them, stand for the others."""
ANSWER_S = 2.0

Tables = dict[str, dict[str, int]]


def agent_tables(gcs: GcsCalls) -> dict[str, Any]:
    """How many agents were asked and answered, and by name the largest figures of each table."""
    addresses = [node.address for node in gcs.nodes(alive_only=True, limit=AGENTS_ASKED_MAX).nodes]
    if not addresses:
        return {"asked": 0, "answered": 0, "tables": {}}
    with ThreadPoolExecutor(len(addresses)) as pool:
        answers = [answer for answer in pool.map(_asked, addresses) if answer is not None]
    largest: Tables = {}
    for answer in answers:
        for table in answer.tables:
            row = largest.setdefault(
                table.name, {"rows": 0, "rows_max": 0, "bytes": 0, "bytes_max": 0}
            )
            for name in row:
                row[name] = max(row[name], int(getattr(table, name)))
    return {"asked": len(addresses), "answered": len(answers), "tables": largest}


def print_agent_tables(found: dict[str, Any]) -> None:
    """For people."""
    of = f"{found['answered']} of {found['asked']} asked"
    printing.print_table(
        f"tables of agents, the largest of {of}",
        ("name", "rows", "at most", "bytes", "at most"),
        [
            [name, row["rows"], *(row[key] or "-" for key in ("rows_max", "bytes", "bytes_max"))]
            for name, row in found["tables"].items()
        ],
    )


def _asked(address: str) -> agent_pb2.GetAgentStateResponse | None:
    try:
        return agent_state(address, ANSWER_S)
    except ClusterCallError:
        return None  # counted as one that did not answer
