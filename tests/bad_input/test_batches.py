"""Invalid record batches: each has Apache Kafka's outcome, and the partition stays intact."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from compat.lab.wire_client import WireClient
from tests.bad_input.recorded import check, error_name
from tests.bad_input.target import RECORDS, TOPIC, Target

from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

Batch = bytearray
LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, COUNT = 8, 16, 17, 21, 23, 57
HEADER_SIZE = 61
FILE = "test_batches"


def batch(records: int = 3, codec: Codec = Codec.NONE, value: bytes = b"v") -> Batch:
    builder = RecordBatchBuilder(codec=codec)
    for _ in range(records):
        builder.append(time.time_ns() // 1_000_000, None, value)
    return builder.build()


def _changed(position: int, layout: str, value: int, *, valid_checksum: bool = True) -> Batch:
    changed = batch()
    struct.pack_into(layout, changed, position, value)
    if valid_checksum:
        seal(changed)
    return changed


def _without_records() -> Batch:
    empty = batch()[:HEADER_SIZE]
    struct.pack_into(">i", empty, LENGTH, HEADER_SIZE - 12)
    struct.pack_into(">i", empty, LAST_OFFSET_DELTA, -1)
    struct.pack_into(">i", empty, COUNT, 0)
    seal(empty)
    return empty


def _garbage_for_records() -> Batch:
    changed = batch()
    changed[HEADER_SIZE:] = b"\xff" * (len(changed) - HEADER_SIZE)
    seal(changed)
    return changed


def _record_cut_short() -> Batch:
    cut = batch()[:-3]
    struct.pack_into(">i", cut, LENGTH, len(cut) - 12)
    seal(cut)
    return cut


def _garbage_inside(codec: Codec) -> Batch:
    """Return a batch whose attributes have a codec, with uncompressed records."""
    changed = batch()
    struct.pack_into(">h", changed, ATTRIBUTES, codec)
    seal(changed)
    return changed


BAD: dict[str, Callable[[], Batch]] = {
    "wrong checksum": lambda: _changed(CRC, ">I", 12345, valid_checksum=False),
    "length beyond the records": lambda: _changed(LENGTH, ">i", 100_000),
    "length 2^31 - 1": lambda: _changed(LENGTH, ">i", 2**31 - 1),
    "length 0": lambda: _changed(LENGTH, ">i", 0),
    "length -1": lambda: _changed(LENGTH, ">i", -1),
    "magic 7": lambda: _changed(MAGIC, ">b", 7),
    "magic 1": lambda: _changed(MAGIC, ">b", 1),
    "magic 0": lambda: _changed(MAGIC, ">b", 0),
    "codec 5": lambda: _changed(ATTRIBUTES, ">h", 5),
    "codec 7": lambda: _changed(ATTRIBUTES, ">h", 7),
    "control batch": lambda: _changed(ATTRIBUTES, ">h", 0x20),
    "transactional batch": lambda: _changed(ATTRIBUTES, ">h", 0x10),
    "record count too large": lambda: _changed(COUNT, ">i", 9),
    "record count too small": lambda: _changed(COUNT, ">i", 2),
    "record count 2^31 - 1": lambda: _changed(COUNT, ">i", 2**31 - 1),
    "record count -1": lambda: _changed(COUNT, ">i", -1),
    "last offset delta too large": lambda: _changed(LAST_OFFSET_DELTA, ">i", 9),
    "last offset delta -1": lambda: _changed(LAST_OFFSET_DELTA, ">i", -1),
    "no record": _without_records,
    "half a batch": lambda: batch()[:-5],
    "no batch": Batch,
    "garbage instead of records": _garbage_for_records,
    "last record truncated": _record_cut_short,
    "two batches": lambda: batch() + batch(),
    "garbage": lambda: Batch(b"\x5a" * 500),
    "too large": lambda: batch(1, value=b"x" * 1_100_000),
    **{
        f"not {codec.name.lower()}": lambda codec=codec: _garbage_inside(codec)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    },
}


def produce(
    node: Target,
    records: Batch,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
) -> int:
    """Produce the records, and return the error code."""
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    with WireClient(node.node.port) as wire:
        response = wire.call("Produce", version, request, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def end_of_log(node: Target) -> int:
    with WireClient(node.node.port) as wire:
        last = wire.batches(TOPIC, 0)[-1]
    return last.base_offset + last.records


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_batch_is_refused(target: Target, name: str) -> None:
    before = end_of_log(target)
    code = produce(target, BAD[name]())
    assert code != 0
    check(FILE, name, error_name(code))
    assert end_of_log(target) == before >= RECORDS


def test_good_batches_between_bad_ones_are_appended(target: Target) -> None:
    before = end_of_log(target)
    for codec in Codec:
        assert produce(target, batch(codec=codec)) == 0
    assert end_of_log(target) == before + 3 * len(Codec)


@pytest.mark.parametrize("version", [3, 6, 7, 9])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_codecs_by_version(target: Target, version: int, codec: Codec) -> None:
    """zstd may be used from version 7 on."""
    code = produce(target, batch(codec=codec), version=version)
    check(FILE, f"{codec.name.lower()} in version {version}", error_name(code))


@pytest.mark.parametrize("partition", [1, 1000, -1, 2**31 - 1])
def test_partitions_that_do_not_exist(target: Target, partition: int) -> None:
    code = produce(target, batch(), partition=partition)
    check(FILE, f"partition {partition}", error_name(code))


@pytest.mark.parametrize("acks", [2, -2, 100, 32_767])
def test_invalid_acks(target: Target, acks: int) -> None:
    check(FILE, f"acks {acks}", error_name(produce(target, batch(), acks=acks)))


@pytest.mark.parametrize("topic", ["not-there", "", ".", "a b", "x" * 250], ids=ascii)
def test_topics_that_do_not_exist(target: Target, topic: str) -> None:
    code = produce(target, batch(), topic=topic)
    check(FILE, f"topic {topic[:20]!a}", error_name(code))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_needs_little_memory(target: Target, codec: Codec) -> None:
    """300 MB of zeros in one record: appended or refused, but never decompressed as a whole."""
    bomb = batch(1, codec=codec, value=bytes(300 << 20))
    produce(target, bomb)
