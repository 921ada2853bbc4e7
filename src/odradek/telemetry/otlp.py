"""Reads the numbers of OpenTelemetry metrics that clients push, in protobuf's encoding.

Gauges, sums and histograms of a `MetricsData` message are read, with the attributes of each number.
Only the sum and the count of a histogram are read. Unknown fields are skipped by their wire type.
The whole message is rejected if a field extends past the end of the message that contains the
field.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

POINTS_MAX = 10_000
_double = struct.Struct("<d").unpack
_signed = struct.Struct("<q").unpack
_unsigned = struct.Struct("<Q").unpack


class Point(NamedTuple):
    """One number of a metric. `is_delta` means that the value is the change since the last push."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    is_delta: bool


class MalformedTelemetry(ValueError):
    """Bytes that are not OpenTelemetry metrics."""


_Field = tuple[int, int, bytes]
"""Field number, wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes), value."""


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedTelemetry("bad varint")


def _fields(data: bytes) -> Iterator[_Field]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            start = position
            _, position = _varint(data, position)
            yield tag >> 3, kind, data[start:position]
            continue
        if kind == 2:
            size, position = _varint(data, position)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise MalformedTelemetry(f"wire type {kind}")
        if position + size > len(data):
            raise MalformedTelemetry("field past the end")
        yield tag >> 3, kind, data[position : position + size]
        position += size


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    for field, kind, value in _fields(data):
        if field == number and kind == 2:
            yield value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _attribute_value(data: bytes) -> str:
    for field, kind, value in _fields(data):
        if field == 1 and kind == 2:
            return _text(value)
        if kind == 0:
            return str(_varint(value, 0)[0])
        if kind == 1:
            return str(_double(value)[0])
    return ""


def _attribute(data: bytes) -> tuple[str, str]:
    key = value = ""
    for field, kind, content in _fields(data):
        if kind == 2 and field == 1:
            key = _text(content)
        elif kind == 2 and field == 2:
            value = _attribute_value(content)
    return key, value


def _number_point(name: str, data: bytes, is_delta: bool) -> Point:
    attributes: list[tuple[str, str]] = []
    number = 0.0
    for field, kind, value in _fields(data):
        if field == 7 and kind == 2:
            attributes.append(_attribute(value))
        elif field == 4 and kind == 1:
            number = _double(value)[0]
        elif field == 6 and kind == 1:
            number = float(_signed(value)[0])
    return Point(name, tuple(sorted(attributes)), number, is_delta)


def _histogram_points(name: str, data: bytes, is_delta: bool) -> Iterator[Point]:
    attributes: list[tuple[str, str]] = []
    for field, kind, value in _fields(data):
        if field == 9 and kind == 2:
            attributes.append(_attribute(value))
    for field, kind, value in _fields(data):
        if field == 4 and kind == 1:
            number = float(_unsigned(value)[0])
            yield Point(name + ".count", tuple(sorted(attributes)), number, is_delta)
        elif field == 5 and kind == 1:
            yield Point(name + ".sum", tuple(sorted(attributes)), _double(value)[0], is_delta)


def _is_delta(data: bytes) -> bool:
    """Return whether an aggregation (a sum or histogram) has delta temporality."""
    return any(f == 2 and k == 0 and _varint(v, 0)[0] == 1 for f, k, v in _fields(data))


def _metric_points(metric: bytes) -> Iterator[Point]:
    name = "".join(_text(value) for value in _messages(metric, 1))
    for field, kind, data in _fields(metric):
        if kind != 2:
            continue
        if field in {5, 7}:
            is_delta = field == 7 and _is_delta(data)
            for point in _messages(data, 1):
                yield _number_point(name, point, is_delta)
        elif field == 9:
            is_delta = _is_delta(data)
            for point in _messages(data, 1):
                yield from _histogram_points(name, point, is_delta)


def points(payload: bytes) -> list[Point]:
    """Return all numbers of a `MetricsData` message.

    Raises:
        MalformedTelemetry: the payload is malformed or has more than `POINTS_MAX` numbers.
    """
    found: list[Point] = []
    for resource in _messages(payload, 1):
        for scope in _messages(resource, 2):
            for metric in _messages(scope, 2):
                for point in _metric_points(metric):
                    found.append(point)
                    if len(found) > POINTS_MAX:
                        raise MalformedTelemetry(f"more than {POINTS_MAX} numbers")
    return found
