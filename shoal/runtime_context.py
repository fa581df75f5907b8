"""Names that Ray keeps under `ray.runtime_context`."""

from driver_client.runtime_context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
