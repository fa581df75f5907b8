"""What others do and this system does not: every few seconds the placer forgets its reservations.

Only here, to show that the checkers would see it: with snapshots that come later than the reset,
rooms that are taken look free, and prepares are refused.
"""

from __future__ import annotations

from cluster_simulator.world import World

RESET_US = 3_000_000


class ForgetfulPlacer:
    """Resets the GCS's view of every node to what the node reported last."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        """From now on, every three seconds."""
        self._world.heap.after(RESET_US, self._forget)

    def _forget(self) -> None:
        gcs = self._world.gcs
        if gcs is not None:
            state = gcs.core.placement._state  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - breaks it on purpose
            for node in state.nodes.values():
                node.reservations.clear()
                node.singles.clear()
                node.room_class = node.base_class
                state.room_changed(node)
        self.start()
