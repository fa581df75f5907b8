"""Decisions of the agent: synchronous, deterministic, no I/O, no clock (DESIGN section 4)."""
