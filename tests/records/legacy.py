"""Messages of formats 0 and 1, which only tests write."""

from __future__ import annotations

import zlib
from struct import pack


def legacy_message(magic, offset=42, timestamp=7, value=b"abc"):
    """One message without key or compression."""
    body = pack(">bb", magic, 0)
    if magic:
        body += pack(">q", timestamp)
    body += pack(">i", -1) + pack(">i", len(value)) + value
    return bytearray(pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body)
