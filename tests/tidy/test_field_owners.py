"""Each field has one owner: the plugin of mypy finds a planted violation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT

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
