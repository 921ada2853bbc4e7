"""Parses schemas of Avro with the library fastavro."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

Schema = Any
"""A schema as JSON has it: a name, a list of branches, or an object."""

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
UNREADABLE = (SchemaParseException, UnknownType, KeyError, TypeError, ValueError, AttributeError)
"""What the library raises for a malformed schema."""
UNDECODABLE = (
    EOFError,
    IndexError,  # a number of a branch or a symbol
    KeyError,
    MemoryError,
    OverflowError,
    SchemaResolutionError,
    TypeError,
    ValueError,  # also UnicodeDecodeError
)
"""What the library raises for bytes that are not of the schema."""
UNENCODABLE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What the library raises for values that do not fit the schema."""
_NAMED = ("record", "error", "enum", "fixed")
_PARTS = ("type", "items", "values")


class AvroSchemaError(ValueError):
    """A text is no schema of Avro, or has a type that cannot be used."""


def parsed(text: str, references: tuple[str, ...] = ()) -> tuple[Schema, dict[str, Schema]]:
    """Return a parsed schema, and the types by their full names, those of `references` included.

    Raises:
        AvroSchemaError: the text is no schema.
    """
    named: dict[str, Schema] = {}
    try:
        for each in references:
            fastavro.parse_schema(_loaded(each), named)
        return fastavro.parse_schema(_loaded(text), named), named
    except UNREADABLE as error:
        raise AvroSchemaError(f"it is no schema of Avro: {error}") from error


@functools.lru_cache(maxsize=1000)
def complete(text: str, references: tuple[str, ...] = ()) -> Schema:
    """Return a parsed schema that has the definitions of all types that it uses.

    Raises:
        AvroSchemaError: the text is no schema.
    """
    found, named = parsed(text, references)
    return fastavro.parse_schema(_with_definitions(found, named, set())) if references else found


def _with_definitions(schema: Schema, named: Mapping[str, Schema], known: set[str]) -> Schema:
    """Replace the first use of each name by its definition."""
    if isinstance(schema, str):
        if schema not in named or schema in known:
            return schema
        return _with_definitions(named[schema], named, known)
    if isinstance(schema, list):
        return [_with_definitions(each, named, known) for each in schema]
    if schema["type"] in _NAMED:
        if schema["name"] in known:
            return schema["name"]
        known.add(schema["name"])
    found = {name: value for name, value in schema.items() if not name.startswith("__")}
    for part in _PARTS:
        if part in found and not (part == "type" and found["type"] in _NAMED):
            found[part] = _with_definitions(found[part], named, known)
    if "fields" in found:
        found["fields"] = [
            {**each, "type": _with_definitions(each["type"], named, known)}
            for each in found["fields"]
        ]
    return found


def _loaded(text: str) -> Schema:
    """Return a schema. The name of a primitive type needs no quotes."""
    return text.strip() if text.strip() in PRIMITIVES else json.loads(text)
