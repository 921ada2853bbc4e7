"""The batches of a producer, and the results of their records.

    open --full, lingered, flushed--> ready --taken--> in flight --answer--> done
                                        ^----------retry---------'

A batch is encoded when it is closed. It gets its sequence number (KIP-98) when it is first sent, and
keeps its bytes in retries, so that the broker detects duplicates. Only `forget_sequence` changes that,
when it is known that no broker has the batch.

A batch that is too large for its topic is divided (`batch_splitting`). Its parts are sent in its place, and it is
done when they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from odradek.client.core.record_encoder import RecordEncoder
from odradek.client.errors import BrokerError, ClientError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_HEADER,
    TRANSACTIONAL_FLAG,
)
from odradek.records.builder import seal
from odradek.records.compression import Codec, compress

if TYPE_CHECKING:
    from mypy_extensions import i64

_PRODUCER_FIELDS: Final = Struct(">qhi")
_PRODUCER_FIELDS_POSITION: Final = 43
"""The position of producer id, producer epoch and base sequence in the header of a batch."""
_HEADER: Final = bytes(HEADER_SIZE)
NO_ERRORS: Final[Mapping[int, str]] = {}


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class Waiter(Protocol):
    """The owner of a producer, which can wait for batches."""

    def block(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        """Wait until the batch is done, and raise RequestTimeoutError after the timeout."""
        ...

    def call_later(self, delivery: Delivery, callback: Callable[[Delivery], None]) -> bool:
        """Call `callback` when the delivery is done; return False if it is done already."""
        ...

    def awaiting(self, delivery: Delivery) -> Generator[Any, None, Delivery]:
        """Return the steps of `await delivery`."""
        ...


class ProducerBatch:
    """A batch of a partition. `base_offset` is -1 if unknown."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        number: int,
        created_ms: int,
        limit_bytes: i64,
        waiter: Waiter | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.number = number
        """The order of sending. Numbers increase within the partition."""
        self.created_ms = created_ms
        """The start of linger and delivery timeout, on the monotonic clock."""
        self.encoder: RecordEncoder | None = RecordEncoder(limit_bytes, _HEADER)
        """The records of an open batch."""
        self.count = 0
        """The number of records of a closed batch."""
        self.data: bytearray = bytearray()
        """The bytes of a closed batch that is not done."""
        self.size = HEADER_SIZE
        """The size of the records in the buffer, before compression."""
        self.base_sequence = NO_SEQUENCE
        self.was_sent = False
        """Whether a broker may have the batch under its sequence number."""
        self.base_offset = -1
        self.timestamp_ms = -1
        """The broker's log append time; -1 if the topic does not use it."""
        self.done = False
        self.error: ClientError | None = None
        self.last_error: ClientError | None = None
        """Why the last attempt has failed."""
        self.record_errors: Mapping[int, str] = NO_ERRORS
        """The broker's message for each rejected record, by index (KIP-467)."""
        self.waiter = waiter
        self.whole: ProducerBatch | None = None
        """The batch of which this is a part."""
        self.start = 0
        """The number of records of the undivided batch before this one."""
        self.parts: list[ProducerBatch] = []
        self._callbacks: list[Callable[[Delivery], None]] = []
        self._indexes: list[int] = []
        self._next_call = 0

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has its sequence number."""
        return self.base_sequence != NO_SEQUENCE

    def close(self, codec: Codec, level: int | None, *, is_transactional: bool) -> None:
        """Encode the batch. No record can be added afterwards."""
        encoder = self.encoder
        assert encoder is not None
        self.encoder = None
        self.count = encoder.count
        self.size = encoder.size
        data = encoder.take()
        if codec != Codec.NONE:
            packed = bytearray(_HEADER)
            packed += compress(codec, memoryview(data)[HEADER_SIZE:], level)
            data = packed
        flags = int(codec) | (TRANSACTIONAL_FLAG if is_transactional else 0)
        self._put_header(data, flags, encoder.base_timestamp, encoder.max_timestamp)

    def fill(
        self,
        records: bytes | bytearray | memoryview,
        count: int,
        codec: Codec,
        timestamp: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Use records that are encoded already, all with the same timestamp, instead of `close`."""
        self.encoder = None
        self.count = count
        data = bytearray(_HEADER)
        data += records
        self.size = len(data)
        flags = int(codec) | (TRANSACTIONAL_FLAG if is_transactional else 0)
        self._put_header(data, flags, timestamp, timestamp)

    def _put_header(self, data: bytearray, flags: int, base_ms: int, max_ms: int) -> None:
        RECORD_BATCH_HEADER.pack_into(
            data,
            0,
            0,
            len(data) - LOG_OVERHEAD,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            flags,
            self.count - 1,
            base_ms,
            max_ms,
            NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH,
            NO_SEQUENCE,
            self.count,
        )
        self.data = data

    def stamp(self, identity: ProducerIdentity | None, base_sequence: int) -> None:
        """Write the identity and the base sequence into the encoded batch, and the checksum."""
        if identity is not None:
            self.base_sequence = base_sequence
            # A copy: a connection may still have to send the bytes of an earlier attempt.
            data = bytearray(self.data) if self.was_sent else self.data
            producer_id, epoch = identity
            _PRODUCER_FIELDS.pack_into(
                data, _PRODUCER_FIELDS_POSITION, producer_id, epoch, base_sequence
            )
            self.data = data
        seal(self.data)

    def divide(self, parts: list[ProducerBatch]) -> None:
        """Note that these are sent instead."""
        start = self.start
        for each in parts:
            each.become_part(self, start)
            start += each.count
        self.parts = parts
        self.data = bytearray()

    def become_part(self, whole: ProducerBatch, start: int) -> None:
        """Note of which batch this is a part."""
        self.whole = whole
        self.start = start

    def is_before(self, other: ProducerBatch) -> bool:
        """Whether this batch must be written before another one of its partition."""
        if self.number != other.number:
            return self.number < other.number
        return self.start < other.start

    def finish_whole(self) -> ProducerBatch | None:
        """Complete the batch of which this is a part, if all its parts are done. Return it then."""
        whole = self.whole
        if whole is None:
            return None
        error: ClientError | None = None
        for each in whole.parts:
            if not each.done:
                return None
            error = error or each.error
        whole.finish(whole.parts[0].base_offset, whole.parts[0].timestamp_ms, error)
        return whole

    def forget_sequence(self) -> None:
        """Remove the sequence, so that the batch gets one of a new identity. No broker has it."""
        self.base_sequence = NO_SEQUENCE

    def sent(self) -> None:
        """Note that the batch is in a request."""
        self.was_sent = True

    def failed(self, error: ClientError) -> None:
        """Note why an attempt has failed that is repeated."""
        self.last_error = error

    def finish(
        self,
        base_offset: int = -1,
        timestamp_ms: int = -1,
        error: ClientError | None = None,
        record_errors: Mapping[int, str] = NO_ERRORS,
    ) -> None:
        """Complete a batch that was written at an offset or has failed."""
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.error = error
        self.record_errors = record_errors
        self.done = True
        self.data = bytearray()
        self.encoder = None

    # -- callbacks ----------------------------------------------------------------------------

    def add_callback(self, index: i64, callback: Callable[[Delivery], None]) -> None:
        """Call `callback` with the delivery of a record when the batch is done. It must not be done yet.

        The delivery is made then: objects that are kept cost the garbage collector time.
        """
        self._callbacks.append(callback)
        self._indexes.append(index)

    def run_callbacks(self, failed: Callable[[], None]) -> None:
        """Call the callbacks of a batch that is done, in order. `failed` is called in the handler of
        each exception. After another BaseException the next call goes on behind the callback.
        """
        while self._next_call < len(self._callbacks):
            place = self._next_call
            self._next_call = place + 1
            try:
                self._callbacks[place](Delivery(self, self._indexes[place]))
            except Exception:  # noqa: BLE001  (the user's code, whose errors are logged)
                failed()
        self._callbacks, self._indexes = [], []

    @property
    def has_callbacks(self) -> bool:
        """Whether somebody waits to be called."""
        return len(self._callbacks) > 0

    def error_of(self, index: int) -> ClientError | None:
        """Return why a record was not written (KIP-467)."""
        for part in self.parts:
            if index < part.count:
                return part.error_of(index)
            index -= part.count
        error = self.error
        if error is None or not self.record_errors:
            return error
        message = self.record_errors.get(index)
        if message is None:
            return ClientError(
                f"partition {self.topic_partition}: the broker refused other records of the batch",
                "Send the record again; only the others must be changed.",
            )
        code = error.code if isinstance(error, BrokerError) else ErrorCode.INVALID_RECORD
        return BrokerError(code, message, f"partition {self.topic_partition}")

    def offset_of(self, index: int) -> int:
        """Return the offset of a record; -1 if it is unknown."""
        for part in self.parts:
            if index < part.count:
                return part.offset_of(index)
            index -= part.count
        return self.base_offset + index if self.base_offset >= 0 else -1


