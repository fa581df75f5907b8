"""The documents name what exists."""

import re
import tomllib
from pathlib import Path

from shoal.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_links_between_documents_lead_somewhere():
    broken = []
    for document in DOCUMENTS:
        targets = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
        broken += [
            f"{document.name}: {one}" for one in targets if not (document.parent / one).exists()
        ]
    assert broken == []


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    stated = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = [re.split(r"[<>=\[]", line)[0] for line in stated]
    reasons = (ROOT / "docs" / "adr" / "0001-dependencies.md").read_text()
    plain = reasons.replace("types-* (stubs)", " ".join(n for n in names if n[:6] == "types-"))
    plain = plain.replace(
        "pytest with asyncio\nand timeout plugins", "pytest-asyncio pytest-timeout"
    )
    assert [name for name in names if name not in plain] == []


def test_every_decision_record_is_listed():
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text()
    assert [p.name for p in folder.glob("[0-9]*.md") if p.name not in listed] == []


def test_the_documents_know_only_commands_that_exist():
    shown = set()
    for document in DOCUMENTS:
        shown |= set(
            re.findall(r"(?:^|`|\()shoal ([a-z][a-z-]+)", document.read_text(), re.MULTILINE)
        )
    assert shown - set(COMMANDS) == set()
    assert set(COMMANDS) - shown - {"drain", "demo"} == set()


def test_the_changelog_has_an_unreleased_section():
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_table_of_fates_names_tests_that_exist():
    text = (ROOT / "docs" / "fates.md").read_text()
    files = dict(re.findall(r"^\[(\w+)\]: \.\./(\S+)$", text, re.MULTILINE))
    named = re.findall(r"\[`(test_\w+)`\]\[(\w+)\]", text)
    assert named
    missing = [
        name for name, file in named if f"def {name}(" not in (ROOT / files[file]).read_text()
    ]
    assert missing == []
