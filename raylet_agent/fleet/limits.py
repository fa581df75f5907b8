"""Bounds of a fleet. Unit last."""

from __future__ import annotations

NODES_MAX = 20_000
"""As many as a GCS takes in."""

FIRST_MAX = 1_000_000
"""Number of the first agent: addresses of their own on the loopback device reach this far."""

DESCRIPTORS_PER_LEASING_AGENT = 2
"""The port it listens on and one owner's session."""

DESCRIPTORS_SPARE = 200
JOINING_MAX = 500
"""Registrations on their way at once: more only wait at the GCS."""

JOIN_TIMEOUT_S = 120.0
TURN_AGENTS = 200
"""Agents handled before the loop looks at its sockets again."""

CONVERGED_LOOK_S = 0.002
"""Between two looks whether views equal the truth."""

CONVERGED_TIMEOUT_S = 300.0
COMMAND_BYTES_MAX = 1 << 20
"""One line on standard input."""

GC_THRESHOLDS = (100_000, 20, 50)
"""Allocations between collections: thousands of agents are millions of objects that stay, and
looking through them took a quarter of the process's time."""
