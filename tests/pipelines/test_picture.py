"""The picture of a pipeline is saved, and its path is printed."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from odradek.pipelines import picture
from odradek.pipelines.picture import Bars, Lines, draw
from odradek.pipelines.places import Places

PNG = b"\x89PNG\r\n"
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def places(tmp_path):
    return Places(None, "", tmp_path)


def test_bars_and_lines(console, places, tmp_path):
    points = [(NOON + timedelta(hours=hour), float(hour)) for hour in range(5)]
    panels = [
        Bars("by name", {"a": 1.0, "$x^" * 30: 2.0}),
        Lines("by hour", {"a": points, "b": []}),
    ]
    draw(console, places, "words", "Words", panels)
    path = tmp_path / "words.png"
    assert console.file.getvalue() == f"Picture: {path}\n"
    assert path.read_bytes().startswith(PNG)


def test_without_any_values(console, places, tmp_path):
    draw(console, places, "words", "Words", [Bars("by name", {}), Lines("by hour", {})])
    assert (tmp_path / "words.png").read_bytes().startswith(PNG)


def test_without_matplotlib(console, places, tmp_path, monkeypatch):
    monkeypatch.setattr(picture.extras, "missing", lambda names: names)
    draw(console, places, "words", "Words", [Bars("by name", {})])
    assert console.file.getvalue().startswith("No picture: matplotlib is not installed")
    assert not (tmp_path / "words.png").exists()
