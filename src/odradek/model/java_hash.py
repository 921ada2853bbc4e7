"""Java's hash of strings, by which Apache Kafka chooses partitions of coordinators, and orders tables."""

from __future__ import annotations

from struct import iter_unpack


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a signed 32-bit hash of the UTF-16 units."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
            value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
