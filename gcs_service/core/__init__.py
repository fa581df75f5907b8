"""Decisions of the GCS: synchronous, deterministic, no I/O, no clock (DESIGN section 4)."""
