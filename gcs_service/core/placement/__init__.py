"""Placement groups.

The GCS's ledger of every node's room, the choice of nodes, and the two-phase commit.

`placement_core.PlacementCore` is the only door; what leaves through it is in `effects`. Not here:
sessions, storage, watchers, the node table (their facts arrive as method calls).
"""
