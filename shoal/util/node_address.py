"""Where this process runs."""

from __future__ import annotations

import os
import socket

from driver_client import process

INSTANCE_VARIABLE = "SHOAL_CLOUD_INSTANCE_ID"


def get_node_ip_address(address: str | None = None) -> str:
    """The IP address under which this process's node is known; before `init`, this machine's.

    Args:
        address: Ray's argument; ignored, since the node knows its address.
    """
    del address
    runtime = process.runtime_if_any()
    if runtime is not None:
        return runtime.facts.agent_address.rpartition(":")[0]
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:  # a machine that does not know its own name
        return "127.0.0.1"


def get_node_instance_id() -> str:
    """What the cloud calls this machine, from the environment; "" if it does not say."""
    return os.environ.get(INSTANCE_VARIABLE, "")
