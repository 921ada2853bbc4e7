"""Each field has one owner: the plugin of mypy finds a planted violation; no exception is left over."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.tidy.field_owners import exceptions
from tests.tidy.sources import PACKAGE, ROOT

PLANTED = """
class Owner:
    def __init__(self) -> None:
        self.field = 0
        self._hidden = 0

    @property
    def hidden(self) -> int:
        return self._hidden

    @hidden.setter
    def hidden(self, value: int) -> None:
        self._hidden = value

    def copy(self) -> "Owner":
        other = Owner()
        other.field = self.field
        return other


class Other:
    def set(self, owner: Owner) -> None:
        owner.field = 1


def increase(owner: Owner) -> None:
    owner.hidden = 1
    owner.field += 1
"""


def test_a_planted_violation_is_found(tmp_path: Path) -> None:
    package = tmp_path / "odradek"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "planted.py").write_text(PLANTED)
    plugin = ROOT / "tests" / "tidy" / "field_owners.py"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nplugins = {plugin}\n")
    finished = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "odradek"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in finished.stdout.splitlines() if "[field-owner]" in line]
    lines = PLANTED.splitlines()
    expected = [lines.index("        owner.field = 1") + 1, lines.index("    owner.field += 1") + 1]
    assert [int(line.split(":")[1]) for line in found] == expected, finished.stdout


def written_fields(module: str) -> set[str]:
    """The names of fields that a module writes to something else than `self`."""
    path = PACKAGE.parent / (module.replace(".", "/") + ".py")
    if not path.exists():
        path = PACKAGE.parent / module.replace(".", "/") / "__init__.py"
    if not path.exists():
        return set()
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store | ast.Del):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id != "self":
            found.add(node.attr)
    return found


def test_no_exception_is_left_over() -> None:
    """The list only shrinks: what is not written any more is taken off it."""
    left_over = [
        f"{module} {field}"
        for module, field in sorted(exceptions())
        if field.rpartition(".")[2] not in written_fields(module)
    ]
    assert left_over == []
