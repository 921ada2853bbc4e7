"""Batches of records as a consumer returns them, and their records.

A batch is decoded when somebody asks for its values, keys, offsets or records, in one pass over its
bytes. What all records share stands in the batch. Each record looks like this:

length varint | attributes int8 | timestamp delta varlong | offset delta varint
| key length varint (-1: null) | key | value length varint (-1: null) | value
| header count varint | each: key length, key, value length (-1: null), value

The type `i64` makes compiled code faster. In interpreted code, the same values are Python integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.client.errors import CorruptRecordsError
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.records.compression import Codec, decompress
from odradek.records.errors import InvalidRecords, RecordsError
from odradek.records.record import Headers, read_headers
from odradek.records.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
PAYLOAD_BYTES_MAX: Final = 2**31 - 1
"""The limit of a batch's size after decompression."""
PIECE: Final = 256
"""How many records iteration decodes at a time."""
_NO_HEADERS: Final[Headers] = ()


class Decoder(Protocol):
    """Makes objects of keys and values."""

    def decode(self, topic: str, key: Any, value: Any, headers: Headers) -> tuple[Any, Any]:
        """Return the objects of a key and a value."""
        ...


class Record:
    """A record. `timestamp` is in ms since 1970. `headers` are pairs of a name and a value (bytes or None).

    `key` and `value` are bytes or None, or what deserializers make of bytes.
    """

    def __init__(
        self,
        batch: Batch,
        offset: int,
        timestamp: int,
        key: Any,
        value: Any,
        headers: Headers,
    ) -> None:
        self.batch = batch
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def decoded(self, key: Any, value: Any) -> None:
        """Have the objects of key and value instead of bytes."""
        self.key = key
        self.value = value

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self.batch.topic

    @property
    def partition(self) -> int:
        """The index of the partition."""
        return self.batch.partition

    @property
    def timestamp_type(self) -> int:
        """0 if the producer has set the timestamp, 1 if the broker has."""
        return self.batch.timestamp_type

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that has written the record."""
        return self.batch.leader_epoch

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition} at {self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


class Batch:
    """Records of one partition, which a producer has written together.

    Iteration yields `Record` objects. `values()`, `keys()`, `offsets()` and `timestamps()` are lists
    with an entry for each record, which cost less. `to_arrow()` has them as columns.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        data: RecordBatch,
        first_offset: int,
        next_offset: int,
        refuse: Callable[[Batch], None] | None = None,
        decoder: Decoder | None = None,
    ) -> None:
        """`refuse` is called if the records cannot be decoded."""
        self.topic: str = topic_partition.topic
        self.partition: int = topic_partition.partition
        self.topic_partition = topic_partition
        self.first_offset = first_offset
        """Records before this offset are left out."""
        self.next_offset = next_offset
        """Where reading goes on after the batch."""
        self.leader_epoch: int = data.leader_epoch
        """The epoch of the leader that has written the records; -1 if it is unknown."""
        self.timestamp_type: int = LOG_APPEND_TIME if data.is_log_append_time else CREATE_TIME
        """0 if producers have set the timestamps, 1 if the broker has."""
        self.data = data
        """The batch as the broker stores it."""
        self._payload: bytes | None = None
        self._refuse = refuse
        self._decoder = decoder

    def __len__(self) -> int:
        data = self.data
        if self.first_offset <= data.base_offset and self.next_offset >= data.next_offset:
            return data.count
        return len(self.offsets())

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records. Some at a time are decoded, so that their memory is used again."""
        if self._decoder is not None:
            return iter(self.records())
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[list[Record]]:
        number, position, count = 0, 0, self.data.count
        while True:
            found: list[Record] = []
            try:
                number, position = self._decode_some(found, number, position, PIECE)
            except (RecordsError, IndexError) as error:
                raise self.corrupt(error) from error
            yield found
            if number >= count:
                return

    def __repr__(self) -> str:
        return (
            f"Batch({self.topic}-{self.partition}, offsets {self.first_offset} to "
            f"{self.next_offset - 1})"
        )

    def records(self) -> list[Record]:
        """Return the records.

        Raises:
            CorruptRecordsError: they cannot be decoded. The position is set back to them.
            SerializationError: a deserializer refuses a key or value (or what else it raises). The
                position is set back to the batch; a note of the error names the offset.
        """
        try:
            found = self._records()
        except (RecordsError, IndexError) as error:
            raise self.corrupt(error) from error
        if self._decoder is not None:
            self._decode(found, self._decoder)
        return found

    def _decode(self, records: list[Record], decoder: Decoder) -> None:
        for record in records:
            try:
                key, value = decoder.decode(self.topic, record.key, record.value, record.headers)
            except Exception as error:
                if self._refuse is not None:
                    self._refuse(self)
                error.add_note(f"This is the record at offset {record.offset} of {self!r}.")
                raise
            record.decoded(key, value)

    def values(self) -> list[Any]:
        """Return the values.

        Raises:
            CorruptRecordsError: see `records`.
        """
        if self._decoder is not None:
            return [each.value for each in self.records()]
        return self.raw(is_key=False)

    def keys(self) -> list[Any]:
        """Return the keys.

        Raises:
            CorruptRecordsError: see `records`.
        """
        if self._decoder is not None:
            return [each.key for each in self.records()]
        return self.raw(is_key=True)

    def raw(self, is_key: bool) -> list[bytes | None]:
        """Return the bytes of the keys or values, which are not deserialized.

        Raises:
            CorruptRecordsError: see `records`.
        """
        try:
            return self._items(is_key)
        except (RecordsError, IndexError) as error:
            raise self.corrupt(error) from error

    def offsets(self) -> list[int]:
        """Return the offsets.

        Raises:
            CorruptRecordsError: see `records`.
        """
        try:
            return self._numbers(is_offset=True)
        except (RecordsError, IndexError) as error:
            raise self.corrupt(error) from error

    def timestamps(self) -> list[int]:
        """Return the timestamps in ms since 1970; -1 if there is none.

        Raises:
            CorruptRecordsError: see `records`.
        """
        try:
            return self._numbers(is_offset=False)
        except (RecordsError, IndexError) as error:
            raise self.corrupt(error) from error

    def to_arrow(self, *, headers: bool = False) -> Any:
        """Return a `pyarrow.RecordBatch` with key, value, topic, partition, offset, timestamp, timestampType.

        With `headers`, there is a column for them, too.

        Raises:
            ImportError: pyarrow is not installed.
            CorruptRecordsError: see `records`.
        """
        try:
            from odradek.arrow.single import single_batch
        except ImportError as error:
            raise ImportError(
                f"to_arrow needs pyarrow and numpy: pip install 'odradek[arrow]' ({error})"
            ) from error
        offsets = range(self.first_offset, self.next_offset)
        try:
            return single_batch(
                self.data,
                self.payload(),
                self.topic,
                self.partition,
                offsets,
                include_headers=headers,
            )
        except RecordsError as error:
            raise self.corrupt(error) from error

    def payload(self) -> bytes:
        """Return the encoded records, decompressed.

        Raises:
            RecordsError: they cannot be decompressed.
        """
        found = self._payload
        if found is None:
            codec = self.data.codec
            if codec == Codec.NONE:
                found = bytes(self.data.payload)
            else:
                found = decompress(codec, self.data.payload, PAYLOAD_BYTES_MAX)
            self._payload = found
        return found

    def corrupt(self, error: Exception) -> CorruptRecordsError:
        """Return the error of records that cannot be decoded. The position is set back to the batch."""
        if self._refuse is not None:
            self._refuse(self)
        reason = "a record ends before its fields do" if isinstance(error, IndexError) else error
        return CorruptRecordsError(self.topic_partition, self.first_offset, str(reason))

    # -- loops over the bytes -------------------------------------------------------------------

    def _records(self) -> list[Record]:
        found: list[Record] = []
        self._decode_some(found, 0, 0, self.data.count)
        return found

    def _decode_some(
        self, found: list[Record], number: i64, position: i64, limit: i64
    ) -> tuple[i64, i64]:
        """Append up to `limit` records from a number and position on. Return where to go on."""
        payload = self.payload()
        size: i64 = len(payload)
        base_offset: i64 = self.data.base_offset
        first: i64 = self.first_offset
        stop: i64 = self.next_offset
        is_append_time: bool = self.timestamp_type == LOG_APPEND_TIME
        shared_time: int = self.data.max_timestamp
        base_timestamp: int = self.data.base_timestamp
        count: i64 = self.data.count
        last: i64 = number + limit
        if last > count:
            last = count
        while number < last:
            number += 1
            end: i64 = 0
            end, position = _record_end(payload, position, size)
            timestamp: i64 = 0
            timestamp, position = read_varlong(payload, position + 1)
            delta: i64 = 0
            delta, position = read_varint(payload, position)
            offset: i64 = base_offset + delta
            if offset < first or offset >= stop:
                position = end
                continue
            key, position = _item(payload, position, end)
            value, position = _item(payload, position, end)
            headers = _NO_HEADERS
            if payload[position]:
                headers, position = read_headers(payload, position, end)
            else:
                position += 1
            if position != end:
                raise _malformed()
            time: int = shared_time if is_append_time else base_timestamp + int(timestamp)
            found.append(Record(self, offset, time, key, value, headers))
        if number >= count and position != size:
            raise _malformed()
        return number, position

    def _items(self, is_key: bool) -> list[bytes | None]:
        payload = self.payload()
        size: i64 = len(payload)
        base_offset: i64 = self.data.base_offset
        first: i64 = self.first_offset
        stop: i64 = self.next_offset
        found: list[bytes | None] = []
        position: i64 = 0
        number: i64 = 0
        count: i64 = self.data.count
        while number < count:
            number += 1
            end: i64 = 0
            end, position = _record_end(payload, position, size)
            position += 1
            while payload[position] & 0x80:  # the timestamp
                position += 1
            delta: i64 = 0
            delta, position = read_varint(payload, position + 1)
            offset: i64 = base_offset + delta
            if first <= offset < stop:
                if not is_key:
                    position = _after_item(payload, position, end)
                item, position = _item(payload, position, end)
                found.append(item)
            if position >= end:
                raise _malformed()
            position = end
        if position != size:
            raise _malformed()
        return found

    def _numbers(self, is_offset: bool) -> list[int]:
        payload = self.payload()
        size: i64 = len(payload)
        base_offset: i64 = self.data.base_offset
        first: i64 = self.first_offset
        stop: i64 = self.next_offset
        is_append_time: bool = self.timestamp_type == LOG_APPEND_TIME
        shared_time: int = self.data.max_timestamp
        base_timestamp: int = self.data.base_timestamp
        found: list[int] = []
        position: i64 = 0
        number: i64 = 0
        count: i64 = self.data.count
        while number < count:
            number += 1
            end: i64 = 0
            end, position = _record_end(payload, position, size)
            timestamp: i64 = 0
            timestamp, position = read_varlong(payload, position + 1)
            delta: i64 = 0
            delta, position = read_varint(payload, position)
            offset: i64 = base_offset + delta
            if first <= offset < stop:
                if is_offset:
                    found.append(offset)
                else:
                    found.append(shared_time if is_append_time else base_timestamp + int(timestamp))
            if position >= end:
                raise _malformed()
            position = end
        if position != size:
            raise _malformed()
        return found


def _record_end(payload: bytes, position: i64, size: i64) -> tuple[i64, i64]:
    """Return the end of the record at a position, and the position of its attributes."""
    length: i64 = 0
    length, position = read_varint(payload, position)
    end: i64 = position + length
    if length <= 0 or end > size:
        raise InvalidRecords(f"a record of {length} bytes does not fit into its batch")
    return end, position


def _item(payload: bytes, position: i64, end: i64) -> tuple[bytes | None, i64]:
    """Return the key or value at a position, and the position after it."""
    length: i64 = 0
    length, position = read_varint(payload, position)
    if length < 0:
        return None, position
    after: i64 = position + length
    if after > end:
        raise _malformed()
    return payload[position:after], after


def _after_item(payload: bytes, position: i64, end: i64) -> i64:
    length: i64 = 0
    length, position = read_varint(payload, position)
    if length > 0:
        position += length
    if position > end:
        raise _malformed()
    return position


def _malformed() -> InvalidRecords:
    return InvalidRecords(
        "the fields of a record, or the records of a batch, do not end where it ends"
    )
