"""How long things take, in virtual microseconds; measured on two cores (docs of the benchmarks).

The network's delays are a data centre's; the costs of one item include encoding and gRPC's share
when items travel in frames.
"""

from __future__ import annotations

NETWORK_US = 150
NETWORK_JITTER_US = 100
WRITE_US = 120
"""One write in flight: what is queued meanwhile goes as one frame."""

GCS_ITEM_US = 45
"""One item of a node session through the GCS's I/O loop and its core."""
GCS_FRAME_US = 60
GCS_OUT_ITEM_US = 25
AGENT_ITEM_US = 80
OWNER_ITEM_US = 40
COMMIT_US = 900
COMMIT_JITTER_US = 1_500
"""A group commit with `synchronous=FULL`."""

FORK_US = 3_000
WORKER_START_US = 9_000
"""From the fork to the registration; a node's cores share this (CALIBRATION section 2)."""
WORKER_END_US = 1_500
CONSTRUCTOR_US = 2_000
GRACEFUL_EXIT_US = 5_000
CALL_US = 400

DETECT_US = 2_000
"""A broken connection is seen so much later by the end that did not break it."""
PROBE_SILENT_US = 1_000_000
"""A dial that nobody answers, refuses or resets."""
CONNECT_TIMEOUT_US = 1_000_000
KEEPALIVE_US = 4_000_000
"""A connection that carries nothing through is given up."""

WALL_START_MS = 1_700_000_000_000
