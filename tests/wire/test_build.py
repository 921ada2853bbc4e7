"""Modules are generated only if they are missing or outdated."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.model import api_keys
from odradek.wire import build
from odradek.wire.api import BY_KEY, BY_NAME


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for generated modules, and a count of how often they are made."""
    generated = tmp_path / "generated"
    generated.mkdir()
    monkeypatch.setattr(build, "GENERATED", generated)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "generate", _stamp_only)
    return generated


def _stamp_only(directory: Path, stamp: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / "made"
    made.write_text(f"{int(made.read_text()) + 1 if made.exists() else 1}")
    (directory / build.STAMP).write_text(stamp)


def test_made_once(home: Path) -> None:
    assert build.ensure() == [str(home)]
    assert build.ensure() == [str(home)]
    assert (home / "made").read_text() == "1"


def test_made_again_when_a_source_changes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.ensure()
    monkeypatch.setattr(build, "fingerprint", lambda: "changed")
    build.ensure()
    assert (home / "made").read_text() == "2"


def test_a_wheels_modules_are_left_alone(home: Path) -> None:
    (home / build.STAMP).write_text(build.BUILT)
    assert build.ensure() == [str(home)]
    assert not (home / "made").exists()


def test_the_cache_where_the_package_cannot_be_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.os, "access", lambda path, mode: False)
    cache = tmp_path / "cache" / "odradek" / "wire"
    assert build.ensure() == [str(home), str(cache)]
    assert build.ensure() == [str(home), str(cache)]
    assert (cache / "made").read_text() == "1"


def test_generating_twice_rewrites_nothing(tmp_path: Path) -> None:
    build.generate(tmp_path, "one")
    first = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.py")}
    build.generate(tmp_path, "two")
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.py")} == first
    assert (tmp_path / build.STAMP).read_text() == "two"
    assert len(first) > 270


def test_header_versions() -> None:
    produce = BY_NAME["Produce"]
    assert [produce.request_header_version(v) for v in (8, 9)] == [1, 2]
    assert [produce.response_header_version(v) for v in (8, 9)] == [0, 1]
    assert BY_KEY[api_keys.API_VERSIONS].response_header_version(4) == 0
    assert BY_KEY[api_keys.API_VERSIONS].request_header_version(4) == 2
    assert BY_NAME["OffsetDelete"].request_header_version(0) == 1
