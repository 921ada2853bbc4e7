"""What becomes of records that cannot be decoded or processed: the task stops, or they are skipped.

Skipped records can go to a topic of dead letters, with the headers of Kafka Streams (KIP-1034).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import NamedTuple

from odradek.core.streams.model.records import Headers, Produced, RecordContext


class Failure(NamedTuple):
    """An error of one record."""

    node: str
    """The operator that failed. If the record cannot be decoded, its source."""
    record: RecordContext
    """Where the record of the input topic is, and the time and headers at the operator."""
    key: bytes | None
    """The key in the input topic. None if the error comes from a punctuator or a commit."""
    value: bytes | None
    error: Exception


Decision = Callable[[Failure], bool]
"""Returns whether to skip the record and continue."""


def skip(_failure: Failure) -> bool:
    """Continue with the next record."""
    return True


def dead_letter(topic: str, failure: Failure) -> Produced:
    """Return the record for the topic of dead letters: the input record, and the error as headers."""
    error, record = failure.error, failure.record
    kind = type(error)
    details: Headers = (
        ("__streams.errors.exception", f"{kind.__module__}.{kind.__qualname__}".encode()),
        ("__streams.errors.message", str(error).encode()),
        ("__streams.errors.stacktrace", "".join(traceback.format_exception(error)).encode()),
        ("__streams.errors.topic", None if record.topic is None else record.topic.encode()),
        ("__streams.errors.partition", str(record.partition).encode()),
        ("__streams.errors.offset", str(record.offset).encode()),
    )
    timestamp = record.timestamp if record.timestamp >= 0 else None
    headers = (*record.headers, *details)
    return Produced(topic, None, failure.key, failure.value, timestamp, headers)
