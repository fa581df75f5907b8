"""Starts the demo, ends it in order, and turns what happened into an exit code."""

from __future__ import annotations

import sys
import traceback
from uuid import uuid4

from shoal.demo.interrupts import Interrupts, interruptible, undisturbed
from shoal.demo.leftovers import MARKER_VARIABLE, leftovers, shared_memory_files
from shoal.demo.screen import Screen
from shoal.demo.story import Story

EXIT_RIGHT = 0
EXIT_WRONG = 1
EXIT_INTERRUPTED = 130


def run() -> int:
    """Run the main job. Returns 0 only if every number was right and nothing was left behind.

    Ctrl-C or SIGTERM at any moment ends the cluster in order (exit code 130).
    """
    try:
        with interruptible() as interrupts:
            return _run(interrupts)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(interrupts: Interrupts) -> int:
    screen = Screen()
    marker = uuid4().hex
    memory_before = shared_memory_files()
    story = Story(screen, {MARKER_VARIABLE: marker})
    code = EXIT_WRONG
    try:
        code = _play(story, screen, interrupts)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    finally:
        # From here on a second Ctrl-C must not leave half of the cluster behind.
        with undisturbed():
            if code == EXIT_INTERRUPTED:
                screen.say("[yellow]interrupted: ending the cluster …[/yellow]")
            left = _end(story, screen, marker, memory_before)
    if left:
        code = EXIT_WRONG
    if code != EXIT_RIGHT:
        return code
    checks = [*story.checks, ("no process, folder or shared memory left behind", not left)]
    screen.table(checks)
    return EXIT_RIGHT if all(right for _, right in checks) else EXIT_WRONG


def _play(story: Story, screen: Screen, interrupts: Interrupts) -> int:
    try:
        story.play()
    except Exception:  # noqa: BLE001 - shown whole, and the clean-up must still happen
        if interrupts.came:
            return EXIT_INTERRUPTED
        traceback.print_exc(file=sys.stderr)
        screen.say("[red]the demo failed; the traceback is on stderr[/red]")
        return EXIT_WRONG
    return EXIT_RIGHT


def _end(story: Story, screen: Screen, marker: str, memory_before: set[str]) -> list[str]:
    """End the cluster; what is left of it."""
    with screen.phase("cluster ended") as phase:
        try:
            story.close()
        except Exception as error:  # noqa: BLE001 - what it left behind must be named all the same
            traceback.print_exc(file=sys.stderr)
            screen.say(f"[red]the cluster did not end in order: {error!r}[/red]")
            return ["whatever was not ended"]
        phase.where = "driver, agents, GCS"
    if story.session_path is None:
        return []
    left = leftovers(marker, story.session_path, memory_before)
    for thing in left:
        screen.say(f"[red]left behind: {thing}[/red]")
    return left
