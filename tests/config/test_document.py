"""docs/configuration.md is what the definitions say."""

from __future__ import annotations

from pathlib import Path

from odradek.config.document import document

ROOT = Path(__file__).parents[2]


def test_the_documentation_is_current() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert text == document(), "run: python -m odradek.config.document"
