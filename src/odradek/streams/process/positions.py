"""What a commit has beside an offset: the time of the partition, and up to when windows were emitted.

The text is that of Kafka Streams: base64 of a 2, the time (8 bytes), and, if there are any, the number of
names (4 bytes) and each name (with its length in 4 bytes) with a time (8 bytes).
"""

from __future__ import annotations

import base64
import binascii
from struct import Struct, error

_HEAD = Struct(">bq")
_INT = Struct(">i")
_LONG = Struct(">q")
_VERSION = 2


def encode(time: int, emitted: dict[str, int]) -> str:
    """Return the metadata of a committed offset."""
    parts = [_HEAD.pack(_VERSION, time)]
    if emitted:
        parts.append(_INT.pack(len(emitted)))
        for name, value in emitted.items():
            data = name.encode()
            parts += [_INT.pack(len(data)), data, _LONG.pack(value)]
    return base64.b64encode(b"".join(parts)).decode()


def decode(text: str) -> tuple[int, dict[str, int]]:
    """Return the time and the emitted windows of metadata; -1 and nothing if it has another form."""
    try:
        data = base64.b64decode(text, validate=True)
        version, time = _HEAD.unpack_from(data)
        if version not in (1, _VERSION):
            return -1, {}
        emitted: dict[str, int] = {}
        place = _HEAD.size
        if version == _VERSION and len(data) > place:
            (count,) = _INT.unpack_from(data, place)
            place += 4
            for _ in range(count):
                (size,) = _INT.unpack_from(data, place)
                name = data[place + 4 : place + 4 + size].decode()
                place += 4 + size
                (emitted[name],) = _LONG.unpack_from(data, place)
                place += 8
    except (binascii.Error, error, UnicodeDecodeError):
        return -1, {}
    return time, emitted
