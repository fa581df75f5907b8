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
"""A driver whose home session did not come back within this time is suspected: the GCS asks it."""

OWNER_AWAY_MS = 20_000
"""What an owner leased here ends when it did not come back within this time, dead or not. It tries
for 5 s (and one more attempt, if that takes long); then it counts its leases here as lost."""

OWNER_DIAL_S = 2.0
OWNER_PROBE_MS = 1_000
"""Between looking whether the process of a broken session still listens."""

OWNER_HOME_PROBE_MS = 100
"""The same for a broken home session, until it is back or `OWNER_REOPEN_MS` are over."""

OWNER_TOMBSTONE_MS = 600_000
OWNER_TOMBSTONES_MAX = 100_000
CANCEL_TOMBSTONE_MS = 600_000
CANCEL_TOMBSTONES_MAX = 100_000
GROUP_TOMBSTONE_MS = 600_000
GROUP_TOMBSTONES_MAX = 100_000

GIVE_BACK_INTERVAL_MS = 20
"""Owners are asked for idle leases at most this often; unasked they return them after 50 ms."""

DEDUCTION_MS = 3_000
"""What was sent to a node counts there so long, unless its snapshot or its owner says more."""

SENDINGS_NAMED_MAX = 1_000
SCHEDULERS_NAMED_MAX = 16
"""Requests that a snapshot names one by one as come, for each of so many schedulers. Two bytes
each, and only those that came before an earlier one did."""

ROOM_INDEXES_MAX = 256
"""Shapes for which a scheduler keeps the nodes in order."""

VIEW_CHANGES_KEPT_MAX = 20_000
"""Changes of views that a shape's order may be behind; beyond, it is made anew."""

REJECTION_HOLD_MS = 100
"""A node that rejected a lease is not chosen for it again before its view changed, or this."""

AFFINITY_UNKNOWN_WAIT_MS = 2_000
"""Work bound to a node nobody here heard of waits this long for its view: it may just have joined.
A view comes within milliseconds of the join; under load within some hundred."""

NODE_QUESTIONS_MAX = 1_000
"""Unknown nodes the GCS is asked about at once; work bound to others waits for the time-out."""

DEAD_NODES_REMEMBERED_MAX = 10_000
"""Work bound to one of these is not kept waiting for a view; the longest dead goes first."""

HYBRID_UTILISATION_FREE = 0.5
"""Utilisation below this counts as none: fill nodes half before spreading."""

HYBRID_TOP_SHARE = 5
"""Chosen at random among the first 1/5 of the candidates."""

COUNTS_REPORT_DELAY_MS = 250
"""Numbers of workers and leases alone are not worth a snapshot each."""

DEMAND_ENTRIES_MAX = 1_000

BACKLOGS_MAX = 10_000
"""Kinds of work, of all owners, that are demand beyond the requests that wait."""

BACKLOG_COUNT_MAX = 1_000_000_000
"""An owner that says more is taken for one that says this."""

LEASES_IN_TRANSIT_MAX = 10_000
LEASE_IN_TRANSIT_MS = 20_000
"""A request sent to another node that nobody saw arrive was cancelled on its way. Longer than an
owner tries to reach a node (10 s); then it comes back."""

LEASES_TAKEN_NAMED_MAX = 1_024
LEASE_TAKEN_NAMED_MS = 10_000
"""How many and how long snapshots name the requests that were demand elsewhere and took room
here. About 90 bytes each."""

LOG_LINES_QUEUED_MAX = 10_000
"""Lines that wait for one driver; older ones are dropped and counted."""

LOG_LINE_BYTES_MAX = 16 * 1024
LOG_BATCH_LINES_MAX = 500
LOG_READ_BYTES = 64 * 1024
LOG_LAST_READS_MAX = 64
LOG_FILE_BYTES_MAX = 64 * 1024 * 1024
ENDED_LOG_FILES_MAX = 2_000
ENDED_LOG_BYTES_MAX = 1 << 30
"""Log files of workers that ended, on one node; the oldest go first."""

LOG_PUSH_LINGER_S = 30.0
"""An unused stream of output to a driver is closed after this."""

LOG_PUSH_RETRY_S = 5.0
"""A driver that took no output is left alone for this long."""

STDERR_TAIL_BYTES = 2_000
"""How much of a failed worker's standard error goes into the error message."""

GCS_BACKOFF_MIN_S = 0.05
GCS_BACKOFF_MAX_S = 0.5

DEADLINES_SHARE = 4
DEADLINES_FEW = 64
"""So many times as many deadlines as there are things to wait for; then superseded ones go."""

JOIN_WAIT_S = 5.0
"""How long an owner that knows a node already waits for the agent to hear that it joined."""

RELAYED_NODES_MAX = 1_000
"""Nodes whose sessions one agent carries; more are refused, and go to the GCS themselves."""

RELAY_DIAL_S = 1.0
"""A relay that has not answered by then is passed by."""

RELAY_REACHES_GCS_S = 1.5
"""A relay lets nodes wait for so long while it looks for the GCS: after a restart of the GCS they
come back through it, and a relay that is cut off costs a node less than its window of 5 s."""

RELAY_WELCOME_S = 8.0
"""A relayed registration that is not answered by then is made directly. Long: many nodes at once
wait for some seconds, and a second registration would be no help."""

RELAY_ASK_SHARE = 0.75
RELAY_SILENT_SHARE = 1.0
"""Of the GCS's ping interval: a relayed node that heard nothing asks, and goes directly when that
is not answered. The GCS's own verdict takes 2.3 intervals."""

RELAY_RETURN_S_MIN = 30.0
RELAY_RETURN_S_MAX = 900.0
"""A node on a detour looks for its relay again after this long, which doubles with each time."""

STOP_GRACE_S = 3.0
SPAWN_PACKET_BYTES_MAX = 128 * 1024
"""One request to the fork server: environment variables above this are refused."""

ENVIRONMENT_CACHE_MIB_DEFAULT = 10_240
"""Of packages, unpacked trees and virtual environments on this node; those in use may exceed it."""

ENVIRONMENT_CACHE_ENTRIES_MAX = 1_000
ENVIRONMENT_BUILDS_MAX = 2
"""Builders at work at once; more wait in order. Installing is processor and disk, not waiting."""

ENVIRONMENT_BUILD_NICENESS = 5
"""Builders give way to the work that runs on the node."""

PACKAGE_STREAMS_MAX = 8
"""Packages sent to or taken from others at once; more wait."""

PACKAGE_ROUNDS_MAX = 20
PACKAGE_ROUNDS_UNNAMED_MAX = 3
PACKAGE_ROUND_DELAY_S = 0.1
PACKAGE_ROUND_DELAY_S_MAX = 1.0
"""A package nobody could send is looked for again, for about 15 s: a driver that lost its home
brings its packages to the next one. One that the directory does not name is given up soon."""

PACKAGE_CALL_S_MAX = 300.0
PACKAGE_DIRECTORY_S_MAX = 10.0
"""One question to the directory of packages."""

TASK_EVENTS_MAX = 200_000
TASK_EVENT_BYTES_MAX = 32 << 20
"""Executions that a node remembers; the oldest go first and are counted as lost."""

TASK_EVENT_JOBS_MAX = 1_000
"""Jobs whose losses a node counts."""

TASK_EVENTS_COLLECT_MS = 1_000
"""For workers to send what they have not sent, when somebody asks what was done."""
