"""Names that Ray keeps under `ray.remote_function`."""

from driver_client.remote_function import RemoteFunction

__all__ = ["RemoteFunction"]
