"""Every message declaration begins with a line that says what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.wire.build import MESSAGES


@pytest.mark.parametrize("path", sorted(MESSAGES.glob("*.msg")), ids=lambda path: path.stem)
def test_the_first_line(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert len(first) <= 100
