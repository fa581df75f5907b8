"""What carries the GCS's decisions out: servicers, executors, sessions, storage."""
