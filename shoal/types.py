"""Names that Ray keeps under `ray.types`."""

from driver_client.object_ref import ObjectRef

__all__ = ["ObjectRef"]
