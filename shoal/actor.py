"""Names that Ray keeps under `ray.actor`."""

from driver_client.actor_class import ActorClass, ActorClassInheritanceException
from driver_client.actor_handle import ActorHandle, ActorMethod
from driver_client.api import exit_actor

__all__ = [
    "ActorClass",
    "ActorClassInheritanceException",
    "ActorHandle",
    "ActorMethod",
    "exit_actor",
]
