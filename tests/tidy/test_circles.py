"""No import cycles between the modules of a package, including type-only imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import PACKAGE, is_written_by_hand


def imports_of(path: Path, name: str, modules: set[str]) -> Iterator[str]:
    """The modules of the package that a file imports anywhere in it."""
    is_package = path.name == "__init__.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, base]).rstrip(".")
            for each in node.names:
                whole = f"{base}.{each.name}"
                yield whole if whole in modules else base


def graph_of(root: Path) -> dict[str, set[str]]:
    """Who imports whom, among the modules of the same package of `root` (or of `root` itself).

    A package's `__init__` imports what it exports; that others import it is no circle.
    """
    paths: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        if is_written_by_hand(path):
            parts = path.relative_to(root.parent).with_suffix("").parts
            if parts[-1] != "__init__":
                paths[".".join(parts)] = path
    modules = set(paths)
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        package = name.split(".")[:2]
        graph[name] = {
            each
            for each in imports_of(path, name, modules)
            if each in modules and each.split(".")[:2] == package and each != name
        }
    return graph


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for each in sorted(graph[name]):
            if each not in order:
                visit(each)
                lowest[name] = min(lowest[name], lowest[each])
            elif each in stack:
                lowest[name] = min(lowest[name], order[each])
        if lowest[name] == order[name]:
            start = stack.index(name)
            component = frozenset(stack[start:])
            del stack[start:]
            if len(component) > 1:
                found.add(component)

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


def test_there_are_no_circles() -> None:
    assert circles(graph_of(PACKAGE)) == set()


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "odradek" / "log"
    package.mkdir(parents=True)
    (package / "first.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from odradek.log.second import Second\n"
    )
    (package / "second.py").write_text("from odradek.log import third\n")
    (package / "third.py").write_text("def late():\n    from . import first\n")
    (package / "fourth.py").write_text("import odradek.log.first\n")
    names = {f"odradek.log.{name}" for name in ("first", "second", "third")}
    assert circles(graph_of(tmp_path / "odradek")) == {frozenset(names)}
