"""Acknowledgements of records, and the batches in which requests contain them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.client.errors import ClientError

SAME_TYPES_MIN = 10
"""A run of at least so many equal types gets a batch of its own, with one type for all offsets."""


class AcknowledgeType(IntEnum):
    """What happens to an acquired record."""

    GAP = 0
    """There is no record at this offset. The consumer sends this type itself."""
    ACCEPT = 1
    """The record was processed. It is not delivered again."""
    RELEASE = 2
    """The record is delivered again, unless it has reached the limit of deliveries."""
    REJECT = 3
    """The record cannot be processed. It is not delivered again."""
    RENEW = 4
    """The acquisition lock begins again (KIP-1222). The record still has to be acknowledged."""


class TopicIdPartition(NamedTuple):
    """A partition, with the id of its topic."""

    topic_id: bytes
    partition: int
    topic: str


class AcknowledgementResult(NamedTuple):
    """The result of acknowledgements in one partition. `error` is None if they are stored.

    Typical errors: INVALID_RECORD_STATE (the acquisition lock has timed out) and a
    `DisconnectedError` (the connection has ended, so the broker has released the records). Then the
    records may be delivered again.
    """

    topic: str
    partition: int
    types: Mapping[int, AcknowledgeType]
    """The type for each offset."""
    error: ClientError | None


class Batch(NamedTuple):
    """Acknowledgements of consecutive offsets: one type for each offset, or one for all."""

    first_offset: int
    last_offset: int
    types: list[int]


def batches(types: Mapping[int, AcknowledgeType]) -> list[Batch]:
    """Return the batches for the types of offsets, in the order of the offsets.

    Consecutive offsets are in one batch, as in Kafka's `Acknowledgements`.
    """
    found: list[Batch] = []
    mixed: list[int] = []
    """The types of short runs, which form one batch. It ends before `following`."""
    following = -1
    for first, last, kind in _runs(types):
        length = last - first + 1
        if mixed and (first != following or length >= SAME_TYPES_MIN):
            found.append(_batch(following - len(mixed), mixed))
            mixed = []
        if length >= SAME_TYPES_MIN:
            found.append(Batch(first, last, [kind]))
        else:
            mixed += [kind] * length
        following = last + 1
    if mixed:
        found.append(_batch(following - len(mixed), mixed))
    return found


def _batch(first: int, types: list[int]) -> Batch:
    is_uniform = types.count(types[0]) == len(types)
    return Batch(first, first + len(types) - 1, types[:1] if is_uniform else types)


def _runs(types: Mapping[int, AcknowledgeType]) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, last offset and type of consecutive offsets with the same type."""
    first = last = kind = -1
    for offset in sorted(types):
        if offset != last + 1 or types[offset] != kind or kind < 0:
            if kind >= 0:
                yield first, last, kind
            first, kind = offset, int(types[offset])
        last = offset
    if kind >= 0:
        yield first, last, kind
