"""Bounds of the placement core. Unit last."""

GROUPS_MAX = 100_000
"""Groups that exist at once, removed ones not counted; more are refused with `table_full`."""

GROUP_BUNDLES_MAX = 100_000
"""Bundles of one group."""

REMOVED_GROUPS_MAX = 1_000
"""Removed groups that can still be asked for; the oldest go first."""

TIMERS_KEPT = 4_096
"""Deadlines in the heap before those that nobody waits for are taken out of it."""

NAME_BYTES_MAX = 512
"""Longest name or namespace of a group."""

RETRY_DELAY_MS = 100
RETRY_DELAY_FACTOR = 1.5
RETRY_DELAY_MAX_MS = 1_000
"""Back-off of a group after a refused attempt.

And of a node's refused command (DESIGN section 9).
"""

OVERTAKES_MAX = 16
"""A waiting group may be overtaken this often, then what becomes free is kept for it (CONTRACT)."""

OVERTAKEN_CHECKED_MAX = 64
"""Waiting classes that could be placed and are counted when a younger group is."""

GIVE_BACK_WAIT_MS = 500
"""A group that is placed again as a whole first gets its old bundles back, at most this long."""

PREPARE_ANSWER_MS = 30_000
"""A prepare that a connected node leaves unanswered this long fails its attempt."""

COMMAND_REPEAT_MS = 5_000
"""A commit, cancel or return that a connected node leaves unanswered is sent again."""

SUSPECT_MS = 1_000
"""A node that refused a prepare is left alone until a snapshot covers the refusal.

At most this long.
"""

RESTART_WAIT_MS = 60_000
"""After a restart.

Nodes named by stored groups that neither came back nor were declared dead are lost.
"""

CAPACITY_MAX = 1 << 20
"""Copies of one shape counted on one node; more makes no difference to any policy."""

ROOM_CLASSES_MAX = 50_000
AMOUNTS_MAX = 50_000
CLASS_MEMO_MAX = 4_096
"""Interned vectors and memo entries; the tables are emptied beyond that (only sharing is lost)."""

ASKED_NAMES_KEPT_MAX = 64
"""Names of nodes that count in their room since a question or a detached actor asked for them."""

POOLS_MAX = 64
POOL_SHAPES_MAX = 128
"""Selectors, and shapes per selector, whose index is kept up to date; the longest unused goes."""

SEARCH_STEPS_MAX = 256
"""Placements tried for a mixed group that the greedy passes could not place."""

SEARCH_BUNDLES_MAX = 16
"""Larger mixed groups are not searched."""

DOMAIN_SEARCHES_MAX = 8
"""Domains searched for one mixed group in one pass."""

DOMAIN_TRIALS_MAX = 256
"""Domains tried in full for one group in one pass (mixed shapes only; equal shapes need one)."""

EXPLAINERS_MAX = 64
"""Explanations kept for equal questions while no node changes."""

STATUS_LOOKS_MAX = 20_000
"""Nodes looked at for the explanations in a status (about 10 us each).

Groups that wait beyond that get a short sentence.
"""

BLOCKED_BY_MAX = 16
"""Groups named in an explanation as holders of what another one needs."""

REASON_NOTES_MAX = 256
"""Equal groups whose demand is written anew when the reason why they wait becomes another one."""
