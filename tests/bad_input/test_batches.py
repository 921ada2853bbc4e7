"""Record batches that lie: each is refused with Kafka's error, and the partition stays intact."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest
from compat.lab.wire_client import WireClient
from tests.bad_input.victim import RECORDS, TOPIC, Victim

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

CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE = 2, 3, 10
INVALID_REQUIRED_ACKS, UNSUPPORTED_COMPRESSION = 21, 76
INVALID_RECORD, UNKNOWN_SERVER_ERROR = 87, -1


def batch(records: int = 3, codec: Codec = Codec.NONE, value: bytes = b"v") -> Batch:
    builder = RecordBatchBuilder(codec=codec)
    for _ in range(records):
        builder.append(time.time_ns() // 1_000_000, None, value)
    return builder.build()


def _changed(position: int, layout: str, value: int, *, sealed: bool = True) -> Batch:
    changed = batch()
    struct.pack_into(layout, changed, position, value)
    if sealed:
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
    lying = batch()
    lying[HEADER_SIZE:] = b"\xff" * (len(lying) - HEADER_SIZE)
    seal(lying)
    return lying


def _record_cut_short() -> Batch:
    cut = batch()[:-3]
    struct.pack_into(">i", cut, LENGTH, len(cut) - 12)
    seal(cut)
    return cut


def _garbage_inside(codec: Codec) -> Batch:
    """A batch that says it is compressed, and is not."""
    lying = batch()
    struct.pack_into(">h", lying, ATTRIBUTES, codec)
    seal(lying)
    return lying


BAD: dict[str, tuple[Callable[[], Batch], set[int]]] = {
    "wrong checksum": (lambda: _changed(CRC, ">I", 12345, sealed=False), {CORRUPT_MESSAGE}),
    "length beyond the records": (
        lambda: _changed(LENGTH, ">i", 100_000),
        {CORRUPT_MESSAGE, INVALID_RECORD},
    ),
    "length 2^31 - 1": (
        lambda: _changed(LENGTH, ">i", 2**31 - 1),
        {CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR},
    ),
    "length 0": (lambda: _changed(LENGTH, ">i", 0), {CORRUPT_MESSAGE}),
    "length -1": (lambda: _changed(LENGTH, ">i", -1), {CORRUPT_MESSAGE}),
    "magic 7": (lambda: _changed(MAGIC, ">b", 7), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "magic 1": (lambda: _changed(MAGIC, ">b", 1), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "codec 7": (
        lambda: _changed(ATTRIBUTES, ">h", 7),
        {CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION, UNKNOWN_SERVER_ERROR},
    ),
    "a control batch": (lambda: _changed(ATTRIBUTES, ">h", 0x20), {INVALID_RECORD}),
    "more records said than there": (lambda: _changed(COUNT, ">i", 9), {INVALID_RECORD}),
    "2^31 - 1 records said": (lambda: _changed(COUNT, ">i", 2**31 - 1), {INVALID_RECORD}),
    "-1 records said": (lambda: _changed(COUNT, ">i", -1), {INVALID_RECORD}),
    "a gap in the offsets": (lambda: _changed(LAST_OFFSET_DELTA, ">i", 9), {INVALID_RECORD}),
    "no record": (_without_records, {INVALID_RECORD}),
    "half a batch": (lambda: batch()[:-5], {CORRUPT_MESSAGE, INVALID_RECORD}),
    "no batch": (Batch, {CORRUPT_MESSAGE, INVALID_RECORD}),
    "garbage for records": (
        _garbage_for_records,
        {CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR},
    ),
    "a record cut short": (_record_cut_short, {INVALID_RECORD, CORRUPT_MESSAGE}),
    "two batches": (lambda: batch() + batch(), {INVALID_RECORD}),
    "garbage": (lambda: Batch(b"\x5a" * 500), {CORRUPT_MESSAGE, INVALID_RECORD}),
    "too large": (lambda: batch(1, value=b"x" * 1_100_000), {MESSAGE_TOO_LARGE}),
    **{
        f"not {codec.name.lower()}": (
            lambda codec=codec: _garbage_inside(codec),
            {CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR},
        )
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    },
}


def produce(
    node: Victim,
    records: Batch,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
) -> int:
    """The error code of a Produce."""
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    with WireClient(node.node.port) as wire:
        response = wire.call("Produce", version, request, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def end_of_log(node: Victim) -> int:
    with WireClient(node.node.port) as wire:
        last = wire.batches(TOPIC, 0)[-1]
    return last.base_offset + last.records


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_batch_is_refused(mistreated: Victim, name: str) -> None:
    make, errors = BAD[name]
    before = end_of_log(mistreated)
    assert produce(mistreated, make()) in errors
    assert end_of_log(mistreated) == before >= RECORDS


def test_the_good_batch_of_the_bad_ones_is_taken(mistreated: Victim) -> None:
    before = end_of_log(mistreated)
    for codec in Codec:
        assert produce(mistreated, batch(codec=codec)) == 0
    assert end_of_log(mistreated) == before + 3 * len(Codec)


def test_zstd_comes_with_version_7(mistreated: Victim) -> None:
    for version in (3, 6):
        zstd = batch(codec=Codec.ZSTD)
        assert produce(mistreated, zstd, version=version) == UNSUPPORTED_COMPRESSION
        assert produce(mistreated, batch(codec=Codec.GZIP), version=version) == 0
    assert produce(mistreated, batch(codec=Codec.ZSTD), version=7) == 0


def test_partitions_and_acknowledgements_that_do_not_exist(mistreated: Victim) -> None:
    for partition in (1, 1000, -1, 2**31 - 1):
        assert produce(mistreated, batch(), partition=partition) == UNKNOWN_TOPIC_OR_PARTITION
    for acks in (2, -2, 100):
        assert produce(mistreated, batch(), acks=acks) == INVALID_REQUIRED_ACKS
    assert produce(mistreated, batch(), topic="not-there") == UNKNOWN_TOPIC_OR_PARTITION
    assert produce(mistreated, batch(), topic="") in (17, UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_costs_what_its_bytes_allow(mistreated: Victim, codec: Codec) -> None:
    """300 MB of zeros in one record: taken or refused, but not unpacked in memory."""
    bomb = batch(1, codec=codec, value=bytes(300 << 20))
    produce(mistreated, bomb)
