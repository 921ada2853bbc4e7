"""Batches against Apache Kafka's own `MemoryRecords`, in both directions."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing, require
from tests.support.child import Child

from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import end_of_transaction_batch
from odradek.records.record import iterate_records

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "Batches.java"


@pytest.fixture(scope="module")
def java():
    """A function that asks the Java program one question."""
    try:
        command = [require("java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        classpath = os.pathsep.join(map(str, kafka_jars()))
    except Missing as reason:
        pytest.skip(str(reason))
    words = [*command, "-cp", classpath, PROGRAM]
    with Child(words, talks=True, hears=True) as process:
        yield lambda question: process.ask(json.dumps(question))
        process.finish(20)


def drawn_batches():
    """A few hundred batches of every kind: (fields of the batch, its records)."""
    draw = random.Random(20)
    for number in range(200):
        has_producer = draw.random() < 0.5
        fields = {
            "base_offset": draw.choice([0, 1, 2**31, 2**50]),
            "codec": list(Codec)[number % 5],
            "leader_epoch": draw.choice([-1, 0, 77]),
            "producer_id": draw.randrange(2**60) if has_producer else -1,
            "producer_epoch": draw.randrange(2**15) if has_producer else -1,
            "base_sequence": draw.choice([0, 5, 2**31 - 3]) if has_producer else -1,
            "is_transactional": has_producer and draw.random() < 0.5,
            "log_append_time": draw.choice([None, None, 1_600_000_000_000]),
        }
        records = [drawn_record(draw) for _ in range(draw.choice([1, 2, 5, 70, 300]))]
        yield fields, records


def drawn_record(draw):
    def content():
        kind = draw.random()
        if kind < 0.1:
            return None
        return draw.randbytes(draw.choice([0, 1, 10, 63, 64, 100])) * draw.choice([1, 1, 50])

    headers = tuple(
        (draw.choice(["", "h", "größe"]), content()) for _ in range(draw.choice([0, 0, 1, 3]))
    )
    return 1_700_000_000_000 + draw.randrange(-(2**33), 2**33), content(), content(), headers


def as_json(fields, records):
    def text(content):
        return None if content is None else content.hex()

    return fields | {
        "codec": fields["codec"].name.lower(),
        "records": [
            {
                "timestamp": timestamp,
                "key": text(key),
                "value": text(value),
                "headers": [[name, text(content)] for name, content in headers],
            }
            for timestamp, key, value, headers in records
        ],
    }


def built(fields, records):
    builder = RecordBatchBuilder(**fields)
    for record in records:
        builder.append(*record)
    return builder.build()


def described(data):
    """What the Java program says of batches, of ours."""
    return [
        {
            "base_offset": batch.base_offset,
            "last_offset": batch.last_offset,
            "leader_epoch": batch.leader_epoch,
            "codec": Codec(batch.codec).name.lower(),
            "max_timestamp": batch.max_timestamp,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "last_sequence": batch.last_sequence,
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "records": [
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "sequence": record.sequence,
                    "key": None if record.key is None else record.key.hex(),
                    "value": None if record.value is None else record.value.hex(),
                    "headers": [
                        [name, None if content is None else content.hex()]
                        for name, content in record.headers
                    ],
                }
                for record in iterate_records(batch)
            ],
        }
        for batch in iterate_batches(data)
    ]


def test_java_reads_what_we_write(java):
    for fields, records in drawn_batches():
        data = built(fields, records)
        assert json.loads(java({"read": data.hex()})) == described(data)


def test_we_read_what_java_writes(java):
    for fields, records in drawn_batches():
        data = bytes.fromhex(java(as_json(fields, records)))
        batch = RecordBatch(data)
        batch.check()
        assert described(data) == described(built(fields, records))


def test_batches_that_are_not_compressed_are_the_same_bytes(java):
    for fields, records in drawn_batches():
        if fields["codec"] is Codec.NONE:
            assert java(as_json(fields, records)).strip() == built(fields, records).hex()


def test_java_reads_the_end_of_a_transaction(java):
    data = end_of_transaction_batch(
        False, producer_id=7, producer_epoch=1, coordinator_epoch=3, timestamp=5
    )
    (batch,) = json.loads(java({"read": data.hex()}))
    assert batch["is_control"]
    assert batch["is_transactional"]
    assert batch["records"][0]["key"] == "00000000"
    assert batch["records"][0]["value"] == "000000000003"
