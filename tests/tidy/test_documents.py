"""Files, links and names that the documents mention exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.tidy.sources import PACKAGE, ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACES = (ROOT, PACKAGE, ROOT / "src")


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_the_files_that_are_named(document: Path) -> None:
    named = set(
        re.findall(r"`((?:[\w.-]+/)*\w[\w.-]*\.(?:py|msg|java|toml|md))`", text_of(document))
    )
    assert [
        each
        for each in sorted(named)
        if not any((place / each).exists() for place in (*PLACES, document.parent))
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_the_links(document: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(document), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [each for each in targets if not (document.parent / each).exists()] == []


def test_the_functions_and_classes_of_the_walk_are_in_the_files_named_before_them() -> None:
    """`file`, `name`: docs/architecture.md walks requests through the files."""
    walk = " ".join(text_of(ROOT / "docs" / "architecture.md").split())
    pairs = re.findall(r"`([\w/]+\.py)`[,:][^`]*?`(\w+)`", walk)
    assert len(pairs) >= 4
    missing = [(f, n) for f, n in pairs if not re.search(rf"\b{n}\b", text_of(PACKAGE / f))]
    assert missing == []


def test_each_package_is_described_and_each_described_package_exists() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    table = text_of(ROOT / "docs" / "architecture.md").partition("what each may use")[2]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(packages)


def test_the_dependencies() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    listed = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {re.split(r"[^\w-]", word)[0] for words in listed for word in words} - {"odradek"}
    table = text_of(ROOT / "docs" / "dependencies.md").lower()
    assert [name for name in sorted(named) if name.lower() not in table] == []
