"""Messages the core sends, built in one place."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent.core.bundles import Bundle
from raylet_agent.core.lease import Lease
from raylet_agent.core.owners import Owner
from raylet_agent.core.resource_pool import Allotment
from raylet_agent.core.worker_pool import Worker

DECLARED_DEAD = "declared_dead"
"""Token of the refusal of an owner that has a tombstone."""


def device_ids(allotment: Allotment) -> dict[str, a.DeviceIds]:
    """Devices of a grant, by resource."""
    return {name: a.DeviceIds(ids=sorted(held)) for name, held in allotment.devices.items()}


def bundle_index(lease: Lease) -> int:
    """The bundle a lease runs in, -1 for none."""
    return -1 if lease.bundle is None else lease.bundle.index


def grant(lease: Lease, worker: Worker, node_id: bytes, allotment: Allotment) -> a.LeaseItem:
    """The lease has a worker."""
    return a.LeaseItem(
        grant=a.LeaseGrant(
            lease_id=lease.lease_id,
            worker_id=worker.worker_id,
            worker_address=worker.address,
            pid=worker.pid,
            node_id=node_id,
            devices=device_ids(allotment),
            bundle_index=bundle_index(lease),
        )
    )


def lease_begin(lease: Lease, owner: Owner | None, allotment: Allotment) -> a.WorkerCommand:
    """Tells the worker for whom it works."""
    request = lease.request
    begin = a.LeaseBegin(
        lease_id=lease.lease_id,
        owner_id=lease.owner_id,
        job_id=request.job_id,
        namespace=request.namespace,
        devices=device_ids(allotment),
        placement_group_id=request.placement_group_id,
        bundle_index=bundle_index(lease),
        actor_id=request.actor_id,
        name=request.name,
        runtime_env_json=request.runtime_env_json,
    )
    begin.resources.amounts.update(allotment.amounts)
    if owner is not None:
        begin.owner_address = owner.address
        begin.driver_address = owner.driver_address
    return a.WorkerCommand(lease_begin=begin)


def failed(lease_id: bytes, reason: a.LeaseFailure.ValueType, message: str) -> a.LeaseItem:
    """The lease will never be granted."""
    return a.LeaseItem(failed=a.LeaseFailed(lease_id=lease_id, reason=reason, message=message))


def pending(lease_id: bytes, *, infeasible: bool, message: str) -> a.LeaseItem:
    """The lease waits."""
    item = a.LeasePending(lease_id=lease_id, infeasible=infeasible, message=message)
    return a.LeaseItem(pending=item)


def declared_dead(owner_id: bytes, by: str) -> n.Refused:
    """What an owner is told that lives, but counts as dead: nothing is done for it any more."""
    message = f"owner {owner_id.hex()} was declared dead{by}"
    return n.Refused(reason=DECLARED_DEAD, message=message)


def redirect(
    lease_id: bytes,
    node_id: bytes,
    address: str,
    *,
    to_scheduler: bool,
    counted: n.CountedDemand | None,
    sending: a.Sending | None,
) -> a.LeaseItem:
    """Ask there."""
    item = a.LeaseRedirect(
        lease_id=lease_id,
        node_id=node_id,
        address=address,
        to_scheduler=to_scheduler,
        counted=counted,
        sending=sending,
    )
    return a.LeaseItem(redirect=item)


def worker_ended(lease: Lease, worker: Worker, exit_code: int, node_id: bytes) -> a.LeaseItem:
    """The worker of a granted lease is gone."""
    item = a.LeasedWorkerEnded(
        lease_id=lease.lease_id,
        worker_id=worker.worker_id,
        cause=a.WorkerEndCause.ValueType(worker.end_cause),
        exit_code=exit_code,
        message=worker.end_message,
        node_id=node_id,
    )
    return a.LeaseItem(worker_ended=item)


def held_bundle(bundle: Bundle) -> n.HeldBundle:
    """A bundle as stated at registration and to operators."""
    return n.HeldBundle(
        placement_group_id=bundle.group_id,
        index=bundle.index,
        attempt=bundle.attempt,
        committed=bundle.committed,
        resources=t.ResourceSet(amounts=bundle.pool.total),
    )
