"""What the demo shows: lines while it works, a progress bar for the steps, one table at the end."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shoal.demo.interrupts import held_interrupts

MS_PER_S = 1000


@dataclass
class Phase:
    """One line of the final table."""

    what: str
    where: str = ""
    seconds: float = 0.0


@dataclass
class Screen:
    """Collects phases and shows them as they end."""

    console: Console = field(default_factory=Console)
    phases: list[Phase] = field(default_factory=list[Phase])

    def say(self, text: str) -> None:
        """One line of the story."""
        self.console.print(text)

    @contextmanager
    def phase(self, what: str) -> Generator[Phase]:
        """Time what happens inside and add it to the table; a failed phase is not added."""
        phase = Phase(what)
        start = time.perf_counter()
        status = self.console.status(f"{what} …")
        # A display that was interrupted half started, or half ended, would not let go.
        with held_interrupts():
            status.start()
        try:
            yield phase
        finally:
            with held_interrupts():
                status.stop()
        phase.seconds = time.perf_counter() - start
        self.add(phase)

    def add(self, phase: Phase) -> None:
        """Show a phase that was timed elsewhere."""
        self.phases.append(phase)
        duration = _duration(phase.seconds)
        self.console.print(f"[green]✓[/green] {phase.what} [dim]{phase.where}[/dim] {duration}")

    def progress(self) -> Progress:
        """A bar for the training steps."""
        return Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
            console=self.console,
            transient=True,
        )

    def table(self, checks: list[tuple[str, bool]]) -> None:
        """The whole story in one table, then what was checked."""
        table = Table(title="shoal demo", title_justify="left")
        table.add_column("what")
        table.add_column("where")
        table.add_column("took", justify="right")
        for phase in self.phases:
            table.add_row(phase.what, phase.where, _duration(phase.seconds))
        self.console.print(table)
        for what, right in checks:
            mark = "[green]right[/green]" if right else "[red]WRONG[/red]"
            self.console.print(f"{mark}  {what}")


def _duration(seconds: float) -> str:
    if seconds < 1.0:
        return f"{seconds * MS_PER_S:.0f} ms"
    return f"{seconds:.2f} s"
