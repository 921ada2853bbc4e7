"""The message declarations are equal to Apache Kafka's schemas, field by field.

The schemas are JSON files in the jars of Apache Kafka 4.4.0.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing
from tests.wire.sampling import APIS, DECLARED

from odradek.wire.declaration import Field, Message
from odradek.wire.names import snake_case
from odradek.wire.versions import MAX_VERSION, NO_VERSIONS, Versions

pytestmark = pytest.mark.java
Schema = dict[str, Any]
KINDS = {"coordinator-key": "key", "coordinator-value": "value"}
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Schema]:
    """Return all schemas with a valid version, by name."""
    try:
        return read_schemas(next_jars())
    except Missing as reason:
        pytest.skip(str(reason))


def read_schemas(paths: list[Path]) -> dict[str, Schema]:
    """Return the schemas in jars, by name."""
    found: dict[str, Schema] = {}
    for path in paths:
        if not path.name.startswith("kafka"):
            continue
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                if re.search(r"(message|metadata)/[^/]*\.json$", entry):
                    schema = json.loads(re.sub(rb"(?m)^\s*//.*$", b"", jar.read(entry)))
                    if schema["validVersions"] != "none":
                        found[schema["name"]] = schema
    return found


def test_every_schema_is_declared_and_nothing_else(schemas: Mapping[str, Schema]) -> None:
    assert {message.name for message in DECLARED} == set(schemas)


@pytest.mark.parametrize("message", DECLARED, ids=lambda each: each.name)
def test_a_message(message: Message, schemas: Mapping[str, Schema]) -> None:
    compare_message(message, schemas)


def compare_message(message: Message, schemas: Mapping[str, Schema]) -> None:
    """Check that a declaration is equal to the schema of the same name."""
    schema = schemas[message.name]
    assert message.kind == KINDS.get(schema["type"], schema["type"])
    assert message.api_key == schema.get("apiKey")
    assert message.versions == parse(schema["validVersions"], message.versions)
    assert within(message.flexible, message) == parse(schema["flexibleVersions"], message.versions)
    unstable = schema.get("latestVersionUnstable", False)
    assert bool(message.unstable) == unstable
    if unstable:
        assert message.unstable.low == message.versions.high
    common = {each["name"]: each for each in schema.get("commonStructs", [])}
    assert set(message.structs) == set(common)
    compare(message, message.fields, schema["fields"], common, message.versions)


def test_listeners_of_the_apis(schemas: Mapping[str, Schema]) -> None:
    for api in APIS:
        assert list(api.listeners) == schemas[f"{api.name}Request"]["listeners"]
        assert api.key == schemas[f"{api.name}Response"]["apiKey"]


def parse(text: str, inside: Versions) -> Versions:
    """Return a version range of a schema, limited to the versions in `inside`."""
    versions = Versions.parse(text)
    return intersection(versions, inside)


def within(versions: Versions, message: Message) -> Versions:
    return intersection(versions, message.versions)


def intersection(one: Versions, two: Versions) -> Versions:
    both = Versions(max(one.low, two.low), min(one.high, two.high))
    return both or NO_VERSIONS


def compare(
    message: Message,
    ours: list[Field],
    theirs: list[Schema],
    common: Mapping[str, Schema],
    alive: Versions,
) -> None:
    assert [field.name for field in ours] == [snake_case(field["name"]) for field in theirs]
    for our, their in zip(ours, theirs, strict=True):
        where = f"{message.name}.{our.name}"
        is_array = their["type"].startswith("[]")
        assert our.is_array == is_array, where
        assert our.type == their["type"].removeprefix("[]"), where
        versions = parse(their.get("versions", their.get("taggedVersions", "none")), alive)
        assert intersection(our.versions, alive) == versions, where
        nullable = parse(their.get("nullableVersions", "none"), versions)
        assert intersection(our.nullable, versions) == nullable, where
        assert our.tag == their.get("tag"), where
        tagged = parse(their.get("taggedVersions", "none"), versions)
        assert intersection(our.tagged, versions) == tagged, where
        assert our.ignorable == their.get("ignorable", False), where
        assert our.inflexible == (their.get("flexibleVersions") == "none"), where
        compare_default(our, their, where)
        if our.struct is not None:
            nested = their.get("fields") or common[our.type]["fields"]
            compare(message, our.struct.fields, nested, common, versions)


def compare_default(our: Field, their: Schema, where: str) -> None:
    """Return the default of a field. A missing default is zero, empty or false."""
    text = their.get("default")
    if text == "null":
        assert our.has_default, where
        assert our.default is None, where
        return
    expected: object = text
    if text is None or our.is_array:
        expected = None
    elif our.type in INTEGERS:
        expected = int(str(text), 0)
    elif our.type == "bool":
        expected = str(text) == "true"
    elif our.type == "float64":
        expected = float(text)
    if our.has_default:
        assert our.default is not None, where
        assert our.default == expected, where
    else:
        assert expected in {None, 0, ""}, where


def test_the_range_without_an_end() -> None:
    assert Versions.parse("9+") == (9, MAX_VERSION)
