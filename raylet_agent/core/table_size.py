"""How much of something an agent keeps, and its caps."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a


def table(
    name: str, rows: int, rows_max: int = 0, size_bytes: int = 0, bytes_max: int = 0
) -> a.AgentTable:
    """One line; a cap of 0 means that there is none of that kind."""
    return a.AgentTable(
        name=name, rows=rows, rows_max=rows_max, bytes=size_bytes, bytes_max=bytes_max
    )
