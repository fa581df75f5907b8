"""Thousands of agents in one process: cores and sessions are the real ones, workers are not."""
