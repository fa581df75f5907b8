"""Why does my group wait? Ask, get one reason and what each bundle lacks, then mend it.

`python examples/explain_pending_group.py` starts its own cluster of three small nodes.
"""

from __future__ import annotations

import shoal
from shoal.cluster_utils import Cluster
from shoal.util.placement_group import explain, placement_group

READY_TIMEOUT_S = 30


def main() -> None:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": 1}) as cluster:
        for rack in ("r1", "r2"):
            cluster.add_node(num_cpus=2, labels={"rack": rack})
        cluster.connect()

        gang = placement_group(
            [{"CPU": 2}] * 2, strategy="STRICT_SPREAD", topology_strategy={"rack": "STRICT_PACK"}
        )
        if gang.wait(timeout_seconds=0.5):
            raise SystemExit("the gang was placed, although no rack has two nodes")
        why = explain(gang)
        print(f"{why.state}, {why.reason}: {why.message}")
        for bundle in why.bundles:
            print(f"  bundle {bundle.index} {bundle.resources}: rejected {bundle.rejected}")

        print("one more node in r1 …")
        cluster.add_node(num_cpus=2, labels={"rack": "r1"})
        shoal.get(gang.ready(), timeout=READY_TIMEOUT_S)
        print(f"now {explain(gang).state}")


if __name__ == "__main__":
    main()
