"""Which of this machine's addresses a peer can reach us at."""

from __future__ import annotations

import socket

from cluster_common import limits

_ROUTE_PROBE = ("192.0.2.1", 9)
"""An address of a documentation network: asking for the route to it sends nothing."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    return host in limits.LOOPBACK_HOSTS or host.startswith("127.")


def host_towards(address: str) -> str:
    """Our address on the way to `host:port`: loopback for a peer on loopback. Nothing is sent.

    Raises:
        OSError: the peer's name cannot be found; names it.
    """
    host, _, port = address.rpartition(":")
    if is_loopback(host):
        return limits.LOOPBACK_HOSTS[0]
    return _source((host, int(port)))


def outward_host() -> str:
    """Our address on the way out, or the one of this machine's name where there is no way out."""
    return _source(_ROUTE_PROBE)


def _source(target: tuple[str, int]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(target)
            return str(probe.getsockname()[0])
        except socket.gaierror as error:
            raise OSError(f"host {target[0]!r} cannot be found: {error.strerror}") from error
        except OSError:
            # No route, as in a closed container network.
            return socket.gethostbyname(socket.gethostname())
