"""Other driver processes: programs given as text, run against a running cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

DRIVER_DEADLINE_S = 60


@dataclass
class Driver:
    """A running program; `line()` reads what it printed next."""

    process: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, f"the driver ended early, code {self.process.wait(DRIVER_DEADLINE_S)}"
        return text.strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DRIVER_DEADLINE_S)


def command(program: str) -> list[str]:
    return [sys.executable, "-u", "-c", textwrap.dedent(program)]


def environment(address: str | None) -> dict[str, str]:
    values = {name: value for name, value in os.environ.items() if name != "SHOAL_ADDRESS"}
    if address is not None:
        values["SHOAL_ADDRESS"] = address
    return values


def run_driver(program: str, address: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. `shoal.init()` in it connects to `address`, or starts a cluster."""
    return subprocess.run(
        command(program),
        env=environment(address),
        capture_output=True,
        text=True,
        timeout=DRIVER_DEADLINE_S,
        check=False,
    )


def piped_driver(program: str, address: str | None = None) -> subprocess.Popen[str]:
    """A program whose input, output and errors are the caller's, who also ends it."""
    return subprocess.Popen(
        command(program),
        env=environment(address),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def started_driver(program: str, address: str | None = None) -> Iterator[Driver]:
    """A program that runs beside the test; killed at the end if it still runs."""
    process = subprocess.Popen(
        command(program), env=environment(address), stdout=subprocess.PIPE, text=True
    )
    driver = Driver(process)
    try:
        yield driver
    finally:
        if process.poll() is None:
            driver.kill()
        assert process.stdout is not None
        process.stdout.close()
