"""Groups hold all of their bundles or none: what the GCS says is what agents hold."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.checkers.checker import Checker

_GONE = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)


class GroupAtomicity(Checker):
    """CREATED means committed everywhere, at any moment; at rest nothing else is held."""

    name = "group_atomicity"

    def during(self) -> None:
        """A group that is CREATED is held, committed, by every named agent that runs."""
        gcs = self.world.gcs
        if gcs is None:
            return
        for record in gcs.core.placement.records():
            if record.state == pg.PLACEMENT_GROUP_STATE_CREATED:
                self._created(record)

    def _created(self, record: pg.PlacementGroupRecord) -> None:
        group_id = record.spec.placement_group_id
        for index, node_id in enumerate(record.bundle_nodes):
            agent = self.world.nodes.get(node_id)
            if agent is None:
                continue  # dead: the GCS has yet to see it
            held = [b for b in agent.core.ledger.bundles.of_group(group_id) if b.index == index]
            if not any(bundle.committed and not bundle.returning for bundle in held):
                what = "does not hold it" if not held else "has not committed it"
                message = f"group {group_id.hex()} is CREATED, bundle {index}: {agent.name} {what}"
                raise self.broken(message, group_id, node_id)

    def at_rest(self) -> None:
        """Exactly what the records say is held, once."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        wanted: dict[tuple[bytes, int], tuple[bytes, int]] = {}
        for record in gcs.core.placement.records():
            if record.state in _GONE:
                continue
            for index, node_id in enumerate(record.bundle_nodes):
                if node_id:
                    attempt = record.bundle_attempts[index]
                    wanted[record.spec.placement_group_id, index] = (node_id, attempt)
        held: dict[tuple[bytes, int], tuple[bytes, int]] = {}
        for agent in self.world.agents.values():
            for bundle in agent.core.ledger.bundles.rows():
                key = (bundle.group_id, bundle.index)
                if key in held:
                    message = f"bundle {bundle.index} of {bundle.group_id.hex()} is held twice"
                    raise self.broken(message, bundle.group_id, agent.node_id, held[key][0])
                held[key] = (agent.node_id, bundle.attempt)
        for key in [*wanted, *held]:
            if wanted.get(key) != held.get(key):
                group_id, index = key
                message = (
                    f"bundle {index} of {group_id.hex()}: the GCS says {_text(wanted.get(key))},"
                    f" agents hold {_text(held.get(key))}"
                )
                nodes = [x[0] for x in (wanted.get(key), held.get(key)) if x is not None]
                raise self.broken(message, group_id, *nodes)


def _text(place: tuple[bytes, int] | None) -> str:
    return "nothing" if place is None else f"attempt {place[1]} on {place[0].hex()[:8]}"
