"""The driver's side of `compat.lab.dialogue` in Python: reads commands, and writes one line per
answer."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

VALUE_SHOWN_MAX = 4096
Command = dict[str, Any]


class ClientError(Exception):
    """An error of the client, with Kafka's name for it."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class UnsupportedVerb(Exception):
    """The client has no such call."""


def serve(verbs: Any, name_of: Callable[[BaseException], str]) -> None:
    """Answer commands with the methods of `verbs` until the input ends.

    `name_of` gives Kafka's name of a client's exception.
    """
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(verbs, json.loads(line), name_of)), file=answers, flush=True)


def answer(verbs: Any, command: Command, name_of: Callable[[BaseException], str]) -> dict[str, Any]:
    """One command's answer."""
    method = getattr(verbs, command["do"], None)
    if method is None:
        return {"unsupported": f"the client has no call for {command['do']}"}
    try:
        return {"ok": method(command) or {}}
    except UnsupportedVerb as reason:
        return {"unsupported": str(reason)}
    except ClientError as error:
        return {"error": {"name": error.name, "message": str(error)}}
    except Exception as error:  # noqa: BLE001  (whatever a client raises is its answer)
        traceback.print_exc()
        return {"error": {"name": name_of(error), "message": str(error)}}


def decoded(text: str | None) -> bytes | None:
    """Bytes from base64; None stays."""
    return None if text is None else base64.b64decode(text)


def encoded(data: bytes | None) -> str | None:
    """Base64 of bytes; None stays."""
    return None if data is None else base64.b64encode(data).decode()


def value_to_write(value: Any) -> bytes | None:
    """The bytes of a record's value."""
    return b"x" * value["fill"] if isinstance(value, dict) else decoded(value)


def headers_to_write(record: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    """The headers of a record."""
    return [(name, decoded(value)) for name, value in record.get("headers", ())]


def refuse_impossible(
    records: Iterable[dict[str, Any]], client: str, *, headers: bool = True
) -> None:
    """Reject records that kafka-python and its derivatives cannot write."""
    for record in records:
        if record["key"] is None and record["value"] is None:
            raise UnsupportedVerb(f"{client} writes no record with neither key nor value")
        if headers and any(content is None for _, content in record.get("headers", ())):
            raise UnsupportedVerb(f"{client} writes no null header value")


def record_read(
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> dict[str, Any]:
    """A record that was read, as the protocol has it."""
    shown: Any = encoded(value)
    if value is not None and len(value) > VALUE_SHOWN_MAX:
        shown = {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": encoded(key),
        "value": shown,
        "headers": [[name, encoded(content)] for name, content in headers],
    }
