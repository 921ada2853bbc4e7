"""Frames are dispatched complete and in order, however TCP splits them, and memory stays
bounded."""

from __future__ import annotations

import random
import struct

import pytest
from tests.network.scripted import OTHER, PRODUCE, Scripted, frame

from odradek.network.input import READ_AHEAD_BYTES_MAX, RECEIVED_BYTES_MAX
from odradek.network.receive_buffers import (
    GROWTH,
    LENT_BYTES_MIN,
    SIZES,
    SMALL_BYTES_MAX,
    SPARE_BYTES_MAX,
    ReceiveBuffers,
)
from odradek.network.responses import Slot


def cut(stream: bytes, draw: random.Random) -> list[bytes]:
    """Pieces of many lengths, short ones and long ones."""
    pieces = []
    while stream:
        length = int(draw.choice([4, 200, 5_000, 70_000, 400_000]) * draw.random()) + 1
        pieces.append(stream[:length])
        stream = stream[length:]
    return pieces


@pytest.mark.parametrize("seed", range(50))
def test_requests_are_served_in_order_whatever_happens_when(seed):
    """Requests of all lengths in pieces of all lengths, answered at once or late; mutes; a client
    that takes the responses slowly. What the client sent is what is dispatched and answered."""
    draw = random.Random(seed)
    requests = []
    for number in range(40):
        size = int(draw.choice([0, 50, 3_000, 66_000, 150_000, 600_000]) * draw.random())
        key = draw.choice([PRODUCE, OTHER])
        requests.append((key, b"%04d" % number + draw.randbytes(size)))
    pending: list[tuple[Slot, bytes]] = []
    dispatched = 0

    def dispatch(connection, view):
        nonlocal dispatched
        key, payload = requests[dispatched]
        assert view[:2] == key
        assert view[8:] == payload
        dispatched += 1
        answer = payload[:4]
        what = draw.random()
        if what < 0.4:
            connection.respond([answer], 4)
        elif what < 0.5:  # completed before the dispatcher returns
            connection.defer(key == PRODUCE).complete([answer])
        elif what < 0.9:
            pending.append((connection.defer(key == PRODUCE), answer))
        else:
            connection.respond([answer[:2], memoryview(answer)[2:]], 4)
            connection.mute(draw.randrange(50))

    scripted = Scripted(dispatch)
    pieces = cut(b"".join(frame(payload, key) for key, payload in requests), draw)
    transport = scripted.transport
    for _ in range(100_000):
        if len(transport.sent) == 4 * len(requests):
            break
        what = draw.random()
        if what < 0.5 and pieces:
            scripted.receive(pieces.pop(0))
        elif what < 0.7 and pending:
            slot, answer = pending.pop(draw.randrange(len(pending)))
            slot.complete([answer])
        elif what < 0.8:
            scripted.loop.advance(0.01)
        elif what < 0.9:
            scripted.take(draw.choice([0, 3, 1 << 40]))
        scripted.receive()
        held = scripted.connection._input
        claimed = 0 if held is None else len(held) * GROWTH
        memory = b"" if held is None else held.memory or b""
        assert len(memory) <= max(claimed, LENT_BYTES_MIN, 2 * READ_AHEAD_BYTES_MAX)
    assert transport.sent == b"".join(payload[:4] for _, payload in requests)
    assert scripted.connection.is_idle
    assert scripted.connection.bytes_out == 4 * len(requests)


def test_the_end_of_the_stream_is_noticed_while_a_request_waits():
    slots = []
    scripted = Scripted(lambda connection, view: slots.append(connection.defer()))
    scripted.receive(frame(b"first"), frame(b"second"))
    assert not scripted.connection.closed
    scripted.receive(b"")
    assert scripted.connection.closed
    slots[0].complete([b"nobody reads this"])
    assert not scripted.transport.sent


