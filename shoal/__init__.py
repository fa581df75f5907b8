"""Shoal: a control plane and runtime for Python clusters that launch work in gangs.

Names are Ray's, so `import shoal as ray` runs an ordinary Ray core program. Importing this package
has no effect; `init` connects (and starts a local cluster when no address is given).
"""

from __future__ import annotations

from driver_client.actor_class import ActorClass
from driver_client.actor_handle import ActorHandle
from driver_client.api import cancel, get, get_actor, kill, put, wait
from driver_client.cluster_view import available_resources, cluster_resources, nodes
from driver_client.object_ref import ObjectRef
from driver_client.object_ref_generator import DynamicObjectRefGenerator, ObjectRefGenerator
from driver_client.printed_id import (
    ActorID,
    JobID,
    NodeID,
    ObjectID,
    PlacementGroupID,
    TaskID,
    UniqueID,
    WorkerID,
)
from driver_client.remote_function import RemoteFunction
from driver_client.runtime_context import RuntimeContext, get_runtime_context
from driver_client.timeline import timeline
from shoal import actor, cloudpickle, exceptions, util
from shoal._init import ClientContext, init, is_initialized, shutdown
from shoal._remote import get_gpu_ids, method, remote
from shoal._version import __version__

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorID",
    "ClientContext",
    "DynamicObjectRefGenerator",
    "JobID",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "RemoteFunction",
    "RuntimeContext",
    "TaskID",
    "UniqueID",
    "WorkerID",
    "__version__",
    "actor",
    "available_resources",
    "cancel",
    "cloudpickle",
    "cluster_resources",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "util",
    "wait",
]
