"""The GCS: membership, placement groups, detached actors, KV, jobs, demand; one per cluster."""
