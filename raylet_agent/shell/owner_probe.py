"""Whether a process still listens: the question asked when its session broke."""

from __future__ import annotations

import asyncio

from cluster_common.transport import faults

_CONNECT_TIMEOUT_S = 2.0


async def listens(address: str) -> bool:
    """False only when the connection is refused: nobody is there. Silence proves nothing."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return False
    if faults.cuts_address(address):
        return True
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True
    writer.close()
    return True
