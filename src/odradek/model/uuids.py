"""Kafka's UUIDs, which have 16 bytes and are written as 22 characters of URL-safe base64.

In the code, a UUID is a `bytes` object. This is also its form in the protocol, and the fastest key
of a dictionary.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache

ZERO = bytes(16)
"""This value means that there is no id."""
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The topic id of `__cluster_metadata`."""
DIRECTORY_MIGRATING = ZERO
"""A directory id. It means that the replica is older than JBOD support (KIP-858)."""
DIRECTORY_UNASSIGNED = bytes(15) + b"\x01"
"""A directory id. It means that the broker chooses the directory."""
DIRECTORY_LOST = bytes(15) + b"\x02"
"""A directory id. It means that the directory is offline."""


@lru_cache(maxsize=1024)
def to_text(value: bytes) -> str:
    """Return the text form of a UUID, such as `AAAAAAAAAAAAAAAAAAAAAA` for `bytes(16)`."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def from_text(text: str) -> bytes:
    """Return the UUID with this text form.

    Raises:
        ValueError: the text is not 22 characters of URL-safe base64.
    """
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a UUID: expected 22 characters of URL-safe base64")
    return value


def is_reserved(value: bytes) -> bool:
    """Return whether the id is one of the first hundred ids, which Kafka reserves."""
    return value[:15] == bytes(15) and value[15] < 100


def make(random_bytes: bytes) -> bytes:
    """Return a version 4 UUID made of 16 random bytes.

    The caller repeats the call if the UUID starts with `-` or is reserved.
    """
    value = bytearray(random_bytes)
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    return bytes(value)
