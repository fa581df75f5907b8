"""Bounds of an owner and of a worker's execution. Unit last."""

LEASE_LINGER_MS = 50
"""How long an idle lease is kept: the next task then saves a round trip (CALIBRATION section 1)."""

LEASE_REQUESTS_PENDING_MAX = 16
"""Outstanding lease requests per scheduling key; each grant makes room for the next."""

PIPELINE_DEPTH_MAX = 32
"""Tasks in flight per leased worker when they are known to be short."""

PIPELINE_WINDOW_US = 4_000
"""Work pipelined to one worker at most, by the running mean of the task's duration."""

TAKE_BACK_AFTER_MS = 10
"""A task that runs longer sends what is queued behind it back to its owner."""

CALL_FRAME_ITEMS_MAX = 512
CALL_FRAME_BYTES_MAX = 1 << 20
RESULT_FRAME_ITEMS_MAX = 1_024

DROPPED_REFERENCES_MAX = 256
"""Dropped references that may wait for the I/O thread's next pass before it is woken for them."""

DROPPED_BYTES_PROMPT = 64 * 1024
"""A dropped own value larger than this is freed at once, like whatever others wait for."""

BLOCKED_AFTER_MS = 5
"""A worker that waits in `get` longer tells its agent, which lends its CPU to others meanwhile."""

ARGUMENT_INLINE_BYTES_MAX = 100 * 1024
OBJECT_CHUNK_BYTES = 1 << 20
OBJECT_BYTES_MAX = 1 << 29
"""Largest single value: it travels inside frames until a node's object store carries large ones."""

CONNECT_TIMEOUT_S = 10.0
GCS_CALL_TIMEOUT_S = 30.0
GCS_RECONNECT_S = 60.0
"""How long a process tries to reach a GCS that went away before its calls fail."""

RECONNECT_DELAY_MIN_S = 0.02
RECONNECT_DELAY_MAX_S = 0.5
AGENT_RECONNECT_S = 5.0

ACTOR_GRACEFUL_EXIT_S = 30.0
"""After its last handle went an actor may finish what was called; then it is killed (Ray: 30 s)."""

TASK_RETRIES_DEFAULT = 3
PENDING_CALLS_WARN = 5_000
ACTOR_RECORDS_BATCH_MAX = 500
BORROW_GRACE_S = 5.0
LOG_LINES_MAX = 10_000
EXIT_THREADS_WAIT_S = 10.0
EXIT_COROUTINES_WAIT_S = 2.0
ASYNC_CONCURRENCY_DEFAULT = 1_000
EXIT_FLUSH_S = 0.1
"""A worker that ends gives gRPC this long to hand its last answers to the kernel."""

INTERRUPT_LOOK_S = 1.0
"""A thread that blocks looks for signals this often, for one that came just before it blocked."""

LAST_OUTPUT_QUIET_S = 0.05
LAST_OUTPUT_MAX_S = 0.5
"""At shutdown a driver prints what workers still said until they are quiet, at most so long."""

GROUP_CACHE_MAX = 20_000
"""Placement groups remembered per process (bundle to node maps)."""
