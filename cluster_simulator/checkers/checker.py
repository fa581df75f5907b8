"""What a checker is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_simulator.failure import InvariantError

if TYPE_CHECKING:
    from cluster_simulator.world import World


class Checker:
    """Looks at the world and raises `InvariantError`; changes nothing."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def during(self) -> None:
        """Must hold at any moment."""

    def at_rest(self) -> None:
        """Must hold when faults are over and everything has settled."""

    def after_all_left(self) -> None:
        """Must hold when every owner has ended and everything has settled again."""

    def broken(self, message: str, *about: bytes) -> InvariantError:
        """The error to raise."""
        return InvariantError(self.name, message, about)
