"""Which files a package leaves out: patterns as in .gitignore, the last that matches counts."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec


class _Rule(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool


class IgnoreRules:
    """The patterns of one file, for paths relative to its folder (`a/b.txt`, no `./`)."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [_rule(line) for line in lines]
        self._rules = [rule for rule in rules if rule is not None]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """True: left out. False: taken in by a `!` pattern. None: no pattern speaks of it."""
        for rule in reversed(self._rules):
            if rule.folders_only and not is_folder:
                continue
            if rule.pattern.fullmatch(path):
                return rule.ignores
        return None


def _rule(line: str) -> _Rule | None:
    text = line.rstrip("\n\r")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    ignores = not text.startswith("!")
    if not ignores:
        text = text[1:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    body = _expression(text.lstrip("/"))
    if not anchored:
        body = rf"(?:.*/)?{body}"
    try:
        pattern = re.compile(body, re.DOTALL)
    except re.error:
        # A broken set of characters stands for itself.
        pattern = re.compile(re.escape(text.lstrip("/")))
    return _Rule(pattern, ignores, folders_only)


def _expression(text: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            parts.append("(?:.*/)?")
            at += 3
        elif text[at:] == "**" and (at == 0 or text[at - 1] == "/"):
            parts.append(".*")
            at += 2
        elif text[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif text[at] == "?":
            parts.append("[^/]")
            at += 1
        elif text[at] == "[" and (end := text.find("]", at + 2)) > 0:
            inside = text[at + 1 : end].replace("\\", "\\\\")
            parts.append(f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]")
            at = end + 1
        else:
            if text[at] == "\\" and at + 1 < len(text):
                at += 1
            parts.append(re.escape(text[at]))
            at += 1
    return "".join(parts)
