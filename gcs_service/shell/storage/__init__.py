"""Durable tables behind one protocol: memory for tests, SQLite by default. No decisions."""
