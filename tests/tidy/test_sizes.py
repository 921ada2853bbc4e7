"""Limits on the size of files and functions, whatever their layout. Exceptions are listed.

`# fmt: skip` is for tables, whose rows and columns a reader compares. It saves no function from its
limit: a file with such comments is measured as the formatter would write it without them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checkout import needs_checkout
from tests.tidy.sources import PACKAGE, ROOT, functions, shown, source_files

pytestmark = needs_checkout  # for ruff and its settings

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LONG_FILES: frozenset[str] = frozenset({"src/odradek/log/segment.py"})
"""Files over the limit: one class each, which alone writes its fields. The list only shrinks."""
LONG_FUNCTIONS: frozenset[str] = frozenset()
"""Functions over the limit, as `path:name`; the list only shrinks."""
RUFF = Path(sys.executable).with_name("ruff")
PACKED = re.compile(r" *# fmt: (?:skip|off|on)\b")


def is_packed(path: Path) -> bool:
    """Whether the file has a layout of its own somewhere."""
    return path.suffix == ".py" and PACKED.search(path.read_text(encoding="utf-8")) is not None


def unpacked(paths: list[Path], directory: Path) -> dict[Path, Path]:
    """Copies of the files, written by the formatter alone."""
    copies = {path: directory / f"{number}_{path.name}" for number, path in enumerate(paths)}
    for path, copy in copies.items():
        copy.write_text(PACKED.sub("", path.read_text(encoding="utf-8")))
    command = [RUFF, "format", "--quiet", "--config", ROOT / "pyproject.toml", *copies.values()]
    subprocess.run(command, check=True)
    return copies


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The text to measure of every source file."""
    paths = source_files()
    copies = unpacked([each for each in paths if is_packed(each)], tmp_path_factory.mktemp("plain"))
    return {shown(path): copies.get(path, path) for path in paths}


def test_files(measured: dict[str, Path]) -> None:
    long = {
        name
        for name, path in measured.items()
        if len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES_MAX
    }
    assert long == LONG_FILES


def test_functions(measured: dict[str, Path]) -> None:
    long = {
        f"{name}:{function}"
        for name, path in measured.items()
        if path.suffix == ".py"
        for function, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    }
    assert long == LONG_FUNCTIONS


def packed_functions(path: Path) -> Iterator[str]:
    """The functions that have a layout of their own somewhere."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            PACKED.search(line) for line in lines[node.lineno - 1 : node.end_lineno]
        ):
            yield node.name


def test_only_tests_have_tables_in_functions() -> None:
    """What is asked and what is expected, side by side. In the package nothing is a table."""
    packed = {
        f"{shown(path)}:{name}"
        for path in source_files()
        if is_packed(path) and not path.is_relative_to(ROOT / "tests")
        for name in packed_functions(path)
    }
    assert packed == set()
    assert not [
        shown(path) for path in source_files() if path.is_relative_to(PACKAGE) and is_packed(path)
    ]


def test_the_measure_measures(tmp_path: Path) -> None:
    body = "".join(f"    x = {n}\n" for n in range(FUNCTION_LINES_MAX))
    path = tmp_path / "planted.py"
    path.write_text(f"@decorator\ndef long():\n{body}\nasync def short():\n    pass\n")
    assert dict(functions(path)) == {"long": FUNCTION_LINES_MAX + 1, "short": 2}
    assert not is_packed(path)


def test_a_packed_function_is_measured_without_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    names = ", ".join(f"a_name_{n:02}" for n in range(FUNCTION_LINES_MAX))
    path.write_text(
        f"def packed():\n    return [{names}]  # fmt: skip\n\n\ndef plain():\n    pass\n"
    )
    assert is_packed(path)
    assert list(packed_functions(path)) == ["packed"]
    copy = unpacked([path], tmp_path)[path]
    assert dict(functions(path))["packed"] == 2
    assert dict(functions(copy)) == {"packed": FUNCTION_LINES_MAX + 3, "plain": 2}
