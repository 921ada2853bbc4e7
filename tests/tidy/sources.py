"""The source files that are written by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "odradek"
GENERATED = PACKAGE / "wire" / "generated"
DIRECTORIES = ("src", "tests", "bench", "compat", "examples")
SUFFIXES = {".py", ".msg", ".java", ".go", ".js", ".mjs", ".sh", ".css", ".html"}


def is_written_by_hand(path: Path) -> bool:
    """Neither generated nor a file that a tool put there."""
    if path.parent == GENERATED and path.name != "__init__.py":
        return False
    return not {"__pycache__", "node_modules", "fixtures"} & set(path.parts)


def source_files() -> list[Path]:
    """Every hand-written source file of the project."""
    found = [ROOT / "hatch_build.py"]
    for directory in DIRECTORIES:
        paths = sorted((ROOT / directory).rglob("*"))
        found.extend(p for p in paths if p.suffix in SUFFIXES and is_written_by_hand(p))
    return found


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a Python file with their lengths in lines, decorators left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def shown(path: Path) -> str:
    """A path as it is written in messages."""
    return path.relative_to(ROOT).as_posix()
