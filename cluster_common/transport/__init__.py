"""gRPC construction, batched streams, task keeping: what shells need to talk. No decisions."""
