"""Each client reads the records of every other client: all codecs, all shapes."""

from __future__ import annotations

from dataclasses import replace

from compat.driver import Driver, Record
from compat.lab.wire_client import CODECS
from compat.scenarios.record_shapes import HEADERS
from compat.scenarios.stage import create_and_wait, equal

NULL_HEADER = ("null", None)
SHAPES = (
    Record(b"value", b"key"),
    Record(None, b"only a key"),
    Record(b"only a value"),
    Record(None, None),
    Record(b"", b""),
    Record(b"with headers", b"key", headers=(*HEADERS, NULL_HEADER)),
    Record(b"compressible " * 300, b"longer"),
    Record("ünïcödé".encode(), bytes(range(256)), timestamp=1_700_000_000_123),
)


def topic_of(writer: str) -> str:
    """The topic that a client writes for the others."""
    return f"written-by-{writer}"


def records_of(writer: Driver) -> list[Record]:
    """What a client writes: every shape with every codec, a partition for each codec."""
    return [
        replace(possible, partition=partition)
        for partition in range(len(CODECS))
        for record in SHAPES
        if (possible := _possible(record, writer)) is not None
    ]


def write(writer: Driver) -> None:
    """Write the client's topic."""
    topic = topic_of(writer.name)
    create_and_wait(writer, topic, len(CODECS), {"retention.ms": "-1"})
    records = records_of(writer)
    for partition, codec in enumerate(CODECS):
        mine = [record for record in records if record.partition == partition]
        writer.produce(topic, mine, codec=codec)


def read(reader: Driver, writer: Driver) -> None:
    """Read what another client wrote, and compare."""
    expected = records_of(writer)
    partitions = range(len(CODECS))
    got = reader.read(topic_of(writer.name), len(expected), partitions=partitions)
    for partition, codec in enumerate(CODECS):
        equal(
            [record.content() for record in got if record.partition == partition],
            [record.content() for record in expected if record.partition == partition],
            f"written by {writer.name} with {codec}",
        )
    stamps = {record.timestamp for record in got if record.value == SHAPES[-1].value}
    equal(stamps, {SHAPES[-1].timestamp}, "timestamp")


def _possible(record: Record, writer: Driver) -> Record | None:
    if "null key with null value" in writer.lacks and record.key is None and record.value is None:
        return None
    if "null header values" in writer.lacks:
        headers = tuple(header for header in record.headers if header[1] is not None)
        return replace(record, headers=headers)
    return record