class Delivery:
    """The result of sending a record. It is complete when `done` is true."""

    def __init__(self, batch: ProducerBatch, index: i64) -> None:
        self._batch = batch
        self._index: i64 = index

    def wait(self, timeout_s: float | None = None) -> Delivery:
        """Wait until the record is written, and return this object. Its batch is sent at once.

        Without `timeout_s` the wait ends after the producer's `delivery.timeout.ms` at the latest.

        Raises:
            RequestTimeoutError: the record is not done after `timeout_s`.
            ClientError: the record was not written, and why.
        """
        batch = self._batch
        if not batch.done:
            assert batch.waiter is not None, "batches that were handed out have an owner"
            batch.waiter.block(batch, timeout_s)
        error = self.error
        if error is not None:
            raise error
        return self

    def __await__(self) -> Generator[Any, None, Delivery]:
        """Wait as `wait` does, with a producer of `odradek.client.aio`."""
        waiter = self._batch.waiter
        assert waiter is not None, "batches that were handed out have an owner"
        return waiter.awaiting(self)

    @property
    def batch(self) -> ProducerBatch:
        """The batch of the record."""
        return self._batch

    def callback_later(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback` as `add_callback` does, but not yet. The owner has its lock."""
        self._batch.add_callback(self._index, callback)

    def add_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback` with a delivery like this when it is done; at once if it is done already.

        It is called in the thread that notices, between calls of the producer.
        """
        waiter = self._batch.waiter
        assert waiter is not None, "batches that were handed out have an owner"
        if not waiter.call_later(self, callback):
            callback(self)

    @property
    def done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._batch.done

    @property
    def error(self) -> ClientError | None:
        """The reason why the record was not written. None if it was written or is not done."""
        return self._batch.error_of(self._index)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return self._batch.topic_partition

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self._batch.topic_partition.topic

    @property
    def partition(self) -> int:
        """The number of the partition of the record."""
        return self._batch.topic_partition.partition

    @property
    def offset(self) -> int:
        """The offset of the record; -1 if unknown (not done, failed, acks=0, or a duplicate)."""
        return self._batch.offset_of(self._index)

    def __repr__(self) -> str:
        state = "waiting"
        if self.done:
            state = str(self.error or f"offset {self.offset}")
        return f"<Delivery to {self.topic_partition}: {state}>"
