"""Why an agent process ended: its exit status."""

from __future__ import annotations

OK = 0
"""Asked to stop (SIGTERM, Shutdown, end of its parent)."""

FAILED = 1
"""An error of the agent itself; the log says which."""

BAD_OPTION = 2
"""An option was wrong; nothing was started."""

REFUSED = 3
"""The cluster refused this node: it is of another cluster, or was declared dead before."""

GCS_UNREACHABLE = 4
"""No connection to the GCS for `gcs_reconnect_timeout_s`."""

FORK_SERVER_LOST = 5
"""The fork server ended: workers can no longer be started or watched."""
