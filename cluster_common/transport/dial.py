"""Whether a process still listens: the question asked when its session broke.

Only a refusal says something: the host is there and the process is not. Silence or a network error
leave the decision to a deadline.
"""

from __future__ import annotations

import asyncio
import enum

from cluster_common.transport import faults


class Dial(enum.Enum):
    """What one dial of a port found."""

    ANSWERED = "answered"
    REFUSED = "refused"
    SILENT = "silent"


async def dial(address: str, timeout_s: float) -> Dial:
    """Opens and closes one TCP connection to `host:port`."""
    host, _, port = address.rpartition(":")
    if faults.cuts_address(address):
        await asyncio.sleep(timeout_s)
        return Dial.SILENT
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return Dial.REFUSED
    except (OSError, TimeoutError, ValueError):
        return Dial.SILENT
    writer.transport.abort()
    return Dial.ANSWERED
