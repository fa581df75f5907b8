"""Bounds of the control service. Unit last; each line says why this size."""

from __future__ import annotations

# ---- nodes
NODES_MAX = 20_000
"""Nodes alive at once; twice the largest cluster of the scale model."""
DRAIN_ANSWER_MS_MAX = 2_000
"""How long a drain waits for the agent's word before it is acknowledged (or refused) without."""
DEAD_NODES_MAX = 1_000
"""Dead nodes kept for listing and for refusing their sessions; the oldest go first."""
RECONNECT_WINDOW_MS = 5_000
"""A node whose stream broke is dead when it has not resumed within this time."""
RECONNECT_REACHABLE_MS = 20_000
"""After a restart of the service: as long as the node's port answers it may take this long."""
PROBE_TIMEOUT_MS = 1_000
"""One dial of an agent's port after its stream broke."""
PROBE_INTERVAL_MS = 250
"""Between two dials of the same silent address."""
DRIVER_PROBE_INTERVAL_MS = 30_000
"""Between two looks at a driver, beside its home agent's: that may never have known it."""
PING_INTERVAL_MS = 30_000
"""Silence on a node's stream after which it is pinged."""
PING_TICKS = 60
"""Pings leave at so many moments of an interval (every 500 ms by default), those due in between
together: one wake-up of the threads for all of them."""
PING_LAST_INTERVAL_MS = 5_000
"""Between the last pings before a verdict; in proportion when the interval is another one."""
PINGS_MISSED_MAX = 3
"""Two in a row and a closer third without an answer: dead."""
DEADLINES_SHARE = 4
"""So many times as many deadlines as there are things to wait for; then superseded ones go."""
VERDICT_LAG_MS_MAX = 500
"""A verdict is put off when the checker itself was this late (FIELD_REPORTS O-19)."""

# ---- owners, jobs, actors
OWNER_TOMBSTONE_MS = 600_000
OWNER_TOMBSTONES_MAX = 100_000
JOBS_RUNNING_MAX = 10_000
JOBS_FINISHED_MAX = 1_000
ACTORS_DEAD_MAX = 10_000
ACTORS_MAX = 500_000
ACTOR_RETRY_FIRST_MS = 100
ACTOR_RETRY_MS_MAX = 1_000
"""Detached actors that found no room look again after 100 ms x 1.5 ... 1 s, and at every change."""
WATCHES_MAX = 1_000_000
"""Watches of groups, and of actors: each about 200 bytes."""
LIST_ROWS_MAX = 10_000
"""Rows of one list answer when the caller names no limit."""

# ---- key-value store
KV_KEY_BYTES_MAX = 4_096
KV_VALUE_BYTES_MAX = 64 << 20
KV_NAMESPACE_BYTES_MAX = 1 << 30
"""Quota of one namespace, keys and values together."""
KV_ROWS_MAX = 1_000_000
"""Rows of all namespaces together: with the smallest rows about 0.5 GB of memory."""
KV_PURGED_PER_PUT_MAX = 64
"""Expired values removed with one put: nobody waits for a large clean-up."""
KV_KEYS_LISTED_MAX = 100_000

# ---- demand
DEMAND_GROUPS_MAX = 1_000
"""Waiting groups of one snapshot, the oldest; an autoscaler buys for them first anyway."""
DEMAND_TAKEN_MAX = 100_000
"""Requests that one agent took and another one's report still counts; the oldest goes first."""
DEMAND_WAITERS_MAX = 1_000
DEMAND_WAIT_MS_MAX = 30_000
"""How long one question for a change may stay open."""
CONSTRAINT_ROWS_MAX = 10_000
NODE_TYPES_MAX = 1_000

# ---- executors and streams
EXECUTOR_BATCH_ITEMS_MAX = 256
"""Events an executor handles before it hands its effects over."""
EXECUTOR_QUEUE_ITEMS_MAX = 20_000
"""Calls that may wait for an executor before the streams that feed it are read more slowly."""
LOOP_OUTPUTS_MAX = 50_000
"""Outputs that may wait for the I/O loop before those streams are read more slowly."""
SESSIONS_MAX = 60_000
"""Open streams of all kinds; more are refused."""
LOOP_DRAIN_NS_MAX = 200_000
"""Outputs are carried out on the I/O loop for so long before it looks at its sockets again."""
STREAM_WRITES_PER_PASS = 2
"""Frames of all streams in one pass of the I/O loop: about 60 us each."""
STREAM_WRITES_UNDER_WAY = 4
"""gRPC reports the ends of writes in bunches; this is the largest bunch."""
STREAM_WRITES_FEW = 160
"""So many go in one pass when no more are waiting: a group's orders do not queue for turns."""
WRITE_SLOW_MS = 20
"""A write that takes longer waits for its peer, not for us: others need not wait for it."""
LOOP_STALL_WINDOW_MS = 5_000
"""The worst lateness of the I/O loop is shown for the present and the last such window."""
JOURNAL_ROWS_MAX = 50_000
"""Rows of one storage transaction."""
STORE_LOOK_MS = 2_000
"""Between two looks whether a store on another machine is there, also when nothing is written."""
STORE_RETRY_MS = 250
"""Between two tries to write while the store is lost."""
STORE_LOST_OUTPUTS_MAX = 200_000
STORE_LOST_ROWS_MAX = 1_000_000
"""What may wait for a lost store; beyond them the service ends, and agents state all anew later."""
REDIS_TIMEOUT_S = 2.0
"""One round trip to the Redis server; longer means that it is lost."""
BROADCAST_CHUNK_SESSIONS = 10
"""Streams served in one go by a fan-out; the loop breathes between."""
NODE_REVISIONS_KEPT = 10_000
"""Node changes a watcher may be behind before it gets a snapshot instead."""
SWITCH_INTERVAL_SECONDS = 0.0005
"""Interpreter switch interval: a busy executor delays the I/O loop by this, not by 5 ms."""
GC_THRESHOLDS = (20_000, 50, 100)
"""Messages make many short-lived objects; the defaults would look at them every 700."""
STOP_GRACE_SECONDS = 1.0
"""How long open calls may finish at an orderly stop."""
