"""Every handler file says in its first line what it serves, and serves that."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.checkout import needs_checkout
from tests.tidy.sources import PACKAGE, ROOT, shown, source_files

from odradek.handlers import error_answers
from odradek.handlers.registry import BROKER, CONTROLLER, FORWARDED, SERVED
from odradek.handlers.support_matrix import document
from odradek.model import api_keys
from odradek.wire.api import BY_KEY
from odradek.wire.names import snake_case

FILES = sorted((PACKAGE / "handlers").glob("k[0-9]*.py"))
FIRST_LINE = r"(\w+) \((\d+)\), versions? (\d+)(?:-(\d+))?: \S.*"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_line(path: Path) -> None:
    documentation = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(documentation.partition("\n\n")[0].split())
    found = re.fullmatch(FIRST_LINE, paragraph)
    assert found, f"expected `Name (key), versions a-b: what it does`, found {paragraph!r}"
    api = BY_KEY[int(found[2])]
    assert found[1] == api.name
    assert path.stem == f"k{api.key:02d}_{snake_case(api.name)}"


def test_the_first_lines_and_the_handlers_agree() -> None:
    assert len(SERVED) == len(FILES)
    for key, served in SERVED.items():
        api = BY_KEY[key]
        low, high = served.version_min, served.version_max
        assert api.version_min <= low <= high <= api.version_max, api.name
        path = PACKAGE / "handlers" / f"k{key:02d}_{snake_case(api.name)}.py"
        first = path.read_text(encoding="utf-8").splitlines()[0]
        shown = f"{low}-{high}" if low != high else f"{low}"
        assert re.search(rf"versions? {shown}[:\b]", first), f"{path.name} serves {shown}"


def test_each_handler_has_what_the_registry_says() -> None:
    """A node imports a handler at the first request of its API; here all of them are imported."""
    assert list(SERVED) == sorted(SERVED)
    for served in SERVED.values():
        handler = served.handler()
        assert served.key == handler.request.API_KEY
        assert served.is_on_brokers or served.is_on_controllers
        assert (handler.controller is not None) is (CONTROLLER in served.places), served
        assert (handler.handle is not None) is (BROKER in served.places), served
        if FORWARDED in served.places:
            assert CONTROLLER in served.places, served


def test_whole_requests_are_refused_in_one_way_only() -> None:
    own = {key for key, each in SERVED.items() if each.handler().error_response is not None}
    assert own
    assert own.isdisjoint(error_answers._SHAPES), "a shape that nobody asks for"


@needs_checkout  # compiled modules have no docstrings, which the notes are from
def test_the_support_matrix_is_current() -> None:
    text = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    assert text == document(), "run: python -m odradek.handlers.support_matrix"


def test_api_keys_have_the_names_of_the_schemas() -> None:
    named = {name: key for name, key in vars(api_keys).items() if name.isupper()}
    assert named == {snake_case(api.name).upper(): key for key, api in BY_KEY.items()}


NUMBERED = re.compile(
    r"BY_KEY\[\d|SERVED\[\d|\.entries\[\d+\]\.|(?:API_KEY|api_key|api\.key)(?: ?== ?| in \W{1,2}|=)\d"
)


def test_api_keys_are_written_by_name() -> None:
    assert NUMBERED.search("if request.API_KEY == 3:")
    assert NUMBERED.search("RequestHeader(request_api_key=0)")
    found = {
        f"{shown(path)}:{number}"
        for path in source_files()
        if path.suffix == ".py" and path.is_relative_to(PACKAGE)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if NUMBERED.search(line)
    }
    assert found == set()
