"""Bounds of an owner and of a worker's execution. Unit last."""

LEASE_LINGER_MS = 50
"""How long an idle lease is kept: the next task then saves a round trip (CALIBRATION section 1)."""

LEASE_REQUESTS_PENDING_MAX = 16
"""Outstanding lease requests per scheduling key; each grant makes room for the next."""

BACKLOG_TOLD_MS = 100
"""Between two messages that only say how many tasks of a key wait for no request."""

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

ACTOR_REPR_CHARS_MAX = 1_000
"""Of an actor's own `__repr__` in the errors of its methods."""

CONNECT_TIMEOUT_S = 10.0
HOME_WAIT_S = 20.0
"""For a driver to find a node that answers for its life, at the start and when it lost its own."""
HOME_POLL_S = 0.02

FINISH_JOB_S = 2.0
"""For the GCS to take the end of a job; without it an agent's word about the driver ends it."""

GOODBYE_S_MAX = 1.0
"""A process that ends gives its words to the agents so long to leave."""

CLOSE_S_MAX = 60.0
"""And this long to all its streams to close: tens of thousands take some seconds."""

AGENT_SESSIONS_OPENING_MAX = 256
"""Lease sessions that one process opens at once; more wait their turn, and their time to connect
begins with it: thousands at once only made each other late."""

GCS_CALL_TIMEOUT_S = 30.0
GCS_RECONNECT_S = 60.0
"""How long a process tries to reach a GCS that went away before its calls fail."""

VERDICT_REASON_S = 2.0
"""A driver that was declared dead asks the GCS why, at most so long, before its calls fail."""

LOST_AGENT_RETRY_MS_MIN = 100
LOST_AGENT_RETRY_MS_MAX = 5_000
"""Between two tries of requests that go to an agent which is gone: whoever names it does not know,
or nobody else schedules."""
LOST_AGENTS_REMEMBERED_MAX = 1_000
"""Addresses whose loss is not reported again before somebody answers there."""

RECONNECT_DELAY_MIN_S = 0.02
RECONNECT_DELAY_MAX_S = 0.5
AGENT_RECONNECT_S = 5.0
AGENT_DIAL_S = 1.0

ACTOR_GRACEFUL_EXIT_S = 30.0
"""After its last handle went an actor may finish what was called; then it is killed (Ray: 30 s)."""

TASK_RETRIES_DEFAULT = 3
PENDING_CALLS_WARN = 5_000
ACTORS_STARTING_MANY = 1_000
ACTORS_STARTING_FEW = 250
FULL_COLLECTIONS_WAIT_S = 60.0
"""Full garbage collections wait from the first number of actors that start at once until the second
is left, and at most this long."""

ACTOR_RECORDS_BATCH_MAX = 500
ACTOR_RECORDS_PAUSE_S = 0.1
"""Between two batches of one process: at most 5,000 records a second reach the GCS, and a record
that changes again meanwhile is sent once. Names that became free do not wait for it."""

TASK_EVENTS_UNSENT_MAX = 20_000
"""Executions a process remembers until they are sent, so about as many a second; more are counted
as lost. All of 130,000 calls a second cost 5 % of them, this budget about 1 %."""

TASK_EVENTS_BATCH_MAX = 10_000
"""Executions in one batch: encoding holds the interpreter for less than a millisecond."""

TASK_EVENTS_FLUSH_S = 1.0
"""After its first unsent execution a worker sends what it has; without any it does nothing."""

WAIT_EVENT_US_MIN = 100
"""Shorter waits in `get` and `wait` are not recorded."""

TASK_EVENTS_ASK_S = 5.0
"""For one agent to collect and send what its workers did."""

BORROW_GRACE_S = 5.0
LOG_LINES_MAX = 10_000
PACKAGE_HOLD_S_MAX = 30.0
PACKAGE_PUT_S_MAX = 600.0
"""Bringing one package to the agent on the same machine, or to the next one."""

PACKAGE_ROW_TRIES_MAX = 20
"""Others may write the same row of the directory at the same moment."""

PACKAGE_ACTORS_REMEMBERED_MAX = 10_000
"""Detached actors whose packages this process brings again when it loses its home agent."""

ENVIRONMENT_TEXTS_MAX = 1_000
"""Runtime environments of options that were packed already."""

EXIT_THREADS_WAIT_S = 10.0
EXIT_COROUTINES_WAIT_S = 2.0
ASYNC_CONCURRENCY_DEFAULT = 1_000
EXIT_ANSWERS_READ_S = 2.0
"""A worker that ends waits this long for its callers and its agent to say that they read its last
words. One that is gone is not waited for; only one that hangs, or was cut off, costs this time."""

INTERRUPT_LOOK_S = 1.0
"""A thread that blocks looks for signals this often, for one that came just before it blocked."""

LAST_OUTPUT_QUIET_S = 0.05
LAST_OUTPUT_MAX_S = 0.5
"""At shutdown a driver prints what workers still said until they are quiet, at most so long."""

GROUP_CACHE_MAX = 20_000
"""Placement groups remembered per process (bundle to node maps)."""

LOOP_SETTLED_MAX_S = 0.5
"""For what a connection left on its loop to end by itself, before it is cancelled."""
LOOP_CLEARED_MAX_S = 1.5
LOOP_JOINED_MAX_S = 5.0
"""For what a connection left on its loop to end, and for the thread after it."""

ATTEMPTS_KEPT = 64
"""Repeated calls of one actor that were answered since, before they are forgotten."""

TEMPLATES_MAX = 10_000
"""Functions, each with its options, that a peer was told of over one connection."""

SIGNATURES_KEPT = 10_000
"""Signatures of functions and methods, parsed once; the least used are parsed again."""
