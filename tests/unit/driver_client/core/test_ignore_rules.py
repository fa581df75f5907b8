from __future__ import annotations

import pytest

from driver_client.core.ignore_rules import IgnoreRules


def ignored(lines, path, *, is_folder=False):
    return IgnoreRules(lines).verdict(path, is_folder=is_folder)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.log", "a.log", True),
        ("*.log", "deep/er/a.log", True),
        ("*.log", "a.logs", None),
        ("/a.txt", "a.txt", True),
        ("/a.txt", "b/a.txt", None),
        ("docs/*.md", "docs/x.md", True),
        ("docs/*.md", "docs/y/x.md", None),
        ("docs/*.md", "more/docs/x.md", None),
        ("**/temp", "a/b/temp", True),
        ("**/temp", "temp", True),
        ("a/**/z", "a/z", True),
        ("a/**/z", "a/b/c/z", True),
        ("build/**", "build/x/y", True),
        ("file?.py", "file1.py", True),
        ("file?.py", "file10.py", None),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", None),
        ("[!ab].txt", "c.txt", True),
        (r"\#name", "#name", True),
        (r"\!name", "!name", True),
        ("# a comment", "# a comment", None),
        ("", "x", None),
        ("trailing   ", "trailing", True),
        ("[broken", "[broken", True),
        ("weird[z-a]", "weird[z-a]", True),
    ],
)
def test_patterns_mean_what_they_mean_to_git(pattern, path, expected):
    assert ignored([pattern], path) is expected


def test_a_pattern_for_folders_leaves_files_alone():
    assert ignored(["build/"], "build", is_folder=True) is True
    assert ignored(["build/"], "build") is None


def test_the_last_pattern_that_matches_counts():
    assert ignored(["*.log", "!keep.log"], "keep.log") is False
    assert ignored(["!keep.log", "*.log"], "keep.log") is True
