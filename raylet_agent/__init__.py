"""The agent of a node: its resources (the truth), leases, bundles and worker processes."""
