"""Demand of all agents by shape: what waits for room, and what no node could ever hold."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns


class DemandTable:
    """The newest report of each node. `version` grows with every change."""

    def __init__(self) -> None:
        self._reports: dict[bytes, ns.DemandReport] = {}
        self.version = 1

    def __len__(self) -> int:
        return len(self._reports)

    def report(self, node_id: bytes, report: ns.DemandReport) -> None:
        """The whole demand of an agent; an older report than the known one changes nothing."""
        known = self._reports.get(node_id)
        if known is not None and known.version >= report.version:
            return
        self._reports[node_id] = report
        self.version += 1

    def forget(self, node_id: bytes) -> None:
        """The agent is gone (or begins a new session, which states its demand anew)."""
        if self._reports.pop(node_id, None) is not None:
            self.version += 1

    def entries(self) -> list[ns.DemandEntry]:
        """Sums over nodes; shapes in order of their text, so that two looks compare."""
        sums: dict[tuple[str, str, bool], ns.DemandEntry] = {}
        for report in self._reports.values():
            for entry in report.entries:
                resources = ",".join(f"{k}={v}" for k, v in sorted(entry.resources.amounts.items()))
                selector = ",".join(f"{k}={v}" for k, v in sorted(entry.selector.terms.items()))
                key = (resources, selector, entry.infeasible)
                known = sums.get(key)
                if known is None:
                    sums[key] = known = ns.DemandEntry()
                    known.CopyFrom(entry)
                else:
                    known.count += entry.count
        return [sums[key] for key in sorted(sums)]
