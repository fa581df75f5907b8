"""The loop, the GCS, the providers."""
