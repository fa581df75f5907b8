"""Bounds of a fleet. Unit last."""

from __future__ import annotations

NODES_MAX = 20_000
"""As many as a GCS takes in."""

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
