"""Where a task or actor may run."""

from driver_client.strategies import (
    DEFAULT_SCHEDULING_STRATEGY,
    SPREAD_SCHEDULING_STRATEGY,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from shoal.util.label_terms import In, NotIn

__all__ = [
    "DEFAULT_SCHEDULING_STRATEGY",
    "SPREAD_SCHEDULING_STRATEGY",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]
