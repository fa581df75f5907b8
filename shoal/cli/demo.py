"""`shoal demo`."""

from __future__ import annotations

import importlib

import click


@click.command("demo")
def command() -> None:
    """Runs the main job on a cluster of real processes: gangs, a killed node, recovery, a table."""
    # By name: the demo is a program on top of everything; no other command should load it.
    raise click.exceptions.Exit(int(importlib.import_module("shoal.demo").run()))
