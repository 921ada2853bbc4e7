"""Debezium's ExtractNewRecordState: from an envelope of a change to the row after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from odradek.core.connect import data
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance, one_of
from odradek.core.connect.data import Schema, Struct, struct_schema
from odradek.core.connect.records import ConnectRecord, Header, Headers
from odradek.core.connect.transform import Transform

RecordT = TypeVar("RecordT", bound=ConnectRecord)
_DELETED = "__deleted"


class ExtractNewRecordState(Transform):
    """See the module. Records that are not envelopes pass unchanged."""

    java_name = "io.debezium.transforms.ExtractNewRecordState"
    definitions = (
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode",
            ConfigType.STRING,
            "tombstone",
            Importance.MEDIUM,
            "What becomes of a deletion and its tombstone: drop, tombstone, rewrite, "
            "rewrite-with-tombstone or delete-to-tombstone.",
            validator=one_of(
                "drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"
            ),
        )
        .define(
            "add.fields",
            ConfigType.LIST,
            [],
            Importance.LOW,
            "Fields of the envelope to add, such as op,source.ts_ms; NAME:NEW renames one.",
        )
        .define("add.fields.prefix", ConfigType.STRING, "__", Importance.LOW, "Their prefix.")
        .define(
            "add.headers",
            ConfigType.LIST,
            [],
            Importance.LOW,
            "Fields of the envelope to add as headers.",
        )
        .define("add.headers.prefix", ConfigType.STRING, "__", Importance.LOW, "Their prefix.")
    )

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Transform`."""
        return cls.definitions

    def configure(self, config: Mapping[str, Any]) -> None:
        """See `Transform`."""
        self._settings = self.definitions.parse(config)

    def apply(self, record: RecordT) -> RecordT | None:
        """See `Transform`."""
        mode = self._settings["delete.tombstone.handling.mode"]
        envelope = record.value
        if envelope is None:
            keeps = mode in ("tombstone", "rewrite-with-tombstone")
            return record if keeps else None
        if not isinstance(envelope, Struct) or not _is_envelope(envelope):
            return record
        record = record.with_changes(headers=self._headers(record, envelope))
        after = envelope["after"]
        if after is not None:
            return self._row(record, envelope, after, is_deleted=False, mode=mode)
        if mode == "delete-to-tombstone":
            return record.with_changes(value_schema=None, value=None)
        before = envelope["before"]
        if not mode.startswith("rewrite") or before is None:
            return None
        return self._row(record, envelope, before, is_deleted=True, mode=mode)

    def _row(
        self, record: RecordT, envelope: Struct, row: Struct, *, is_deleted: bool, mode: str
    ) -> RecordT:
        added: list[tuple[str, Schema, Any]] = []
        if mode.startswith("rewrite"):
            added.append((_DELETED, data.STRING, "true" if is_deleted else "false"))
        prefix = self._settings["add.fields.prefix"]
        for name, schema, value in _found(envelope, self._settings["add.fields"]):
            added.append((prefix + name, schema, value))
        if not added:
            return record.with_changes(value_schema=row.schema, value=row)
        fields = [(each.name, each.schema) for each in row.schema.fields]
        shape = struct_schema([*fields, *((name, schema) for name, schema, _ in added)])
        schema = replace(row.schema, fields=shape.fields)
        made = Struct(schema, {f.name: value for f, value in row.items() if value is not None})
        for name, _, value in added:
            made[name] = value
        return record.with_changes(value_schema=schema, value=made)

    def _headers(self, record: ConnectRecord, envelope: Struct) -> Headers:
        prefix = self._settings["add.headers.prefix"]
        added = [
            Header(prefix + name, schema, value)
            for name, schema, value in _found(envelope, self._settings["add.headers"])
        ]
        return Headers([*record.headers, *added])


def _is_envelope(value: Struct) -> bool:
    name = value.schema.name or ""
    return name.endswith(".Envelope") and value.schema.field("after") is not None


def _found(envelope: Struct, wanted: list[str]) -> list[tuple[str, Schema, Any]]:
    """Return fields of the envelope, such as `op` or `source.ts_ms`, with their new names."""
    found = []
    for each in wanted:
        path, _, new = each.partition(":")
        current: Any = envelope
        schema: Schema | None = envelope.schema
        for name in path.split("."):
            field = schema.field(name) if schema is not None else None
            current = current[name] if isinstance(current, Struct) and field is not None else None
            schema = None if field is None else field.schema
        optional = (schema or data.STRING).optional()
        found.append((new or path.replace(".", "_"), optional, current))
    return found
