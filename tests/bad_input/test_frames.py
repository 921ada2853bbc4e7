"""Invalid frames: an error or a closed connection, as in Apache Kafka. The node keeps running."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import socket
import struct
from pathlib import Path

import pytest
from tests.bad_input.recorded import check
from tests.bad_input.target import Target, frame, header
from tests.support.run_seed import seeds

from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader

FIXTURES = Path(__file__).parents[1] / "fixtures"
API_VERSIONS, METADATA, PRODUCE, FETCH = 18, 3, 0, 1
HUGE = 0x7FFFFFFF

FRAMES = {
    "nothing": b"",
    "half a length": b"\x00\x00",
    "length 0": struct.pack(">i", 0),
    "length -1": struct.pack(">i", -1),
    "length -2^31": struct.pack(">i", -(2**31)),
    "length 2^31 - 1": struct.pack(">i", HUGE) + b"x" * 100,
    "length just above the limit": struct.pack(">i", 104_857_601) + b"x" * 100,
    "shorter than its length": struct.pack(">i", 1000) + header(API_VERSIONS, 0),
    "half a header": frame(header(API_VERSIONS, 0)[:5]),
    "client id beyond the end": frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 32_000)),
    "client id of length -2": frame(struct.pack(">hhih", API_VERSIONS, 0, 1, -2)),
    "API 999": frame(header(999, 0)),
    "API -1": frame(header(-1, 0)),
    "API of controllers": frame(header(52, 0) + b"\x00" * 40),
    "API that was removed": frame(header(4, 0) + b"\x00" * 40),
    "version 99": frame(header(METADATA, 99) + b"\x00" * 10),
    "version -1": frame(header(METADATA, -1) + b"\x00" * 10),
    "body missing": frame(header(METADATA, 4)),
    "2^31 - 1 topics": frame(header(METADATA, 4) + struct.pack(">i", HUGE)),
    "-2 topics": frame(header(METADATA, 4) + struct.pack(">i", -2)),
    "a topic name beyond the end": frame(header(METADATA, 4) + struct.pack(">ih", 1, 30_000)),
    "bytes behind the body": frame(header(METADATA, 4) + struct.pack(">i?", 0, False) + b"x" * 99),
    "tags without end": frame(header(API_VERSIONS, 3) + b"\xff" * 50),
    "a varint of 100 bytes": frame(header(API_VERSIONS, 3) + b"\x00" + b"\x80" * 100),
    "records of 2^31 - 1 bytes": frame(
        header(PRODUCE, 3) + struct.pack(">hhiih1siii", -1, -1, 1000, 1, 1, b"t", 1, 0, HUGE)
    ),
    "a million fetch partitions": frame(
        header(FETCH, 4) + struct.pack(">iiiibih", -1, 0, 0, 1, 0, 1_000_000, 1)
    ),
    "HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "TLS": bytes.fromhex("16030100ba010000b60303") + b"\x5a" * 180,
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "zeros": b"\x00" * 10_000,
    "ones": b"\xff" * 10_000,
}


@pytest.mark.parametrize("name", FRAMES)
def test_one_bad_frame(target: Target, name: str) -> None:
    check("test_frames", name, target.outcome(FRAMES[name]))


def test_an_unknown_version_of_api_versions_is_answered_with_the_known_ones(
    target: Target,
) -> None:
    with _connect(target) as connection:
        connection.sendall(frame(header(API_VERSIONS, 99)))
        answer = connection.recv(1 << 16)
    length, correlation_id, error = struct.unpack_from(">iih", answer)
    assert (length, correlation_id, error) == (len(answer) - 4, 7, 35)


def test_random_bytes(target: Target) -> None:
    chance = random.Random(next(iter(seeds(1))))
    for _ in range(300):
        target.send(frame(chance.randbytes(chance.randrange(0, 400))))


def test_truncated_requests_of_every_api(target: Target) -> None:
    """Each request in each version, with default fields, truncated at a random byte."""
    chance = random.Random(next(iter(seeds(1))))
    for api in BY_KEY.values():
        if "broker" not in api.listeners:
            continue
        request = api.request_class()()
        for version in range(api.version_min, api.version_max + 1):
            head = RequestHeader(
                request_api_key=api.key, request_api_version=version, client_id="bad"
            ).encode(api.request_header_version(version))
            whole = head + request.encode(version)
            target.send(frame(whole[: chance.randrange(len(whole))]))


def test_captured_requests_with_wrong_bytes(target: Target) -> None:
    """Requests of real clients, with a few changed bytes after the header."""
    chance = random.Random(next(iter(seeds(1))))
    with gzip.open(FIXTURES / "frames.jsonl.gz", "rt", encoding="utf-8") as lines:
        captured = [json.loads(line) for line in lines]
    requests = [
        bytes.fromhex(hexadecimal)
        for connection, _, direction, _, _, hexadecimal in captured
        if connection != "ctl" and direction == "req" and len(hexadecimal) < 4000
    ]
    for data in chance.sample(requests, min(400, len(requests))):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(8, len(damaged))] = chance.randrange(256)
        target.send(frame(bytes(damaged)))


def test_large_lengths_need_no_memory(target: Target) -> None:
    """A hundred connections announce 100 MB each and send 1 KB."""
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(_connect(target))
            connection.sendall(struct.pack(">i", 100_000_000) + header(PRODUCE, 9) + b"x" * 1000)
        target.check()


def test_slow_senders_do_not_delay_others(target: Target) -> None:
    """Two hundred connections send one byte at a time. Meanwhile other requests get responses."""
    request = frame(header(API_VERSIONS, 0))
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(_connect(target)) for _ in range(200)]
        for position in range(len(request)):
            for connection in connections:
                connection.sendall(request[position : position + 1])
            target.check()
        for connection in connections:
            assert connection.recv(4)


def test_a_reader_that_reads_nothing(target: Target) -> None:
    """A client sends ten thousand requests and reads no response."""
    with _connect(target) as connection:
        connection.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            connection.sendall(frame(header(METADATA, 4) + struct.pack(">i?", -1, False)) * 10_000)
        target.check()


def _connect(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.node.port), 10.0)
