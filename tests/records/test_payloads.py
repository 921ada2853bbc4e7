"""Compressed batches of other libraries, and damaged ones, are accepted and read as by Apache Kafka."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing, require
from tests.log.support import BROKER_CONFIG
from tests.records.payloads import Payloads, gzip_member, lz4_frame, payloads, skippable

from odradek.config.topic_config import TopicConfig
from odradek.log.errors import RecordsRefused
from odradek.log.origin import AppendOrigin
from odradek.log.validation import validate
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import HEADER_SIZE, RecordBatch
from odradek.records.builder import RecordBatchBuilder, seal
from odradek.records.compression import Codec, decompress
from odradek.records.errors import InvalidRecords
from odradek.records.record import iterate_records

PROGRAM = Path(__file__).parent / "java" / "Payloads.java"
RECORDS = 20
TOPIC = TopicConfig({}, BROKER_CONFIG.layers)
OTHERS = "other libraries, such as those of librdkafka, cannot read it"
DEVIATIONS = {
    "gzip: a header after the end": "newer JDKs cannot read it",
    "gzip: reserved flag": OTHERS,
    "gzip: reserved flag in the second": OTHERS,
    "lz4: wrong content size": OTHERS,
    "lz4: wrong content checksum": OTHERS,
    "zstd: a skippable frame cut at the end": OTHERS,
    "zstd: a skippable header cut at the end": OTHERS,
    "zstd: half a frame at the end": OTHERS,
    "zstd: a header at the end": OTHERS,
}
"""What Apache Kafka accepts, and Odradek refuses."""


NOT_READ_AGAIN = "lz4: a block of nothing at the begin"
"""Apache Kafka accepts it, and its consumer reads what is not there."""


def plain_batch() -> bytes:
    """Return a batch of records of 10 KB that is not compressed."""
    chance = random.Random(41)
    words = [chance.randbytes(chance.randint(2, 9)) for _ in range(300)]
    builder = RecordBatchBuilder()
    for number in range(RECORDS):
        value = b"".join(chance.choices(words, k=2000))[:10_000]
        builder.append(number, b"%d" % number, value)
    return bytes(builder.build())


PLAIN = plain_batch()
CONTENT = PLAIN[HEADER_SIZE:]


def batch_of(codec: Codec, payload: bytes) -> bytearray:
    """Return the batch with these records."""
    made = bytearray(PLAIN[:HEADER_SIZE]) + payload
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, codec)
    seal(made)
    return made


@pytest.fixture(scope="module")
def cases() -> Payloads:
    return payloads(CONTENT)


def error_of(batch: bytearray) -> ErrorCode:
    """Return the error that the broker gives for a batch."""
    try:
        validate(bytearray(batch), AppendOrigin.CLIENT, TOPIC, TopicPartition("t", 0), 0)
    except RecordsRefused as refused:
        return refused.code
    return ErrorCode.NONE


def count_of(batch: bytearray) -> int | None:
    """Return the number of records that our reader finds; None if it cannot read them."""
    try:
        return len(list(iterate_records(RecordBatch(batch))))
    except InvalidRecords:
        return None


READABLE = {
    "gzip: two members": gzip_member(CONTENT[:99]) + gzip_member(CONTENT[99:]),
    "gzip: an empty member at the end": gzip_member(CONTENT) + gzip_member(b""),
    "gzip: zeros after the end": gzip_member(CONTENT) + bytes(300),
    "gzip: text after the end": gzip_member(CONTENT) + b"trailing bytes that are no member",
    "zstd: a skippable frame": skippable(b"abc"),
    "lz4: checksums": lz4_frame(CONTENT, block_checksum=True, content_checksum=True),
}
REFUSED = {
    "lz4: linked blocks": lz4_frame(CONTENT, linked=True),
    "lz4: linked, one block": lz4_frame(CONTENT, linked=True, block_size_code=7),
    "lz4: linked, stored": lz4_frame(CONTENT, linked=True, stored=True),
    "lz4: dictionary": lz4_frame(CONTENT, dictionary=True),
    "lz4: an empty stored block": lz4_frame(CONTENT, first_empty=True),
    "gzip: a damaged member after the end": gzip_member(CONTENT) + gzip_member(b"x", crc=1),
}


def test_what_java_reads_is_accepted(cases: Payloads) -> None:
    accepted = {
        **{name: cases[name][1] for name in cases if name.startswith("zstd: a skip")},
        **READABLE,
    }
    accepted["zstd: a skippable frame"] += cases["zstd: plain"][1]
    for name, payload in accepted.items():
        batch = batch_of(Codec[name.partition(":")[0].upper()], payload)
        expected = (ErrorCode.INVALID_RECORD, None) if "cut" in name else (ErrorCode.NONE, RECORDS)
        assert (error_of(batch), count_of(batch)) == expected, name


def test_streams_of_snappy_one_after_the_other(cases: Payloads) -> None:
    for name in ("snappy: two streams", "snappy: an empty stream at the end"):
        assert decompress(*cases[name], len(CONTENT)) == CONTENT, name
    with pytest.raises(InvalidRecords, match="version 0"):
        decompress(*cases["snappy: two streams, one of version 0"], len(CONTENT))


@pytest.mark.parametrize("name", REFUSED)
def test_what_java_cannot_read_is_refused(name: str) -> None:
    batch = batch_of(Codec[name.partition(":")[0].upper()], REFUSED[name])
    assert (error_of(batch), count_of(batch)) == (ErrorCode.INVALID_RECORD, None)


def test_members_at_the_ends_of_what_java_has_read(cases: Payloads) -> None:
    """Java reads 8192 bytes at a time. It looks for another member in the last ones, too."""
    data = random.Random(1).randbytes(20_000)
    for size in range(8130, 8230, 7):
        two = gzip_member(data[:size]) + gzip_member(data[size:])
        assert decompress(Codec.GZIP, two, len(data)) == data


@pytest.mark.java
def test_results_are_those_of_apache_kafka(cases: Payloads) -> None:
    try:
        java = [require("java"), "-XX:TieredStopAtLevel=1"]
        home = kafka_jars()[0].parent
    except Missing as reason:
        pytest.skip(str(reason))
    batches = {name: batch_of(*payload) for name, payload in cases.items()}
    run = subprocess.run(
        [*java, "-cp", home / "*", PROGRAM],
        input="".join(batch.hex() + "\n" for batch in batches.values()),
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    different, counts = {}, []
    for (name, batch), line in zip(batches.items(), run.stdout.splitlines(), strict=True):
        error, count = line.split("\t")
        counts.append(count)
        if name != NOT_READ_AGAIN:
            assert (error == "NONE") == count.isdigit(), name
        theirs = int(count) if count.isdigit() else None
        ours = count_of(batch)
        assert (error_of(batch) is ErrorCode.NONE) == (ours is not None), name
        if theirs != ours:
            different[name] = (theirs, ours)
    assert different == dict.fromkeys(DEVIATIONS, (RECORDS, None))
    assert counts.count(str(RECORDS)) > 60
