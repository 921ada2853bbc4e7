r"""Encodes metadata records as values of records in the metadata log. The keys are null.

The format of a value is:

    uvarint frame version (1) | uvarint type | uvarint version | message
"""

from __future__ import annotations

from functools import cache
from typing import Any

from odradek.core.metadata.errors import MetadataFormatError
from odradek.core.metadata.versions import record_version
from odradek.wire.api import message_class
from odradek.wire.primitives import (
    Buffer,
    MalformedMessage,
    Message,
    read_uvarint,
    write_uvarint,
)

FRAME_VERSION = 1

RECORD_NAMES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
"""Message names by record type. The types 6, 13 and 16 are obsolete."""

BEGIN_TRANSACTION = 23
END_TRANSACTION = 24
ABORT_TRANSACTION = 25


@cache
def record_class(key: int) -> type[Message] | None:
    """Return the class of a record type, or None. The class is imported at its first use."""
    name = RECORD_NAMES.get(key)
    return None if name is None else message_class(name)


def encode_record(record: Message, level: int) -> bytes:
    """Encode a record in the version that belongs to a level of metadata.version."""
    return encode_record_as(record, record_version(record, level))


def encode_record_as(record: Message, version: int) -> bytes:
    """Encode a record in a given version."""
    key = record.API_KEY
    assert key is not None
    parts: list[Any] = [_prefix(key, version)]
    record.ENCODERS[version](record, parts.append)
    return b"".join(parts)


@cache
def _prefix(key: int, version: int) -> bytes:
    return b"".join(map(write_uvarint, (FRAME_VERSION, key, version)))


def decode_record(value: Buffer) -> Message:
    """Decode a record.

    Raises:
        MetadataFormatError: the value is invalid, or has an unknown type or version.
    """
    return decode_record_and_version(value)[0]


def decode_record_and_version(value: Buffer) -> tuple[Message, int]:
    """Decode a record. Return the record and its version.

    Raises:
        MetadataFormatError: see `decode_record`.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        if frame_version != FRAME_VERSION:
            raise MetadataFormatError(f"unknown frame version {frame_version}")
        cls = record_class(key)
        if cls is None:
            raise MetadataFormatError(f"unknown record type {key}; was it written by a newer node?")
        return cls.decode(value, version, position), version
    except (IndexError, MalformedMessage) as error:
        raise MetadataFormatError(f"not a metadata record: {error}") from error
