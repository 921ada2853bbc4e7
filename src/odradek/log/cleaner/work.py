"""The messages between the serving and the cleaning process: one JSON document per line.

To the worker: `{"clean": {...}}`, `{"rate": bytes per second}`, `{"stop": number}`.
From the worker: `{"replaced": {...}}` for each new segment, then `{"done": {...}}`; or
`{"failed": {...}}`. All carry the number of the work item.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class WorkItem:
    """One round over one log, as the log was when the item was created."""

    number: int
    directory: str
    """The directory of the partition."""
    segments: list[tuple[int, int]]
    """(base offset, bytes) of the segments that may be cleaned, oldest first."""
    later_segments: list[int]
    """Base offsets of the segments after them, which may contain markers of transactions."""
    first_dirty_offset: int
    end_offset: int
    """The first offset that may not be cleaned; the base offset of a segment."""
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
    """Bytes per second, read and written."""


@dataclass(slots=True)
class Replaced:
    """A new segment is ready, under the suffix `.cleaned`."""

    number: int
    old: list[int]
    """Base offsets of the segments that it replaces; its own is the first."""
    size: int


@dataclass(slots=True)
class Done:
    """The item is done: the cleaned range, and statistics."""

    number: int
    next_offset: int
    """All offsets below are clean."""
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    map_utilization: float
    elapsed_ms: int


@dataclass(slots=True)
class Failed:
    """The item has failed."""

    number: int
    reason: str
    is_device: bool
    """The device failed, not the data."""
    was_stopped: bool = False
    lacks_room: bool = False
    """The device works, but is full."""


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
    """Decode a line of the worker."""
    [(kind, fields)] = json.loads(line).items()
    return _KINDS[kind](**fields)


def encode_item(item: WorkItem) -> bytes:
    """Encode a work item as a line."""
    return _line({"clean": asdict(item)})


def encode_rate(rate: float) -> bytes:
    """Encode a change of the worker's rate as a line."""
    return _line({"rate": rate})


def encode_stop(number: int) -> bytes:
    """Encode the cancellation of an item as a line."""
    return _line({"stop": number})


def decode_item(fields: dict[str, Any]) -> WorkItem:
    """Decode the work item of a line."""
    pairs = [(base, size) for base, size in fields["segments"]]
    producers = [(producer, offset, epoch) for producer, offset, epoch in fields["producers"]]
    return WorkItem(**{**fields, "segments": pairs, "producers": producers})


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"
