"""The messages between the node and the worker. Each message is a line with a JSON document.

The node sends `{"clean": {...}}`, `{"rate": bytes per second}` and `{"stop": number}`. The worker
sends `{"replaced": {...}}` for each new segment, and at the end `{"done": {...}}` or
`{"failed": {...}}`. All messages except `rate` have the number of a work item.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class WorkItem:
    """The input of one round over one log. It describes the log when the item was created."""

    number: int
    directory: str
    """The directory of the partition."""
    segments: list[tuple[int, int]]
    """(base offset, bytes) of the segments that may be cleaned, oldest first."""
    later_segments: list[int]
    """Base offsets of the segments after `segments`. They may have markers of transactions."""
    first_dirty_offset: int
    end_offset: int
    """The first offset that may not be cleaned. It is the base offset of a segment."""
    high_watermark: int
    producers: list[tuple[int, int, int]]
    """(producer id, offset of its last batch with records or -1, epoch)"""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: float
    map_entries_max: int | None
    buffer_bytes: int
    rate: float
    """Limit of the bytes read and written per second."""


@dataclass(slots=True)
class Replaced:
    """A new segment is ready. Its files have the suffix `.cleaned`."""

    number: int
    old: list[int]
    """Base offsets of the replaced segments. The new segment has the first of these offsets."""
    size: int


@dataclass(slots=True)
class Done:
    """The work item is done."""

    number: int
    next_offset: int
    """All offsets below this offset are clean."""
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    map_utilization: float
    elapsed_ms: int


@dataclass(slots=True)
class Failed:
    """The work item has failed."""

    number: int
    reason: str
    is_device: bool
    """Whether the device has failed."""
    was_stopped: bool = False
    lacks_room: bool = False
    """Whether the device works, but is full."""


Message = Replaced | Done | Failed

_KINDS: dict[str, type[Replaced | Done | Failed]] = {
    "replaced": Replaced,
    "done": Done,
    "failed": Failed,
}


def encode(message: Message) -> bytes:
    """Encode a message of the worker as a line."""
    return _line({type(message).__name__.lower(): asdict(message)})


def decode(line: bytes) -> Message:
    """Decode a message of the worker from a line."""
    [(kind, fields)] = json.loads(line).items()
    return _KINDS[kind](**fields)


def encode_item(item: WorkItem) -> bytes:
    """Encode a work item as a line."""
    return _line({"clean": asdict(item)})


def encode_rate(rate: float) -> bytes:
    """Encode a new rate for the worker as a line."""
    return _line({"rate": rate})


def encode_stop(number: int) -> bytes:
    """Encode the cancellation of a work item as a line."""
    return _line({"stop": number})


def decode_item(fields: dict[str, Any]) -> WorkItem:
    """Decode a work item from the fields of the JSON document."""
    pairs = [(base, size) for base, size in fields["segments"]]
    producers = [(producer, offset, epoch) for producer, offset, epoch in fields["producers"]]
    return WorkItem(**{**fields, "segments": pairs, "producers": producers})


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
