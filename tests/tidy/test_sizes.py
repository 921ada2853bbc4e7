"""Limits on the size of files and functions. Exceptions are listed."""

from __future__ import annotations

from tests.tidy.sources import functions, shown, source_files

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LONG_FILES: frozenset[str] = frozenset({"src/odradek/log/segment.py"})
"""Files over the limit: one class each, which alone writes its fields. The list only shrinks."""
LONG_FUNCTIONS: frozenset[str] = frozenset()
"""Functions over the limit, as `path:name`; the list only shrinks."""


def test_files() -> None:
    long = {
        shown(path)
        for path in source_files()
        if len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES_MAX
    }
    assert long == LONG_FILES


def test_functions() -> None:
    long = {
        f"{shown(path)}:{name}"
        for path in source_files()
        if path.suffix == ".py"
        for name, lines in functions(path)
        if lines > FUNCTION_LINES_MAX
    }
    assert long == LONG_FUNCTIONS


def test_the_measure_measures(tmp_path) -> None:
    body = "".join(f"    x = {n}\n" for n in range(FUNCTION_LINES_MAX))
    path = tmp_path / "planted.py"
    path.write_text(f"@decorator\ndef long():\n{body}\nasync def short():\n    pass\n")
    assert dict(functions(path)) == {"long": FUNCTION_LINES_MAX + 1, "short": 2}