def test_a_client_that_may_not_be_served_is_not_read_for_ever():
    slots = []

    def dispatch(connection, view):
        slots.append(connection.defer())

    scripted = Scripted(dispatch)
    pieces = [frame(bytes(1000)) for _ in range(1000)]
    scripted.receive(*pieces)
    held = scripted.connection._input
    assert READ_AHEAD_BYTES_MAX - 1012 <= len(held) <= READ_AHEAD_BYTES_MAX
    assert scripted.transport.reader is None
    while slots:
        slots.pop().complete([b"."])
        scripted.receive()
    assert len(scripted.transport.sent) == 1000


@pytest.mark.parametrize("arrived", [4, 5, 1000, 5000, 300_000])
def test_memory_follows_the_bytes_that_came_not_the_length_that_was_claimed(arrived):
    scripted = Scripted(lambda connection, view: None)
    scripted.receive(struct.pack(">i", 99_000_000) + bytes(arrived - 4))
    held = scripted.connection._input
    assert len(held) == arrived
    bound = arrived if arrived <= SMALL_BYTES_MAX else max(LENT_BYTES_MIN, GROWTH * arrived)
    assert len(held.memory) <= bound
    scripted.receive(b"")
    assert scripted.connection.closed
    assert held.memory is None


def test_a_request_that_arrives_byte_by_byte_is_served():
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(bytes(view)))
    payload = random.Random(1).randbytes(3 * SMALL_BYTES_MAX)
    stream = frame(payload)
    scripted.receive(*[stream[i : i + 1] for i in range(len(stream))])
    assert seen == [stream[4:]]


def test_what_is_lent_has_room_and_is_bounded():
    buffers = ReceiveBuffers()
    draw = random.Random(3)
    for _ in range(400):
        size = int(2 ** draw.uniform(3, 22))
        count = draw.randrange(min(size, 40_000_000)) if draw.random() < 0.7 else size - 1
        if not count:
            continue
        length = len(buffers.lend(count, size))
        if count <= SMALL_BYTES_MAX:
            assert length == count
        else:
            assert count < length <= max(LENT_BYTES_MIN, GROWTH * count)
            assert length >= size or length >= min(2 * count, LENT_BYTES_MIN)


def test_buffers_are_used_again_and_only_so_many_are_kept():
    buffers = ReceiveBuffers()
    first = buffers.lend(40_000, 65_600)
    buffers.give_back(first)
    assert buffers.lend(50_000, 66_000) is first
    lent = [buffers.lend(40_000, 65_600) for _ in range(100)]
    lent += [buffers.lend(900_000, SIZES[-1]) for _ in range(10)]
    lent += [buffers.lend(9_000_000, 20_000_000) for _ in range(3)]
    for memory in lent:
        buffers.give_back(memory)
    assert buffers.spare_bytes <= 2 * SPARE_BYTES_MAX
    assert buffers.lend(40_000, 65_600) in lent


def test_an_idle_connection_holds_no_buffer():
    scripted = Scripted(lambda connection, view: connection.respond([b"."], 1))
    stream = frame(bytes(200_000))
    scripted.receive(stream[:100_000], stream[100_000:])
    assert scripted.buffers.spare_bytes > 0


def test_a_long_request_arrives_in_portions():
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(bytes(view)))
    stream = frame(random.Random(2).randbytes(20_000_000))
    scripted.transport.incoming.append(stream)
    portions = []
    while not seen:
        before = scripted.connection.bytes_in
        scripted.transport.reader()
        portions.append(scripted.connection.bytes_in - before)
    assert max(portions) == RECEIVED_BYTES_MAX
    assert seen == [stream[4:]]
    assert scripted.connection._input.memory is None


def test_a_long_request_after_others_in_the_same_memory():
    """The memory begins with requests that are dispatched already."""
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(bytes(view)))
    draw = random.Random(4)
    requests = [frame(draw.randbytes(size)) for size in (300_000, 200_000, 9_000_000, 10)]
    stream = b"".join(requests)
    scripted.receive(*[stream[i : i + 70_000] for i in range(0, len(stream), 70_000)])
    assert seen == [each[4:] for each in requests]
