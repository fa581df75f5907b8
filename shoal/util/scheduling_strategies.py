"""Where a task or actor may run."""

from driver_client.strategies import (
    DEFAULT_SCHEDULING_STRATEGY,
    SPREAD_SCHEDULING_STRATEGY,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from shoal.util.label_terms import DoesNotExist, Exists, In, NotIn

__all__ = [
    "DEFAULT_SCHEDULING_STRATEGY",
    "SPREAD_SCHEDULING_STRATEGY",
    "DoesNotExist",
    "Exists",
    "In",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "NotIn",
    "PlacementGroupSchedulingStrategy",
]
