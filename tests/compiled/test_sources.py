"""Compiled modules do not use constructs that mypyc is known to miscompile."""

from __future__ import annotations

import ast
import tomllib

import pytest
from tests.tidy.sources import ROOT

from odradek.wire import declaration, generator
from odradek.wire.build import MESSAGES

with (ROOT / "pyproject.toml").open("rb") as settings:
    MODULES = tomllib.load(settings)["tool"]["odradek"]["compile"]["modules"]


def ranges_that_change(source: str) -> list[int]:
    """Lines of `for ... in range(n)` whose body assigns `n`: mypyc 2.4.1 ends the loop early."""
    found = []
    for loop in ast.walk(ast.parse(source)):
        if not (
            isinstance(loop, ast.For)
            and isinstance(loop.iter, ast.Call)
            and isinstance(loop.iter.func, ast.Name)
            and loop.iter.func.id == "range"
        ):
            continue
        bounds = {node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)}
        assigned = {
            node.id
            for statement in loop.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if bounds & assigned:
            found.append(loop.lineno)
    return found


def test_a_planted_loop_is_found():
    assert ranges_that_change("for _ in range(n):\n    n, p = read(p)") == [1]
    assert ranges_that_change("for _ in range(n):\n    m, p = read(p)") == []


@pytest.mark.parametrize("module", [name for name in MODULES if ".generated." not in name])
def test_compiled_modules(module):
    path = ROOT / "src" / f"{module.replace('.', '/')}.py"
    assert ranges_that_change(path.read_text(encoding="utf-8")) == []


def test_generated_codecs():
    messages, _ = declaration.read_all(MESSAGES)
    for message in messages:
        assert ranges_that_change(generator.module_source(message)) == [], message.name
