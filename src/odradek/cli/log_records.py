"""Describes records of internal topics as JSON: metadata, groups, transactions, share groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from odradek.cli.rendering import json_bytes
from odradek.core.coordinator.record import KeyMessages, MalformedRecord, decode
from odradek.core.group.records import TYPES
from odradek.core.metadata.errors import MetadataFormatError
from odradek.core.metadata.record import decode_record_and_version
from odradek.model import uuids
from odradek.records.batch import RecordBatch
from odradek.records.control import (
    END_TRANSACTION_VALUE,
    ControlType,
    control_type,
)
from odradek.records.errors import RecordsError
from odradek.records.record import Record
from odradek.wire.api import message_class
from odradek.wire.primitives import MalformedMessage, Message, Struct

Document = dict[str, Any]
Describe = Callable[[Record], Document]

COORDINATOR_KINDS = {
    "__consumer_offsets": TYPES,
    "__transaction_state": {0: "TransactionLog"},
    "__share_group_state": {0: "ShareSnapshot", 1: "ShareUpdate"},
}
_CONTROL_MESSAGES = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


def describer(topic: str | None) -> Describe:
    """Return the function that describes a topic's records.

    Records of internal topics are decoded. Other records are shown as raw key and value.
    """
    if topic == "__cluster_metadata":
        return _metadata
    kinds = COORDINATOR_KINDS.get(topic or "")
    if kinds is None:
        return _plain
    messages = _messages(topic or "")
    return lambda record: _coordinator(record, messages)


@cache
def _messages(topic: str) -> KeyMessages:
    return {
        number: (message_class(f"{name}Key"), message_class(f"{name}Value"))
        for number, name in COORDINATOR_KINDS[topic].items()
    }


def _plain(record: Record) -> Document:
    return {**json_bytes("key", record.key), **json_bytes("value", record.value)}


def _metadata(record: Record) -> Document:
    try:
        message, version = decode_record_and_version(record.value or b"")
    except MetadataFormatError as error:
        return {"problem": str(error), **_plain(record)}
    return {"type": type(message).__name__, "version": version, "data": as_json(message)}


def _coordinator(record: Record, messages: KeyMessages) -> Document:
    try:
        found = decode(record.key, record.value, messages)
    except MalformedRecord as error:
        return {"problem": str(error), **_plain(record)}
    if found is None:
        return {"problem": "the type is not known", **_plain(record)}
    document: Document = {
        "type": type(found.key).__name__.removesuffix("Key"),
        "key": as_json(found.key),
        "value": None if found.value is None else as_json(found.value),
    }
    if found.value is not None:
        document["version"] = found.version
    return document


def control_document(batch: RecordBatch, record: Record) -> Document:
    """Describe a control record: its content and its producer."""
    try:
        kind = control_type(record)
        value = record.value or b""
        document: Document = {"type": kind.name}
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            if len(value) >= END_TRANSACTION_VALUE.size:
                document["coordinator_epoch"] = END_TRANSACTION_VALUE.unpack_from(value)[1]
            document["producer_id"] = batch.producer_id
        elif kind in _CONTROL_MESSAGES:
            message = message_class(_CONTROL_MESSAGES[kind]).decode(value, 0)
            document["data"] = as_json(message)
    except (RecordsError, MalformedMessage) as error:
        return {"problem": str(error), **_plain(record)}
    return document


def as_json(value: Any) -> Any:
    """Return a message as JSON: structs as objects, uuids as text, other bytes in hexadecimal."""
    if isinstance(value, Message | Struct):
        return {name: as_json(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return uuids.to_text(data) if len(data) == len(uuids.ZERO) else data.hex()
    return value
