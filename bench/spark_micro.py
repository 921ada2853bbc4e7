"""`python -m bench.spark_micro`: converts record batches to Arrow and back, without Spark.

The records have 100 bytes and are in batches of several sizes. They are decoded in chunks of
16 MiB, like the response to a fetch. The results are the CPU times of the fastest of several passes
on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from odradek.arrow import batches, columns, encoding
from odradek.arrow.batches import Scan
from odradek.client.core.producer_batch import ProducerBatch
from odradek.model.topic_partition import TopicPartition

RECORDS = 400_000
VALUE_SIZE = 100
CHUNK_BYTES = 16 << 20
PASSES = 5
BATCH_SIZES = (1_000, 16_384, 262_144, 1_000_000)


def rows() -> encoding.Rows:
    """Return records with keys of seven bytes and values of `VALUE_SIZE` bytes."""
    return encoding.Rows(
        value=pa.array([b"v" * VALUE_SIZE] * RECORDS, pa.binary()),
        key=pa.array([b"key%04d" % (i % 10_000) for i in range(RECORDS)], pa.binary()),
    )


def chunks(pieces: list[bytearray]) -> list[bytes]:
    """Join batches to buffers of at most `CHUNK_BYTES`, like responses to fetches."""
    found = [bytearray()]
    for piece in pieces:
        if len(found[-1]) + len(piece) > CHUNK_BYTES:
            found.append(bytearray())
        found[-1] += piece
    return [bytes(chunk) for chunk in found]


def encode(table: encoding.Rows, batch_size: int) -> list[bytearray]:
    """Encode the records as batches with consecutive base offsets."""
    pieces = []
    offset = 0
    for records in encoding.encode_records(table, batch_size):
        batch = ProducerBatch(TopicPartition("t", 0), 1, 0, 0)
        batch.fill(*records, 1_700_000_000_000, is_transactional=False)
        batch.stamp(None, 0)
        batch.data[0:8] = offset.to_bytes(8, "big")
        offset += records.record_count
        pieces.append(batch.data)
    return pieces


def decode(buffers: list[bytes]) -> int:
    """Convert all records to Arrow. Return the number of records."""
    count = 0
    for buffer in buffers:
        found: Scan = batches.scan(buffer, 0, RECORDS)
        parts = columns.record_batches(found, "topic", 0, range(RECORDS), False)
        count += sum(each.num_rows for each in parts)
    return count


def best(work: Callable[[], object]) -> float:
    """Return the CPU time of the fastest pass in seconds."""
    seconds = []
    for _ in range(PASSES):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def main() -> None:
    """Measure each batch size, and print a line for each size."""
    table = rows()
    print(f"{RECORDS:,} records of {VALUE_SIZE} bytes, million records a second of CPU")
    for size in BATCH_SIZES:
        pieces = encode(table, size)
        buffers = chunks(pieces)
        assert decode(buffers) == RECORDS
        decoding = best(lambda buffers=buffers: decode(buffers))  # type: ignore[misc]
        encoding_time = best(lambda size=size: encode(table, size))  # type: ignore[misc]
        print(
            f"  batches of {size:>9,} bytes: decode {RECORDS / decoding / 1e6:5.2f}"
            f"   encode {RECORDS / encoding_time / 1e6:5.2f}"
        )


if __name__ == "__main__":
    main()
