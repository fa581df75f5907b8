"""The main job, end to end: `shoal demo`. Starts its own cluster and leaves nothing behind."""

from shoal.demo.main import run

__all__ = ["run"]
