"""Bounds of the agent. Unit last."""

from __future__ import annotations

STOP_DRAIN_S = 8.0
"""After SIGTERM what runs has this long, unless `stop_grace_s` says otherwise: container runtimes
kill after 10 s."""

DRAIN_MARGIN_MS_MAX = 1_000
DRAIN_MARGIN_SHARE = 10
"""A drained node ends before its deadline by 1/10 of the time it had, so that the news gets out."""

LAST_WORDS_S = 0.3
"""At the end of the agent, for owners to hear what became of their leases."""

DRAIN_KILL_MS = 1_000
"""For killed workers to be gone and told of; then the agent ends whatever is left."""

LEASES_QUEUED_MAX = 200_000
"""Requests that wait on one agent; more are refused: a runaway submitter fails, not the node."""

WORKERS_MAX = 4_000
"""Worker processes of one agent."""

WORKER_STARTS_IN_FLIGHT_MAX = 16
"""Forked and not yet registered. A start costs about 5 ms of CPU: more at once only slows each."""

WORKER_START_TRIES_MAX = 3
WORKER_REGISTER_TIMEOUT_MS = 30_000
WORKER_EXIT_GRACE_MS = 12_000
"""After a graceful exit order: 10 s for the user's threads (CONTRACT), then a kill."""

LINK_LOST_GRACE_MS = 500
"""A worker whose link closed ends by itself; after this it is killed."""

WORKER_IDLE_LINGER_MS = 60_000
WORKERS_FORKED_AHEAD_DEFAULT = 2
REFILL_QUIET_MS = 100
"""Forking ahead waits for this long without lease traffic, so that it never competes with work."""

OWNER_REOPEN_MS = 2_000
"""A driver whose home session broke is dead when it did not come back within this time."""

OWNER_PROBE_MS = 1_000
"""Between looking whether the process of a broken session from elsewhere still listens."""

OWNER_TOMBSTONE_MS = 600_000
OWNER_TOMBSTONES_MAX = 100_000
CANCEL_TOMBSTONE_MS = 600_000
CANCEL_TOMBSTONES_MAX = 100_000
GROUP_TOMBSTONE_MS = 600_000
GROUP_TOMBSTONES_MAX = 100_000

GIVE_BACK_INTERVAL_MS = 20
"""Owners are asked for idle leases at most this often; unasked they return them after 50 ms."""

DEDUCTION_MS = 3_000
DEDUCTION_SETTLED_MS = 250
"""A snapshot received this long after a redirect includes the lease, if it ever came there."""

REJECTION_HOLD_MS = 100
"""A node that rejected a lease is not chosen for it again before its view changed, or this."""

AFFINITY_UNKNOWN_WAIT_MS = 2_000
"""Work bound to a node nobody here heard of waits this long for its view: it may just have joined.
A view comes within milliseconds of the join; under load within some hundred."""

DEAD_NODES_REMEMBERED_MAX = 10_000
"""Work bound to one of these is not kept waiting for a view; the longest dead goes first."""

HYBRID_UTILISATION_FREE = 0.5
"""Utilisation below this counts as none: fill nodes half before spreading."""

HYBRID_TOP_SHARE = 5
"""Chosen at random among the first 1/5 of the candidates."""

COUNTS_REPORT_DELAY_MS = 250
"""Numbers of workers and leases alone are not worth a snapshot each."""

DEMAND_ENTRIES_MAX = 1_000

LEASES_IN_TRANSIT_MAX = 10_000
LEASE_IN_TRANSIT_MS = 8_000
"""A request sent to another node that nobody saw arrive was cancelled on its way."""

LEASES_TAKEN_NAMED_MAX = 128
LEASE_TAKEN_NAMED_MS = 10_000
"""How many and how long snapshots name the requests that came from a scheduler and took room."""

LOG_LINES_QUEUED_MAX = 10_000
"""Lines that wait for one driver; older ones are dropped and counted."""

LOG_LINE_BYTES_MAX = 16 * 1024
LOG_BATCH_LINES_MAX = 500
LOG_READ_BYTES = 64 * 1024
LOG_LAST_READS_MAX = 64
LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
LOG_PUSH_LINGER_S = 30.0
"""An unused stream of output to a driver is closed after this."""

LOG_PUSH_RETRY_S = 5.0
"""A driver that took no output is left alone for this long."""

STDERR_TAIL_BYTES = 2_000
"""How much of a failed worker's standard error goes into the error message."""

GCS_BACKOFF_MIN_S = 0.05
GCS_BACKOFF_MAX_S = 0.5
STOP_GRACE_S = 3.0
SPAWN_PACKET_BYTES_MAX = 128 * 1024
"""One request to the fork server: environment variables above this are refused."""
