"""The offsets of sources: keys and values, as in Connect's topic and in its file.

A key is the JSON `["connector",{partition}]`, a value the JSON of the offset. The bytes of the key
decide: `{"a":1,"b":2}` and `{"b":2,"a":1}` are two entries. So `OffsetMap` finds the bytes that were
written before, whatever the order of the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odradek.core.connect.errors import DataError
from odradek.core.connect.java_text import json_bytes

Json = Mapping[str, Any]


def offset_key(connector: str, partition: Json) -> bytes:
    """Return the key of a partition of a source.

    Raises:
        DataError: the partition has values that are not primitive.
    """
    check_primitive(partition)
    return json_bytes([connector, dict(partition)])


def offset_value(offset: Json | None) -> bytes | None:
    """Return the value of an offset; None deletes it.

    Raises:
        DataError: the offset has values that are not primitive.
    """
    if offset is None:
        return None
    check_primitive(offset)
    return json_bytes(dict(offset))


def check_primitive(given: object) -> None:
    """Check that a partition or an offset has names and primitive values.

    Raises:
        DataError: it has others.
    """
    if not isinstance(given, Mapping):
        raise DataError("Offsets must be specified as a Map")
    for name, value in given.items():
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
        if value is not None and not isinstance(value, str | int | float | bool | bytes):
            raise DataError(
                "Offsets may only contain primitive types as values, but field "
                f"{name} contains {type(value).__name__}"
            )


def split_key(key: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return connector and partition of a key; None if it is not a key."""
    try:
        found = json.loads(key)
    except ValueError:
        return None
    if (
        isinstance(found, list)
        and len(found) == 2
        and isinstance(found[0], str)
        and isinstance(found[1], dict)
    ):
        return found[0], found[1]
    return None


class OffsetMap:
    """The present offsets."""

    def __init__(self, stored: Mapping[bytes, bytes | None] | None = None) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: dict[tuple[str, str], bytes] = {}
        """The bytes of the key by connector and sorted partition."""
        for key, value in (stored or {}).items():
            self.replay(key, value)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record. A key that is not one is kept, but not found."""
        if value is None:
            self._values.pop(key, None)
            return
        self._values[key] = value
        parts = split_key(key)
        if parts is not None:
            self._keys[parts[0], _canonical(parts[1])] = key

    def key_of(self, connector: str, partition: Json) -> bytes:
        """Return the key under which the partition was stored, or a new one."""
        known = self._keys.get((connector, _canonical(partition)))
        return offset_key(connector, partition) if known is None else known

    def get(self, connector: str, partition: Json) -> dict[str, Any] | None:
        """Return the offset of a partition."""
        value = self._values.get(self.key_of(connector, partition))
        if value is None:
            return None
        try:
            found = json.loads(value)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Return all partitions of a connector with their offsets."""
        found = []
        for key in self._values:
            parts = split_key(key)
            if parts is not None and parts[0] == connector:
                found.append((parts[1], self.get(connector, parts[1])))
        return found

    def stored(self) -> dict[bytes, bytes]:
        """Return keys and values."""
        return dict(self._values)


def _canonical(partition: Json) -> str:
    return json.dumps(partition, sort_keys=True, default=str)
