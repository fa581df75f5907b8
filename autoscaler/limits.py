"""Bounds of the autoscaler. Unit last."""

from __future__ import annotations

NODES_PER_TYPE_MAX = 100_000
NODE_TYPES_MAX = 1_000
IDLE_TIMEOUT_DEFAULT_S = 60.0

DOMAINS_TRIED_MAX = 64
"""Label values tried for one gang that must stay within one (`topology_strategy`)."""

INFEASIBLE_TOLD_MAX = 100
"""Shapes and gangs named in one report as beyond all node types."""

POLL_S = 5.0
"""One question for a change of demand stays open this long: a lost wake-up costs no more."""
STEP_INTERVAL_S = 0.2
"""Between two steps: changes that come meanwhile make one step."""
CALL_TIMEOUT_S = 10.0
RETRY_S = 0.5
"""After a question that failed, while the GCS is away."""

LAUNCH_TIMEOUT_S = 60.0
"""A node that did not register within this time is given up and bought anew."""
LAUNCH_BACKOFF_S = 10.0
"""After a failed launch its node type is left alone for this long."""
LAUNCHES_PER_STEP_MAX = 100
FAILURES_TOLD_MAX = 100
STOP_GRACE_S = 10.0
LAUNCHER_LINE_BYTES_MAX = 1 << 20
"""One line of the process that forks local agents."""
