"""From the GCS's snapshot to what the decision looks at."""

from __future__ import annotations

import pytest

from autoscaler.core.config import AutoscalerConfig
from autoscaler.shell.reading import read_wants
from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import types_pb2 as t


def request(selector=None, **amounts):
    resources = t.ResourceSet(amounts=amounts)
    row = auto.ResourceRequest(resources_bundle=resources)
    row.label_selector.terms.update(selector or {})
    return auto.ResourceRequestByCount(request=row, count=1)


@pytest.mark.parametrize(
    "bound",
    [
        request(**{"CPU": 10_000, "node:10.0.0.7": 100}),
        request({"shoal.io/node-id": "ab"}, CPU=10_000),
        request({"ray.io/node-id": "ab"}, CPU=10_000),
    ],
    ids=["resource", "label", "label-of-ray"],
)
def test_work_bound_to_one_node_buys_no_other(bound):
    config = AutoscalerConfig({"type": "local"}, 60_000, {})
    state = auto.ClusterResourceState(pending_resource_requests=[bound, request(CPU=20_000)])
    (shape,) = read_wants(config, state, []).shapes
    assert shape.amounts == {"CPU": 20_000}
