"""The node that is measured is started from the build that was asked for."""

from __future__ import annotations

from pathlib import Path

from bench.build import PURE, WHEEL, Build, prepared


def test_the_node_of_a_build_is_started_from_there(tmp_path: Path) -> None:
    (tmp_path / "odradek").touch()
    build = Build(WHEEL, "abc", tmp_path / "python", compiled_modules=3)
    node = build.node()(directory=tmp_path)
    assert node.command()[0] == str(tmp_path / "odradek")
    told = node.described()
    assert (told["build"], told["mode"], told["commit"]) == ("compiled", "wheel", "abc")


def test_the_checkout_is_pure() -> None:
    build = prepared(PURE)
    assert build.kind == "pure"
    assert build.python.with_name("odradek").exists()
