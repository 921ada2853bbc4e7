"""Input of `odradek produce`: lines of text, or JSON as `consume` writes it."""

from __future__ import annotations

import base64
import binascii
import json
import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from odradek.cli.values import now_ms
from odradek.operations.texts import parse_time

Headers = tuple[tuple[str, bytes | None], ...]
READ_BYTES = 1 << 16


class InputError(ValueError):
    """A line is not a record."""


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A record to write. If `partition` or `timestamp_ms` is None, the producer chooses it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Parser = Callable[[bytes], InputRecord]


def text_parser(
    key: bytes | None, key_separator: bytes | None, headers: Headers, null: bytes | None
) -> Parser:
    """Return a parser of lines. A line is a value, or a key and a value with `key_separator`.

    A key or value that equals `null` is null.
    """

    def nullable(data: bytes | None) -> bytes | None:
        return None if data is not None and data == null else data

    def parse(line: bytes) -> InputRecord:
        if key_separator is None:
            return InputRecord(nullable(key), nullable(line), headers)
        before, separator, after = line.partition(key_separator)
        if not separator:
            raise InputError(f"there is no key separator {key_separator.decode()!r}")
        return InputRecord(nullable(before), nullable(after), headers)

    return parse


def json_parser(line: bytes, repartition: bool = False) -> InputRecord:
    """Parse a JSON object with `value` or `value_base64`.

    Key, headers, partition and timestamp are optional. A missing value is null. A key or value that
    is not a string is written as JSON. Other members are ignored. With `repartition` the partition
    is ignored too.

    Raises:
        InputError: the line does not have this form.
    """
    try:
        document = json.loads(line)
    except ValueError as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError("not a JSON object")
    partition = None if repartition else document.get("partition")
    if partition is not None and (not isinstance(partition, int) or partition < 0):
        raise InputError(f"{partition!r} is not the number of a partition")
    return InputRecord(
        _bytes(document, "key"),
        _bytes(document, "value"),
        _headers(document.get("headers") or []),
        partition,
        _timestamp(document),
    )


def _bytes(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(name + "_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise InputError(f"{name}_base64 is not base64") from None
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return value.encode()


def _headers(value: Any) -> Headers:
    if isinstance(value, dict):
        value = [{"name": name, "value": content} for name, content in value.items()]
    if not isinstance(value, list):
        raise InputError("headers are neither an object nor a list of objects")
    headers = []
    for each in value:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise InputError("a header is not an object with a name")
        headers.append((each["name"], _bytes(each, "value")))
    return tuple(headers)


def _timestamp(document: dict[str, Any]) -> int | None:
    value = document.get("timestamp_ms", document.get("timestamp"))
    if value is None or isinstance(value, int):
        return value
    try:
        return parse_time(str(value), now_ms())
    except ValueError as error:
        raise InputError(str(error)) from None


def read_lines(descriptor: int, before_waiting: Callable[[], None]) -> Iterator[bytes]:
    """Yield the lines of a file, pipe or terminal without line ends.

    If no input is available, `before_waiting` is called before the wait, so that the caller can
    send its records.
    """
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            before_waiting()
        data = os.read(descriptor, READ_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest
