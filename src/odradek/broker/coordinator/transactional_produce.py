"""Decides which batches of a Produce request are transactional and whether they may be appended.

`decide` distinguishes three cases:

- No batch is transactional, or the transaction is already open in all partitions of the request.
  The batches are appended immediately.
- A batch is the first batch of a transaction in its partition. `decide` sends a request to the
  transaction coordinator, which usually responds immediately. Then the batch is appended with a
  guard (see `odradek.broker.coordinator.verification`).
- The coordinator needs time, or an earlier request of the producer still waits. The request waits
  until the earlier requests are finished (`Turn`). Then it waits for the coordinator (`confirm`),
  and its batches are appended with their guards.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final

from odradek.broker.coordinator.verification import (
    Asked,
    Errors,
    Guards,
    Turn,
    Verification,
    Writer,
    protocol_of_produce,
    verdict,
)
from odradek.broker.partitions.partition import Partition
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    Buffer,
)

ATTRIBUTES_LOW_BYTE: Final = 22
_producer: Final = Struct(">qhi").unpack_from
_PRODUCER_POSITION: Final = 43

_UNREACHED: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def is_transactional(records: Buffer | None) -> bool:
    """Whether the first batch of a partition's records is transactional."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_POSITION] == MAGIC
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG)
    )


class Permission:
    """Which partitions may be written: the guard or the error of each partition.

    If `turn` is set, the request must wait for its turn and then call `confirm`. `asked` is the
    coordinator's response or a future of the response. `asked` is None if an earlier request of the
    producer waits; then `confirm` sends the request to the coordinator.
    """

    __slots__ = ("asked", "errors", "guards", "turn", "writer")

    def __init__(
        self,
        writer: Writer | None = None,
        guards: Guards | None = None,
        errors: dict[TopicPartition, ApiError] | None = None,
        turn: Turn | None = None,
        asked: Asked | None = None,
    ) -> None:
        self.writer = writer
        self.guards = guards or {}
        self.errors = errors or {}
        self.turn = turn
        self.asked = asked

    def guard(self, partition: Partition) -> int:
        """Return the guard for a partition's batch; 0 if the batch needs no guard.

        Raises:
            ApiError: the batch may not be written.
        """
        name = partition.log.topic_partition
        error = self.errors.get(name)
        if error is not None:
            raise error
        return self.guards.get(name, 0)


UNCONDITIONAL: Final = Permission()


def decide(
    verification: Verification,
    transactional_id: str,
    api_version: int,
    records: Mapping[Partition, Buffer],
) -> Permission:
    """Decide which partitions of a transactional request may be written.

    If the result has a `turn`, wait for the turn and call `confirm` before the batches are written.

    Raises:
        ApiError: INVALID_PRODUCER_ID_MAPPING: there are batches of several producers.
    """
    producers = set()
    sequences = {}
    for partition, data in records.items():
        if is_transactional(data):
            producer_id, epoch, sequence = _producer(data, _PRODUCER_POSITION)
            if producer_id >= 0:
                producers.add((producer_id, epoch))
                sequences[partition] = sequence
    if not producers:
        return UNCONDITIONAL
    if len(producers) > 1:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one request, several producers")
    producer_id, epoch = producers.pop()
    writer = Writer(transactional_id, producer_id, epoch, protocol_of_produce(api_version))
    guards, errors = verification.begin(writer, sequences)
    if verification.is_awaited(producer_id):
        return Permission(writer, guards, errors, verification.queue(producer_id))
    if guards:
        asked = verification.ask(writer, guards)
        refused = verdict(asked, writer)
        if refused is None:
            return Permission(writer, guards, errors, verification.queue(producer_id), asked)
        verification.count(refused, 0)
        errors.update(_translated(refused, writer))
    return Permission(writer, guards, errors)


async def confirm(verification: Verification, permission: Permission) -> None:
    """Wait for the coordinator if necessary; add its errors to the permission's errors."""
    writer = permission.writer
    assert writer is not None
    if permission.guards:
        refused = await verification.confirm(writer, permission.guards, permission.asked)
        permission.errors.update(_translated(refused, writer))


def _translated(refused: Errors, writer: Writer) -> dict[TopicPartition, ApiError]:
    """Translate the coordinator's errors for the producer.

    Transient errors become NOT_ENOUGH_REPLICAS, because all producers retry after this error
    without fetching metadata. CONCURRENT_TRANSACTIONS is returned only to producers that let the
    broker add partitions, because they retry after it.
    """
    errors = {}
    adds = writer.protocol.adds
    for name, code in refused.items():
        passes = code in _UNREACHED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds)
        if passes:
            message = f"{name} cannot be confirmed to be part of the transaction yet: {code.name}"
            errors[name] = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
        elif code is ErrorCode.INVALID_TXN_STATE:
            errors[name] = ApiError(code, f"{name} was not added to the transaction")
        else:
            errors[name] = ApiError(code)
    return errors
