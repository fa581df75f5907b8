"""Loads for a control service: groups that come and go, owners that end.

Run as processes of their own (`python -m benchmarks.work.gcs_load churn …`), so that what they cost
is not what is measured. They speak the real protocol.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import Any

import grpc
import uvloop
from grpc import aio

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import gcs_pb2_grpc, placement_groups_pb2_grpc
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import make_channel

CPU = 10_000
NICENESS = 10
"""Loads yield to the measuring process: the machine has few cores."""
GROUP_BUNDLES = 18
GROUPS_IN_FLIGHT = 64


async def churn(address: str) -> None:
    """Keeps `GROUPS_IN_FLIGHT` groups being made and removed, for ever."""
    stub = placement_groups_pb2_grpc.PlacementGroupServiceStub(make_channel(address))
    call: Any = stub.Session()
    creator = os.urandom(16)
    numbers = itertools.count(1)

    def create() -> pg.GroupRequest:
        spec = pg.PlacementGroupSpec(
            placement_group_id=creator + next(numbers).to_bytes(8, "big"),
            bundles=[pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": CPU}))] * GROUP_BUNDLES,
            strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
            creator_owner_id=creator,
        )
        return pg.GroupRequest(create=spec)

    await call.write(pg.GroupRequestFrame(items=[create() for _ in range(GROUPS_IN_FLIGHT)]))
    print("ready", flush=True)
    while (read := await call.read()) is not aio.EOF:
        out = [
            pg.GroupRequest(remove=record.spec.placement_group_id)
            for record in read.groups
            if record.state == pg.PLACEMENT_GROUP_STATE_CREATED
        ]
        out += [create() for _ in read.removal_accepted]
        if out:
            await call.write(pg.GroupRequestFrame(items=out))


async def owners(address: str) -> None:
    """Jobs begin and end without a pause: each end is told to every agent."""
    jobs = gcs_pb2_grpc.JobServiceStub(make_channel(address))
    print("ready", flush=True)
    while True:
        request = g.AddJobRequest(job=g.JobRecord(driver_id=os.urandom(16)))
        added = await jobs.AddJob(request)
        await jobs.FinishJob(g.FinishJobRequest(job_id=added.job_id))


LOADS = {"churn": churn, "owners": owners}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=tuple(LOADS))
    parser.add_argument("--address", required=True, help="host:port of the control service")
    arguments = parser.parse_args()
    os.nice(NICENESS)
    try:
        uvloop.run(LOADS[arguments.load](arguments.address))
    except (grpc.RpcError, KeyboardInterrupt):
        sys.exit(1)


if __name__ == "__main__":
    main()
