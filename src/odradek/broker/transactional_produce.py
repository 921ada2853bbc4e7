"""What of a Produce request belongs to a transaction, and whether that may be written.

decide ──> nothing transactional, or the transactions are open here already: append at once
   └─────> the first batch of a transaction in a partition, or one behind it: wait for its turn,
           `confirm` with the coordinator, append with the guard
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from odradek.broker.coordinator.verification import (
    Errors,
    Guards,
    Turn,
    Verification,
    Writer,
    protocol_of_produce,
)
from odradek.broker.partition import Partition
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    Buffer,
)

ATTRIBUTES_LOW_BYTE = 22
_producer = Struct(">qhi").unpack_from
_PRODUCER_POSITION = 43

_UNREACHED = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def is_transactional(records: Buffer | None) -> bool:
    """Whether the first batch of a partition's records says that it is part of a transaction."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and records[MAGIC_POSITION] == MAGIC
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG)
    )


class Permission:
    """What may be written: with which guard, or why not.

    With a `turn` the request has to wait: for the coordinator, or for requests before it.
    """

    __slots__ = ("errors", "guards", "turn", "writer")

    def __init__(
        self,
        writer: Writer | None = None,
        guards: Guards | None = None,
        errors: dict[TopicPartition, ApiError] | None = None,
        turn: Turn | None = None,
    ) -> None:
        self.writer = writer
        self.turn = turn
        self.guards = guards or {}
        self.errors = errors or {}

    def guard(self, partition: Partition) -> int:
        """The guard for a partition's batch.

        Raises:
            ApiError: it may not be written.
        """
        name = TopicPartition(partition.topic, partition.index)
        error = self.errors.get(name)
        if error is not None:
            raise error
        return self.guards.get(name, 0)


UNCONDITIONAL = Permission()


def decide(
    verification: Verification,
    transactional_id: str,
    api_version: int,
    records: Mapping[Partition, Buffer],
) -> Permission:
    """What may be written of a request with a transactional id. A turn wants `confirm` first.

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
    turn = None
    if guards or verification.is_awaited(producer_id):
        turn = verification.queue(producer_id)
    return Permission(writer, guards, errors, turn)


async def confirm(verification: Verification, permission: Permission) -> None:
    """Ask the coordinator, if need be; what it refuses joins the permission's errors."""
    assert permission.writer is not None
    if not permission.guards:
        return
    refused = await verification.confirm(permission.writer, permission.guards)
    adds = permission.writer.protocol.adds
    permission.errors.update(_translated(refused, adds))


def _translated(refused: Errors, adds: bool) -> dict[TopicPartition, ApiError]:
    """What passes is NOT_ENOUGH_REPLICAS to producers: all of them try that again, and without
    fetching metadata. One that leaves adding to the broker knows CONCURRENT_TRANSACTIONS."""
    errors = {}
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
