"""Kafka's UUIDs: 16 bytes, written as 22 characters of URL-safe base64.

The code handles them as plain `bytes`: the form of the protocol, and the cheapest dictionary key.
"""

from __future__ import annotations

import base64
import binascii

ZERO = bytes(16)
"""No id."""
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The topic id of `__cluster_metadata`."""
DIRECTORY_MIGRATING = ZERO
"""Used as a directory id: the replica is older than JBOD support (KIP-858)."""
DIRECTORY_UNASSIGNED = bytes(15) + b"\x01"
"""Used as a directory id: the broker chooses the directory."""
DIRECTORY_LOST = bytes(15) + b"\x02"
"""Used as a directory id: the directory is offline."""


def to_text(value: bytes) -> str:
    """`bytes(16)` -> `AAAAAAAAAAAAAAAAAAAAAA`."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """The inverse of `to_text`.

    Raises:
        ValueError: not 22 characters of URL-safe base64.
    """
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a UUID: expected 22 characters of URL-safe base64")
    return value


def is_reserved(value: bytes) -> bool:
    """Return whether the id is one of the first hundred, which Kafka reserves."""
    return value[:15] == bytes(15) and value[15] < 100


def make(random_bytes: bytes) -> bytes:
    """Return a version 4 UUID made of 16 random bytes.

    The caller repeats the call if the UUID starts with `-` or is reserved.
    """
    value = bytearray(random_bytes)
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)
