"""One file per gRPC service: translate, submit, await, translate. No decisions."""
