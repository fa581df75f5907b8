"""Bounds that more than one part must agree on. Unit last."""

GRPC_MESSAGE_BYTES_MAX = 1 << 30
"""Largest gRPC message: values travel inside frames until a node's object store carries them."""

CONTROL_MESSAGE_BYTES_MAX = 128 << 20
"""Largest message that a GCS or an agent takes: no user values pass there but those of the KV."""

METADATA_BYTES_MAX = 16 * 1024
"""Largest set of headers of one call; a token has at most 1,024 characters."""

HANDSHAKE_TIMEOUT_MS = 20_000
"""A connection that has not said that it speaks our protocol by then is closed."""

SERVER_CALLS_OPEN_MAX = 100_000
"""Calls and streams open at once on one server; more are refused with RESOURCE_EXHAUSTED."""

SERVER_PENDING_REQUESTS_MAX = 200_000
SERVER_PENDING_REQUESTS_HARD_MAX = 400_000
"""gRPC cancels bursts above these at random; its defaults are 1,000 and 3,000."""

KEEPALIVE_MS = 15_000
KEEPALIVE_TIMEOUT_MS = 10_000
"""HTTP/2 keepalive: a dead host is seen within 25 s without Python (DESIGN section 7)."""

SESSION_KEEPALIVE_MS = 30_000
"""The agent's side of its stream to the GCS, which pings from its own side every 15 s: 10,000
connections pinged by both ends every 15 s are 1,300 pings a second, 10 % of the GCS's core."""

FRAME_ITEMS_MAX = 500
FRAME_BYTES_MAX = 256 * 1024
"""One frame of a batched stream: larger ones stall the receiver's other threads."""

OUTBOX_ITEMS_MAX = 200_000
"""Unsent items of one stream; a peer that lets more pile up is disconnected."""

NAME_BYTES_MAX = 512
"""Longest actor, group, node or namespace name."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

PACKAGE_BYTES_MAX = 512 << 20
"""One package of a runtime environment: larger data belongs on a disk that all nodes share."""

PACKAGE_CHUNK_BYTES = 256 * 1024
"""One message of a package on its way."""

PACKAGE_UNPACKED_BYTES_MAX = 4 << 30
PACKAGE_FILES_MAX = 100_000
"""Of one archive."""

ENVIRONMENT_TEXT_BYTES_MAX = 64 * 1024
"""One runtime environment as JSON, with a pickled set-up hook: it is part of every lease."""

ENVIRONMENT_SETUP_S_DEFAULT = 600.0
"""How long making one runtime environment may take, unless `setup_timeout_seconds` says."""
