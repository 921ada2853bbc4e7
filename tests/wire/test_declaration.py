"""The notation of declarations: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.wire.declaration import DeclarationError, read_file
from odradek.wire.generator import module_source, registry_source
from odradek.wire.names import snake_case
from odradek.wire.versions import ALL_VERSIONS, NO_VERSIONS, Versions

DECLARATION = """\
# An example.
api 7 Example
listeners broker controller
request 1-3 flexible 2+ unstable 3
  name     string?2+  = "none"     # a comment
  count    int32      2+  ignorable  = -5
  items    [Item]?    1-2
    id     uuid
  plain    string     inflexible
response 1-3 flexible none
  items  [Item]
  struct Item 2+
    id  int64
"""


def read(tmp_path: Path, text: str):
    path = tmp_path / "example.msg"
    path.write_text(text)
    return read_file(path)


def test_a_declaration(tmp_path: Path) -> None:
    messages, api = read(tmp_path, DECLARATION)
    assert api is not None
    assert (api.key, api.name, api.listeners) == (7, "Example", ("broker", "controller"))
    request, response = messages
    assert (request.name, request.kind, request.api_key) == ("ExampleRequest", "request", 7)
    assert (request.versions, request.flexible, request.unstable) == ((1, 3), (2, 32767), (3, 3))
    name, count, items, plain = request.fields
    assert (name.nullable, name.default, name.versions) == ((2, 32767), "none", ALL_VERSIONS)
    assert (count.default, count.ignorable, count.versions) == (-5, True, (2, 32767))
    assert items.is_array
    assert items.nullable == ALL_VERSIONS
    assert items.struct is not None
    assert items.struct.fields[0].type == "uuid"
    assert plain.inflexible
    assert response.flexible == NO_VERSIONS
    assert response.fields[0].struct is response.structs["Item"]
    compile(module_source(request), "request", "exec")
    compile(registry_source([api]), "registry", "exec")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("request 1-3", "demand 1-3", "expected a message"),
        ("flexible none", "supple none", "expected 'VERSIONS flexible"),
        ("1-2\n", "1-2 sometimes\n", "unknown word 'sometimes'"),
        ("  plain ", "   plain ", "uneven indentation"),
        ("struct Item", "struct Other", "no struct Item"),
    ],
)
def test_what_is_refused(tmp_path: Path, before: str, after: str, problem: str) -> None:
    assert before in DECLARATION
    with pytest.raises(DeclarationError, match=problem):
        read(tmp_path, DECLARATION.replace(before, after))


def test_versions() -> None:
    assert Versions.parse("none") == NO_VERSIONS
    assert Versions.parse("4") == (4, 4)
    assert 4 in Versions.parse("3-5")
    assert 6 not in Versions.parse("3-5")
    assert "4" not in Versions.parse("3-5")
    assert not NO_VERSIONS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("KRaftVersionRecord", "kraft_version_record"),
        ("EndTxnMarker", "end_txn_marker"),
        ("ISRNodes", "isr_nodes"),
        ("throttleTimeMs", "throttle_time_ms"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert snake_case(name) == expected
