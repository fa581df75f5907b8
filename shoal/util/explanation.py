"""Records of `explain` and `would_fit` (CONTRACT: Placement groups)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import resources
from driver_client.group_change import state_name


@dataclass(frozen=True, slots=True)
class BundleExplanation:
    """One bundle: `fitting_nodes + sum(rejected.values())` = nodes alive."""

    index: int
    resources: dict[str, float]
    placed_on: str | None
    fitting_nodes: int
    rejected: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DomainExplanation:
    """The best topology domain and what it lacks."""

    label: str
    value: str
    fitting: int
    wanted: int
    lacks: str

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a group is where it is: one stable token, one sentence, counts per bundle."""

    state: str
    reason: str
    message: str
    fits: bool
    bundles: tuple[BundleExplanation, ...]
    best_domain: DomainExplanation | None
    blocked_by: tuple[str, ...]
    overtaken: int

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.state or 'DRY RUN'} {self.reason}: {self.message}"]
        for bundle in self.bundles:
            refused = ", ".join(f"{count} {token}" for token, count in bundle.rejected.items())
            where = f"on {bundle.placed_on[:12]}" if bundle.placed_on else "not placed"
            lines.append(
                f"  bundle {bundle.index} {bundle.resources} {where}: "
                f"{bundle.fitting_nodes} node(s) fit" + (f"; refused: {refused}" if refused else "")
            )
        if self.best_domain is not None:
            best = self.best_domain
            lines.append(
                f"  best {best.label} {best.value!r}: {best.fitting} of {best.wanted}; {best.lacks}"
            )
        return "\n".join(lines)


def from_message(answer: pg.ExplainResponse) -> Explanation:
    """The record of an answer."""
    best = answer.best_domain
    domain = (
        DomainExplanation(best.label, best.value, best.fitting, best.wanted, best.lacks)
        if answer.HasField("best_domain") and best.label
        else None
    )
    return Explanation(
        state=state_name(answer.state) if answer.state else "",
        reason=answer.reason,
        message=answer.message,
        fits=answer.fits,
        bundles=tuple(
            BundleExplanation(
                bundle.index,
                resources.floats(bundle.resources.amounts),
                bundle.placed_on.hex() or None,
                bundle.fitting_nodes,
                {token: bundle.rejected[token] for token in sorted(bundle.rejected)},
            )
            for bundle in answer.bundles
        ),
        best_domain=domain,
        blocked_by=tuple(group.hex() for group in answer.blocked_by),
        overtaken=answer.overtaken,
    )
