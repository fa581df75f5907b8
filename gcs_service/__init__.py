"""The GCS: membership, placement groups, detached actors, KV, jobs, demand. One process per cluster."""
