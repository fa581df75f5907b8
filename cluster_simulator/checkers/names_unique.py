"""Names and incarnations are unique: one living holder of a name, one worker for an actor."""

from __future__ import annotations

from cluster_api.v1 import types_pb2 as t
from cluster_simulator.checkers.checker import Checker


class NamesUnique(Checker):
    """Named actors and groups at the GCS, running actors on the nodes."""

    name = "names_unique"

    def during(self) -> None:
        """No name has two living holders; no incarnation of an actor runs twice."""
        running: dict[tuple[bytes, int], str] = {}
        for address, worker in self.world.workers.items():
            if worker.actor is None:
                continue
            if worker.actor in running:
                actor_id, incarnation = worker.actor
                message = f"incarnation {incarnation} of {actor_id.hex()} runs twice"
                raise self.broken(message, actor_id)
            running[worker.actor] = address
        gcs = self.world.gcs
        if gcs is None:
            return
        names: dict[tuple[str, str], bytes] = {}
        for record in gcs.core.actors.newest_first():
            if not record.name or record.state == t.ACTOR_STATE_DEAD:
                continue
            key = (record.namespace, record.name)
            if key in names:
                message = f"two living actors are named {record.name!r}"
                raise self.broken(message, record.actor_id, names[key])
            names[key] = record.actor_id

    def at_rest(self) -> None:
        """A detached actor runs exactly where the GCS says; no older incarnation runs."""
        gcs = self.world.gcs
        assert gcs is not None, "at rest the GCS runs"
        known = {r.actor_id: r for r in gcs.core.actors.newest_first() if r.detached}
        newest: dict[bytes, int] = {}
        for agent in self.world.agents.values():
            for worker in agent.workers.living.values():
                if worker.actor is None or not worker.alive:
                    continue
                actor_id, incarnation = worker.actor
                if actor_id in newest:
                    raise self.broken(f"actor {actor_id.hex()} runs twice", actor_id)
                newest[actor_id] = incarnation
                record = known.get(actor_id)
                if record is not None and record.node_id != agent.node_id:
                    message = (
                        f"detached actor {actor_id.hex()} runs on {agent.name} unknown to the GCS"
                    )
                    raise self.broken(message, actor_id, agent.node_id)
        for actor_id, record in known.items():
            alive = record.state == t.ACTOR_STATE_ALIVE
            if alive != (newest.get(actor_id) == record.incarnation):
                state = t.ActorState.Name(record.state)
                message = (
                    f"detached actor {actor_id.hex()} is {state}, running: {newest.get(actor_id)}"
                )
                raise self.broken(message, actor_id, record.node_id)
