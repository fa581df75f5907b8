"""Starts the demo, ends it in order, and turns what happened into an exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from uuid import uuid4

from shoal.demo.leftovers import MARKER_VARIABLE, leftovers, shared_memory_files
from shoal.demo.screen import Screen
from shoal.demo.story import Story

EXIT_RIGHT = 0
EXIT_WRONG = 1
EXIT_INTERRUPTED = 130
_Handler = Callable[[int, FrameType | None], object] | int | None


def run() -> int:
    """Run the main job. Returns 0 only if every number was right and nothing was left behind.

    Ctrl-C or SIGTERM at any moment ends the cluster in order (exit code 130).
    """
    screen = Screen()
    marker = uuid4().hex
    memory_before = shared_memory_files()
    story = Story(screen, {MARKER_VARIABLE: marker})
    code = EXIT_WRONG
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        story.play()
        code = EXIT_RIGHT
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
        screen.say("[yellow]interrupted: ending the cluster …[/yellow]")
    except Exception:  # noqa: BLE001 - shown whole, and the clean-up below must still happen
        traceback.print_exc(file=sys.stderr)
        screen.say("[red]the demo failed; the traceback is on stderr[/red]")
    finally:
        _close(story, screen)
        signal.signal(signal.SIGTERM, previous)
    if story.session_path is not None:
        story.left = leftovers(marker, story.session_path, memory_before)
    for thing in story.left:
        screen.say(f"[red]left behind: {thing}[/red]")
    if code != EXIT_RIGHT:
        return EXIT_WRONG if story.left else code
    checks = [*story.checks, ("no process, folder or shared memory left behind", not story.left)]
    screen.table(checks)
    return EXIT_RIGHT if all(right for _, right in checks) else EXIT_WRONG


def _close(story: Story, screen: Screen) -> None:
    """End the cluster; a second Ctrl-C must not leave half of it behind."""
    interrupt: _Handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with screen.phase("cluster ended") as phase:
            story.close()
            phase.where = "driver, agents, GCS"
    finally:
        signal.signal(signal.SIGINT, interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
