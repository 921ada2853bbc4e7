"""Captured messages of Apache Kafka and its clients are decoded and encoded to the same bytes."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.model import api_keys
from odradek.wire.api import BY_KEY, message_class
from odradek.wire.build import MESSAGES
from odradek.wire.declaration import read_file
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.response_header import ResponseHeader
from odradek.wire.primitives import MalformedMessage, read_uvarint, write_uvarint

FIXTURES = Path(__file__).parents[1] / "fixtures"
LOGS = FIXTURES / "apache-kafka-4.3.0"


class Frame(NamedTuple):
    connection: str
    number: int
    direction: str
    key: int
    version: int
    hex: str


def frames() -> Iterator[Frame]:
    with gzip.open(FIXTURES / "frames.jsonl.gz", "rt") as file:
        for line in file:
            yield Frame(*json.loads(line))


def recode(frame: Frame, version: int) -> bytes:
    """The frame, decoded and encoded again."""
    api = BY_KEY[frame.key]
    data = memoryview(bytes.fromhex(frame.hex))
    if frame.direction == "req":
        header_version = api.request_header_version(version)
        header, position = RequestHeader.decode_prefix(data, header_version)
        assert (header.request_api_key, header.request_api_version) == (frame.key, version)
        body = api.request_class().decode(data, version, position)
        return header.encode(header_version) + body.encode(version)
    header_version = api.response_header_version(version)
    answer_header, position = ResponseHeader.decode_prefix(data, header_version)
    body = api.response_class().decode(data, version, position)
    return answer_header.encode(header_version) + body.encode(version)


def test_all_captured_frames_encode_to_the_same_bytes() -> None:
    counts: Counter[str] = Counter()
    for frame in frames():
        version = frame.version
        if frame.direction == "resp" and frame.key == api_keys.API_VERSIONS and version == 5:
            version = 0  # Apache Kafka 4.3 does not know version 5 and says so in version 0
            counts["fallback"] += 1
        assert recode(frame, version).hex() == frame.hex, frame
        counts[frame.direction] += 1
    assert counts["fallback"] == 5
    assert counts["req"] + counts["resp"] == 16_485


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    is_control: bool


def zigzag(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position


def records(data: bytes) -> Iterator[Record]:
    """The records of uncompressed batches, read here anew to depend on nothing else."""
    position = 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        (count,) = struct.unpack_from(">i", data, position + 57)
        assert attributes & 7 == 0, "the fixtures are not compressed"
        at = position + 61
        for _ in range(count):
            size, at = zigzag(data, at)
            end, at = at + size, at + 1
            while data[at] & 0x80:
                at += 1
            at += 1
            _, at = zigzag(data, at)
            fields: list[bytes | None] = []
            for _ in range(2):
                size, at = zigzag(data, at)
                fields.append(None if size < 0 else data[at : at + size])
                at += max(size, 0)
            yield Record(fields[0], fields[1], bool(attributes & 0x20))
            at = end
        position += 12 + length


def types_of(file: str, kind: str) -> dict[int, str]:
    messages, _ = read_file(MESSAGES / file)
    return {m.api_key: m.name for m in messages if m.kind == kind and m.api_key is not None}


METADATA_TYPES = types_of("metadata_records.msg", "metadata")
CONTROL_TYPES = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}


@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("cluster_metadata.log", 1822),
        ("00000000000000000000-0000000000.checkpoint", 4),
        ("bootstrap.checkpoint", 8),
    ],
)
def test_metadata_records_encode_to_the_same_bytes(file: str, count: int) -> None:
    seen = 0
    for record in records((LOGS / file).read_bytes()):
        assert record.value is not None
        seen += 1
        if record.is_control:
            assert record.key is not None
            control_type = struct.unpack(">hh", record.key)[1]
            (version,) = struct.unpack_from(">h", record.value)
            message = message_class(CONTROL_TYPES[control_type]).decode(record.value, version)
            assert message.encode(version) == record.value
            continue
        frame_version, at = read_uvarint(record.value, 0)
        key, at = read_uvarint(record.value, at)
        version, at = read_uvarint(record.value, at)
        assert frame_version == 1
        message = message_class(METADATA_TYPES[key]).decode(record.value, version, at)
        prefix = b"\x01" + write_uvarint(key) + write_uvarint(version)
        assert prefix + message.encode(version) == record.value
    assert seen == count


@pytest.mark.parametrize(
    ("topic", "declarations"),
    [
        ("__consumer_offsets", "group_records.msg"),
        ("__transaction_state", "transaction_records.msg"),
        ("__share_group_state", "share_records.msg"),
    ],
)
def test_coordinator_records_encode_to_the_same_bytes(topic: str, declarations: str) -> None:
    keys, values = types_of(declarations, "key"), types_of(declarations, "value")
    seen: Counter[str] = Counter()
    for path in sorted(LOGS.glob(f"{topic}-*.log")):
        for record in records(path.read_bytes()):
            if record.is_control:
                continue  # an end-of-transaction marker, tested in tests/records
            assert record.key is not None
            (kind,) = struct.unpack_from(">h", record.key)
            key = message_class(keys[kind]).decode(record.key, 0, 2)
            assert key.encode(0) == record.key[2:]
            seen[keys[kind]] += 1
            if record.value is None:
                continue
            (version,) = struct.unpack_from(">h", record.value)
            value = message_class(values[kind]).decode(record.value, version, 2)
            assert value.encode(version) == record.value[2:]
    assert seen.total() > 0


def test_a_cut_frame_is_malformed() -> None:
    frame = next(
        each for each in frames() if each.key == api_keys.PRODUCE and each.direction == "req"
    )
    with pytest.raises(MalformedMessage):
        recode(frame._replace(hex=frame.hex[:-2]), frame.version)
