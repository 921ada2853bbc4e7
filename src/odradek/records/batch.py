"""The header of a record batch (format 2), and batches in a buffer.

    0   base offset        int64    12  leader epoch      int32    27  base timestamp  int64
    8   length after this  int32    16  magic             int8     35  max timestamp   int64
                                    17  CRC-32C from 21   uint32   43  producer id     int64
                                    21  attributes        int16    51  producer epoch  int16
                                    23  last offset delta int32    53  base sequence   int32
                                                                   57  record count    int32
                                                                   61  records, perhaps compressed

All fields are big-endian. The CRC does not cover base offset, length and leader epoch. So the
broker that appends a batch can set base offset and leader epoch without computing the CRC again.

The attributes are bits: 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon.
If bit 6 is set, the base timestamp is the time until which compaction keeps tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from odradek.records.checksum import crc32c
from odradek.records.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

RECORD_BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
"""All fields of the header, in the order of the table above."""
BASE_OFFSET: Final = Struct(">q")
LEADER_EPOCH: Final = Struct(">i")
SIZE: Final = Struct(">i")
CHECKSUM: Final = Struct(">I")
ATTRIBUTES: Final = Struct(">h")
TIMESTAMP: Final = Struct(">q")

LENGTH_POSITION: Final = 8
LOG_OVERHEAD: Final = 12
"""Size of the fields that the length field does not count."""
LEADER_EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CHECKSUM_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
"""The first byte that the checksum covers."""
MAX_TIMESTAMP_POSITION: Final = 35
HEADER_SIZE: Final = 61
MAGIC: Final = 2
LEGACY_SIZE_MIN: Final = 26
"""Size of a message of format 0 without key and value, which is the smallest entry of a log."""
RECORD_SIZE_MIN: Final = 7
"""Size of a record without key, value and headers."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


class RecordBatch:
    """A view of one batch in a buffer, with decoded header fields.

    `data` is the whole batch. A change of these bytes does not change the decoded fields.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "data",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: memoryview

    def __init__(self, data: Buffer) -> None:
        """`data` begins with the batch. More bytes may follow the batch.

        Raises:
            CorruptBatch: `data` is shorter than a header, or shorter than the length field says.
        """
        if len(data) < HEADER_SIZE:
            raise CorruptBatch(f"a record batch has at least {HEADER_SIZE} bytes, not {len(data)}")
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = RECORD_BATCH_HEADER.unpack_from(data)
        size = self.length + LOG_OVERHEAD
        if size < HEADER_SIZE or size > len(data):
            raise CorruptBatch(f"the batch says that it has {size} bytes; there are {len(data)}")
        view = memoryview(data)
        self.data = view if size == len(data) else view[:size]

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 if the batch has no sequence numbers."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The number of the compression codec (`odradek.records.compression.Codec`)."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the max timestamp, set by the broker, is the timestamp of all records."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which consumers do not see."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time until which compaction keeps tombstones and markers; None if it is not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer or a transaction coordinator wrote the batch."""
        return self.producer_id >= 0

    @property
    def payload(self) -> memoryview:
        """The encoded records, perhaps compressed."""
        return self.data[HEADER_SIZE:]

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is correct."""
        return crc32c(self.data[ATTRIBUTES_POSITION:]) == self.crc

    def check(self) -> None:
        """Check the checksum.

        Raises:
            CorruptBatch: the checksum is wrong.
        """
        computed = crc32c(self.data[ATTRIBUTES_POSITION:])
        if computed != self.crc:
            raise CorruptBatch(
                f"the batch at offset {self.base_offset} is corrupt: "
                f"its checksum is {self.crc:#010x}, that of its bytes {computed:#010x}"
            )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}..{self.last_offset}, {self.size} bytes, "
            f"{self.count} records, attributes {self.attributes:#x}, "
            f"leader epoch {self.leader_epoch}, producer {self.producer_id}:{self.producer_epoch}"
            f"@{self.base_sequence})"
        )


def add_to_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence number, which wraps from 2^31-1 to 0."""
    return (sequence + increment) & SEQUENCE_MAX


def iterate_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """Yield the complete batches of `buffer`. Stop at a truncated batch at the end.

    The checksums are not verified. Batches of format 0 and 1 are rejected; use
    `odradek.records.legacy` for them.

    Raises:
        CorruptBatch: a length field is impossible, or a batch has another format.
    """
    view = memoryview(buffer)
    end = len(view)
    position = 0
    while end - position >= MAGIC_POSITION + 1:
        size = SIZE.unpack_from(view, position + LENGTH_POSITION)[0] + LOG_OVERHEAD
        if size < LEGACY_SIZE_MIN:
            raise CorruptBatch(f"a batch at byte {position} says that it has {size} bytes")
        if size > end - position:
            return
        magic = view[position + MAGIC_POSITION]
        if magic != MAGIC:
            raise CorruptBatch(f"the batch at byte {position} has format {magic}, not {MAGIC}")
        yield RecordBatch(view[position : position + size])
        position += size
