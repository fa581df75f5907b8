"""Places one gang as a whole, in the room there is and in nodes bought for it, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler import limits
from autoscaler.core.bins import Bin, Stock, passes
from autoscaler.core.wants import Gang, Shape
from cluster_common import resources

Domain = Mapping[str, str]


def place_gang(stock: Stock, gang: Gang, types_labels: Sequence[Mapping[str, str]]) -> bool:
    """Packs every bundle of the gang, or leaves the stock as it was.

    Args:
        stock: bins that are used and extended.
        gang: what is wanted.
        types_labels: labels of what can be bought, for the choice of a domain.
    """
    if not gang.packed_labels:
        return _Trial(stock, gang, {}).run()
    best: Domain | None = None
    fewest = 0
    for domain in _domains(stock, gang, types_labels):
        trial = _Trial(stock, gang, domain)
        if not trial.run():
            continue
        bought = trial.bought
        trial.undo()
        if best is None or bought < fewest:
            best, fewest = domain, bought
        if fewest == 0:
            break
    return best is not None and _Trial(stock, gang, best).run()


def _domains(
    stock: Stock, gang: Gang, types_labels: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """Values of the packed labels that nodes have or could have, in a fixed order."""
    found: dict[tuple[str, ...], None] = {}
    for labels in [*(one.labels for one in stock.bins), *types_labels]:
        values = tuple(labels.get(label, "") for label in gang.packed_labels)
        if all(values):
            found[values] = None
    domains = [dict(zip(gang.packed_labels, values, strict=True)) for values in sorted(found)]
    decided = gang.packed_values
    fitting = [d for d in domains if all(d.get(key) == decided[key] for key in decided)]
    return fitting[: limits.DOMAINS_TRIED_MAX]


class _Trial:
    """One try within one domain; everything it did can be undone."""

    def __init__(self, stock: Stock, gang: Gang, domain: Domain) -> None:
        self._stock = stock
        self._gang = gang
        self._domain = domain
        self._taken: list[tuple[Bin, Mapping[str, int]]] = []
        self._bought: list[Bin] = []
        self._own: dict[int, Bin] = {}

    @property
    def bought(self) -> int:
        """Nodes bought by this try."""
        return len(self._bought)

    def run(self) -> bool:
        """False: undone already."""
        bundles = self._gang.bundles
        if self._gang.strategy == "STRICT_PACK":
            bundles = (_together(bundles),)
        # The hardest first: what is left over must not decide against it.
        for bundle in sorted(bundles, key=hardness):
            chosen = self._choose(bundle)
            if chosen is None:
                self.undo()
                return False
            chosen.take(bundle.amounts)
            self._taken.append((chosen, bundle.amounts))
            self._own[id(chosen)] = chosen
        return True

    def undo(self) -> None:
        """Leaves no trace."""
        for one, amounts in reversed(self._taken):
            one.give_back(amounts)
        for one in reversed(self._bought):
            self._stock.unbuy(one)
        self._taken, self._bought, self._own = [], [], {}

    def _choose(self, bundle: Shape) -> Bin | None:
        strategy = self._gang.strategy
        fitting = [one for one in self._stock.bins if self._may(one, bundle)]
        mine = [one for one in fitting if id(one) in self._own]
        others = [one for one in fitting if id(one) not in self._own]
        if strategy == "STRICT_SPREAD":
            return others[0] if others else self._buy(bundle)
        if strategy == "SPREAD":
            # Spreading is a wish: nodes are not bought for it.
            return (others or mine or [None])[0] or self._buy(bundle)
        return (mine or others or [None])[0] or self._buy(bundle)

    def _may(self, one: Bin, bundle: Shape) -> bool:
        if self._gang.apart and self._gang.apart in one.apart:
            return False
        return passes(one.labels, bundle.selector, self._domain) and bool(
            one.capacity(bundle.amounts)
        )

    def _buy(self, bundle: Shape) -> Bin | None:
        copies = len(self._gang.bundles) if self._gang.strategy == "PACK" else 1
        node_type = self._stock.best_type(bundle, copies, self._domain)
        if node_type is None:
            return None
        made = self._stock.buy(node_type)
        self._bought.append(made)
        return made


def hardness(shape: Shape) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Order of packing: many kinds of resources first, then large amounts, then by name."""
    amounts = shape.amounts
    return -len(amounts), -sum(amounts.values()), tuple(sorted(amounts.items()))


def _together(bundles: tuple[Shape, ...]) -> Shape:
    amounts = resources.total_of([bundle.amounts for bundle in bundles])
    terms = tuple(dict.fromkeys(term for bundle in bundles for term in bundle.selector))
    return Shape(amounts, terms)
