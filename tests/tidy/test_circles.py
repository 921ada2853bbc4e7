"""No import cycles between the modules of a package, and none between folders."""

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


def imports(root: Path) -> dict[str, set[str]]:
    """What each module below `root` imports from others there; a package's `__init__` has its name.

    The generated messages are left out: they use `wire.primitives`, and `wire.api` finds them.
    """
    paths: dict[str, Path] = {}
    for path in sorted(root.rglob("*.py")):
        if is_written_by_hand(path):
            parts = path.relative_to(root.parent).with_suffix("").parts
            paths[".".join(parts).removesuffix(".__init__")] = path
    modules = set(paths)
    return {
        name: {each for each in imports_of(path, name, modules) if each in modules} - {name}
        for name, path in paths.items()
    }


def faces(root: Path) -> set[str]:
    """The packages below `root`, with `root`."""
    found = sorted(root.rglob("__init__.py"))
    return {".".join(path.parent.relative_to(root.parent).parts) for path in found}


def graph_of(root: Path, found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Who imports whom, among the modules of the same package of `root` (or of `root` itself).

    A package's `__init__` imports what it exports; that others import it is no circle.
    """
    packages = faces(root)
    return {
        name: {each for each in imported - packages if each.split(".")[:2] == name.split(".")[:2]}
        for name, imported in found.items()
        if name not in packages
    }


def folders_of(root: Path, found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Which folder imports which, by `package/`. A folder is its own modules without its rooms.

    So modules of a package are above all of its rooms that they use, and below all that use them.
    Imports for types and in functions count: a reader follows these, too. An `__init__` stands for
    itself, above what it exports: no room may use the face of the house.
    """
    packages = faces(root)

    def folder(name: str) -> str:
        return name if name in packages else name.rpartition(".")[0] + "/"

    graph: dict[str, set[str]] = {}
    for name, imported in found.items():
        graph.setdefault(folder(name), set()).update(map(folder, imported))
    for name, used in graph.items():
        used.discard(name)
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


def test_there_are_no_circles_of_modules_and_none_of_folders() -> None:
    found = imports(PACKAGE)
    assert circles(graph_of(PACKAGE, found)) == set()
    assert circles(folders_of(PACKAGE, found)) == set()


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    root = tmp_path / "odradek"
    package = root / "log"
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
    assert circles(graph_of(root, imports(root))) == {frozenset(names)}


def write(root: Path, sources: dict[str, str]) -> None:
    for name, source in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(source)


def test_a_planted_circle_of_folders_is_found(tmp_path: Path) -> None:
    """No two modules import one another here: the top and the ground share a folder."""
    root = tmp_path / "odradek"
    plain = {
        "broker/ground.py": "",
        "broker/top.py": "from odradek.broker.peers.tokens import Tokens\n",
        "broker/peers/tokens.py": "import odradek.broker.shelf.one\n",
        "broker/shelf/one.py": "",
    }
    write(root, plain)
    (root / "__init__.py").touch()
    assert circles(folders_of(root, imports(root))) == set()
    for late in (
        "def late():\n    from ...broker import ground\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import odradek.broker.ground\n",
    ):
        write(root, plain | {"broker/shelf/one.py": late})
        assert circles(graph_of(root, imports(root))) == set()
        rooms = {"odradek.broker/", "odradek.broker.peers/", "odradek.broker.shelf/"}
        assert circles(folders_of(root, imports(root))) == {frozenset(rooms)}


def test_a_room_that_uses_the_face_of_its_house_is_found(tmp_path: Path) -> None:
    root = tmp_path / "odradek"
    write(root, {"log/segment.py": "", "log/cleaner/round.py": "from odradek.log import Segment\n"})
    (root / "__init__.py").touch()
    (root / "log" / "__init__.py").write_text("from odradek.log.cleaner.round import clean\n")
    assert circles(folders_of(root, imports(root))) == {
        frozenset({"odradek.log", "odradek.log.cleaner/"})
    }
