"""Decisions of an owner: synchronous, deterministic, no I/O, no clock (DESIGN section 4)."""
