"""Responses are sent completely and in order, however little the transport accepts at a time."""

from __future__ import annotations

import random

import pytest
from tests.network.scripted import ScriptedTransport

from odradek.env.file_range import BufferedRange, FileRange
from odradek.network.output import COPIED_BYTES_PER_TURN, FILE_BYTES_PER_TURN, Output


@pytest.mark.parametrize("seed", range(50))
def test_bytes_and_ranges_leave_in_order(seed):
    draw = random.Random(seed)
    transport = ScriptedTransport()
    output = Output(transport)
    content = draw.randbytes(50_000)
    expected = bytearray()
    for _ in range(40):
        parts = []
        for _ in range(draw.randrange(1, 6)):
            start = draw.randrange(40_000)
            length = draw.choice([0, 1, 10, 5_000])
            data = content[start : start + length]
            expected += data
            parts.append(
                draw.choice(
                    [
                        data,
                        memoryview(data),
                        FileRange(-1, start, length, content),
                        BufferedRange(memoryview(content), start, length, content),
                    ]
                )
            )
        output.queue(parts, sum(map(len, parts)))
        transport.room = draw.choice([0, 1, 100, 10_000])
        done = output.send()
        assert done == (not output.parts)
    while output.parts:
        transport.room = draw.randrange(2000)
        output.send()
    assert transport.sent == expected
    assert output.bytes_out == len(expected)
    assert output.queued_bytes == 0


def test_a_turn_copies_only_so_much_of_ranges_in_memory():
    transport = ScriptedTransport()
    output = Output(transport)
    memory = memoryview(bytes(3 * COPIED_BYTES_PER_TURN))
    output.queue([BufferedRange(memory, 0, len(memory), memory)], len(memory))
    for turn in (1, 2):
        assert not output.send()
        assert len(transport.sent) == turn * COPIED_BYTES_PER_TURN
    assert output.send()


def test_a_turn_sends_only_so_much_of_files():
    transport = ScriptedTransport()
    output = Output(transport)
    content = bytes(FILE_BYTES_PER_TURN)
    ranges = [FileRange(-1, 0, len(content), content) for _ in range(3)]
    ranges.insert(0, FileRange(-1, 0, 100, content))
    output.queue(ranges, 100 + 3 * len(content))
    sent = [(output.send(), len(transport.sent)) for _ in range(4)]
    size = len(content)
    assert sent == [
        (False, 100 + size),
        (False, 100 + 2 * size),
        (True, 100 + 3 * size),
        (True, 100 + 3 * size),
    ]


def test_a_file_that_ends_before_its_range_ends_the_connection():
    output = Output(ScriptedTransport())
    output.queue([b"head", FileRange(-1, 0, 100, bytes(60))], 104)
    with pytest.raises(OSError, match="file ends before"):
        output.send()


def test_a_range_is_sent_with_the_announcement_of_other_parts():
    transport = ScriptedTransport()
    output = Output(transport)
    content = bytes(60)
    first, second, last = (FileRange(-1, 0, 20, content) for _ in range(3))
    output.queue([b"head", first, second, b"between", last], 71)
    assert output.send()
    assert transport.announced == [True, True, False]
