"""The runtime inside drivers and workers: references, tasks, owned actors, calls."""
