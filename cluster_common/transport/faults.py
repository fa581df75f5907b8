"""Faults that a test orders: messages that come late, fail, get lost, nodes that are cut off.

Inert, and free, unless the process was started with a folder in `SHOAL_FAULTS_DIR`, which
`shoal.cluster_utils` does: nothing a peer sends can switch it on. The test cluster writes the
folder, the processes read it:

    generation   8 bytes, mapped by every process; changes with each change of the book
    book.json    the rules and the nodes that are cut off
    port-N       the node of the process that listens on port N
    events       one line for each message a rule met
    claim-R-N    the Nth use of rule R, taken by whoever makes the file

What waits looks at the book every `LOOK_AGAIN_S`; what does not wait compares 8 bytes.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

DIRECTORY_VARIABLE = "SHOAL_FAULTS_DIR"
GENERATION_BYTES = 8
LOOK_AGAIN_S = 0.01
"""How soon a held message sees that its rule is gone."""

ANY_NODE = "*"
DRIVER = "driver"
GCS = "gcs"
"""Names of the processes that belong to no node."""

Action = Literal["delay", "fail", "drop"]


class Rule(msgspec.Struct, frozen=True):
    """What happens to messages of one kind at one node.

    Attributes:
        kind: a name of a session's item, or `Service/Method`.
        node: hex id, `driver`, `gcs`, or `*`.
        seconds: of a delay; 0 only counts.
        answer: the answers are meant, not the requests.
        times: messages that fail before the rule is used up.
    """

    id: int
    action: Action
    kind: str
    node: str
    seconds: float = 0.0
    answer: bool = False
    times: int = 0


class Book(msgspec.Struct, frozen=True):
    """Everything ordered at the moment."""

    rules: tuple[Rule, ...] = ()
    cut: tuple[str, ...] = ()


class _Held(msgspec.Struct, frozen=True):
    rule: Rule
    due_s: float
    deliver: Callable[[], object]


class ProcessFaults:
    """The faults of one process, for one event loop.

    Args:
        directory: the folder of the test cluster.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.node = ""
        with (directory / "generation").open("rb") as file:
            self._generation = mmap.mmap(file.fileno(), GENERATION_BYTES, access=mmap.ACCESS_READ)
        self._seen = b""
        self._book = Book()
        self._held: list[_Held] = []

    def is_quiet(self) -> bool:
        """Whether nothing is ordered: the way of nearly every message."""
        if self._generation[:GENERATION_BYTES] != self._seen:
            self._read()
        return not self._book.rules and not self._book.cut

    def cuts(self, peer: str) -> bool:
        """Whether nothing passes between this process and one of node `peer`."""
        if self.is_quiet() or peer == self.node:
            return False
        return self.node in self._book.cut or peer in self._book.cut

    def cuts_address(self, address: str) -> bool:
        """The same for whoever listens at `host:port`; unknown ones belong to no node."""
        if self.is_quiet():
            return False
        port = address.rpartition(":")[2]
        try:
            peer = (self.directory / f"port-{port}").read_text(encoding="ascii")
        except OSError:
            peer = ""
        return self.cuts(peer)

    async def until_whole(self, peer: str) -> None:
        """Waits while the way to node `peer` is cut."""
        while self.cuts(peer):  # noqa: ASYNC110 - what ends it is a change of mapped memory
            await asyncio.sleep(LOOK_AGAIN_S)

    def catch(
        self,
        kinds: tuple[str, ...],
        deliver: Callable[[], object],
        refuse: Callable[[], object] | None = None,
        *,
        answer: bool = False,
        about: str = "",
    ) -> bool:
        """Gives a message to the rules; False: it passes, the caller goes on with it.

        Args:
            kinds: its names.
            deliver: goes on with it later; called on this loop.
            refuse: answers in the receiver's place that it failed; None: it cannot fail.
            answer: it is an answer.
            about: a further node it concerns, for messages about a node that go to another one.
        """
        if self.is_quiet():
            return False
        rule = self._match(kinds, (self.node, about), answer=answer)
        if rule is None:
            return False
        if rule.action == "fail" and refuse is not None:
            refuse()
        elif rule.action == "delay":
            if rule.seconds <= 0:
                return False
            loop = asyncio.get_running_loop()
            self._held.append(_Held(rule, loop.time() + rule.seconds, deliver))
            if len(self._held) == 1:
                loop.call_later(LOOK_AGAIN_S, self._look)
        return True

    async def pace(
        self,
        kind: str,
        peer: str = "",
        *,
        answer: bool = False,
        actions: tuple[Action, ...] = ("delay", "fail", "drop"),
    ) -> Literal["pass", "fail", "drop"]:
        """The same for a stream that stays in order: waits out a delay, returns what else to do."""
        if self.is_quiet():
            return "pass"
        rule = self._match((kind,), (self.node, peer), answer=answer, actions=actions)
        if rule is None:
            return "pass"
        if rule.action != "delay":
            return rule.action
        loop = asyncio.get_running_loop()
        due_s = loop.time() + rule.seconds
        while loop.time() < due_s and self._stands(rule):  # noqa: ASYNC110 - as above
            await asyncio.sleep(min(LOOK_AGAIN_S, rule.seconds))
        return "pass"

    async def until_cleared(self, kind: str, peer: str = "") -> None:
        """Waits while messages of this kind are dropped."""
        while not self.is_quiet() and any(  # noqa: ASYNC110 - as above
            rule.action == "drop" and rule.kind == kind and rule.node in (ANY_NODE, self.node, peer)
            for rule in self._book.rules
        ):
            await asyncio.sleep(LOOK_AGAIN_S)

    def _read(self) -> None:
        seen = self._generation[:GENERATION_BYTES]
        self._book = msgspec.json.decode((self.directory / "book.json").read_bytes(), type=Book)
        self._seen = seen

    def _stands(self, rule: Rule) -> bool:
        return not self.is_quiet() and rule in self._book.rules

    def _match(
        self,
        kinds: tuple[str, ...],
        nodes: tuple[str, str],
        *,
        answer: bool,
        actions: tuple[Action, ...] = ("delay", "fail", "drop"),
    ) -> Rule | None:
        for rule in self._book.rules:
            if rule.kind not in kinds or rule.answer != answer or rule.action not in actions:
                continue
            if rule.node != ANY_NODE and rule.node not in nodes:
                continue
            if rule.action == "fail" and not self._claim(rule):
                continue
            self._note(rule)
            return rule
        return None

    def _claim(self, rule: Rule) -> bool:
        """Uses the rule once; whoever makes the file has it, so restarts do not count anew."""
        for number in range(rule.times):
            path = self.directory / f"claim-{rule.id}-{number}"
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                return True
        return False

    def _note(self, rule: Rule) -> None:
        line = f"{rule.id} {rule.action} {rule.kind} {self.node} {int(rule.answer)} {os.getpid()}\n"
        descriptor = os.open(
            self.directory / "events", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        held, self._held = self._held, []
        for each in held:
            if now_s >= each.due_s or not self._stands(each.rule):
                each.deliver()
            else:
                self._held.append(each)
        if self._held:
            loop.call_later(LOOK_AGAIN_S, self._look)


class _Process:
    """The faults of this process; the environment is read at the first question, not at import."""

    def __init__(self) -> None:
        self.faults: ProcessFaults | None = None
        self.known = False


_process = _Process()


def configure(directory: Path | None) -> None:
    """Sets the folder of this process (None: no faults), whatever the environment says."""
    _process.faults = None if directory is None else ProcessFaults(directory)
    _process.known = True


def forget() -> None:
    """The next question reads the environment again; for a forked child with another one."""
    _process.faults = None
    _process.known = False


def active() -> ProcessFaults | None:
    """The faults of this process; None in every process that no test cluster started."""
    if not _process.known:
        directory = os.environ.get(DIRECTORY_VARIABLE)
        configure(Path(directory) if directory else None)
    return _process.faults


def be(node: str, port: int) -> None:
    """This process belongs to `node` and listens on `port`. Before it opens any channel."""
    faults = active()
    if faults is None:
        return
    faults.node = node
    draft = faults.directory / f"draft-{os.getpid()}"
    draft.write_text(node, encoding="ascii")
    draft.replace(faults.directory / f"port-{port}")


def cuts_address(address: str) -> bool:
    """Whether a dial of `host:port` would find silence since a test cut the way."""
    faults = active()
    return faults is not None and faults.cuts_address(address)
