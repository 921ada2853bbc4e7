"""A throttled client gets its response, but its next request waits (KIP-219)."""

from __future__ import annotations

from tests.network.scripted import OTHER, PRODUCE, Scripted, ScriptedLoop, frame

from odradek.network.connection import PROGRESS_BYTES
from odradek.network.turns import (
    FRAMES_ALONE,
    FRAMES_BESIDE_OTHERS,
    ROUND_SECONDS,
    SECONDS_ALONE,
    TURNS_AT_ONCE,
    Turns,
)


def test_the_response_leaves_at_once_and_the_next_request_waits():
    seen = []

    def dispatch(connection, view):
        seen.append(bytes(view[8:]))
        connection.respond([b"."], 1)
        if len(seen) == 1:
            connection.mute(100)

    scripted = Scripted(dispatch)
    scripted.receive(frame(b"first") + frame(b"second"), frame(b"third"))
    assert scripted.transport.sent == b"."
    scripted.loop.advance(0.099)
    assert seen == [b"first"]
    scripted.loop.advance(0.001)
    assert seen == [b"first", b"second", b"third"]
    assert scripted.transport.sent == b"..."


def test_of_several_delays_the_one_that_ends_last_counts():
    seen = []

    def dispatch(connection, view):
        seen.append(bytes(view[8:]))
        connection.respond([b"."], 1)

    scripted = Scripted(dispatch)
    scripted.connection.mute(100)
    scripted.connection.mute(20)
    scripted.connection.mute(0)
    scripted.receive(frame(b"x"))
    scripted.loop.advance(0.05)
    assert not seen
    scripted.connection.mute(100)  # until 150
    scripted.loop.advance(0.06)
    assert not seen
    scripted.loop.advance(0.05)
    assert seen == [b"x"]


def test_a_late_response_does_not_end_the_delay():
    slots = []
    scripted = Scripted(lambda connection, view: slots.append(connection.defer(overlap=True)))
    scripted.receive(frame(b"1", PRODUCE) + frame(b"2", PRODUCE))
    scripted.connection.mute(100)
    scripted.receive(frame(b"3", PRODUCE))
    for slot, answer in zip(slots, (b"1", b"2"), strict=True):
        slot.complete([answer])
    assert scripted.transport.sent == b"12"
    assert len(slots) == 2
    scripted.loop.advance(0.1)
    assert len(slots) == 3


def test_the_end_of_the_delay_does_not_overtake_a_late_response():
    slots = []
    scripted = Scripted(lambda connection, view: slots.append(connection.defer()))
    scripted.receive(frame(b"1", OTHER))
    scripted.connection.mute(100)
    scripted.receive(frame(b"2", OTHER))
    scripted.loop.advance(0.2)
    assert len(slots) == 1
    slots[0].complete([b"1"])
    assert len(slots) == 2


def test_a_muted_client_may_leave():
    scripted = Scripted(lambda connection, view: None)
    scripted.connection.mute(100)
    scripted.receive(frame(b"1"), b"")
    assert scripted.connection.closed
    scripted.loop.advance(0.2)


def test_who_waits_is_not_idle_and_who_sent_half_a_request_is():
    slots = []
    scripted = Scripted(lambda connection, view: slots.append(connection.defer()))
    connection = scripted.connection
    scripted.receive(frame(b"1"))
    assert [connection.count_sweep() for _ in range(3)] == [0, 0, 0]
    slots[0].complete([b"1"])
    connection.mute(10)
    assert connection.count_sweep() == 0
    scripted.loop.advance(1)
    assert [connection.count_sweep() for _ in range(2)] == [1, 2]
    scripted.receive(frame(b"half")[:7])
    assert [connection.count_sweep() for _ in range(2)] == [3, 4]


def test_who_sends_a_request_byte_by_byte_is_idle_and_who_sends_a_large_one_is_not():
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(len(view)))
    connection = scripted.connection
    request = frame(bytes(3 * PROGRESS_BYTES))
    for position in range(5):
        scripted.receive(request[position : position + 1])
        assert connection.count_sweep() == position + 1
    rest = request[5:]
    for begin in range(0, len(rest) - PROGRESS_BYTES, PROGRESS_BYTES):
        scripted.receive(rest[begin : begin + PROGRESS_BYTES])
        assert connection.count_sweep() == 0
    assert not seen
    assert connection.count_sweep() == 1
    scripted.receive(rest[len(rest) // PROGRESS_BYTES * PROGRESS_BYTES :])
    assert seen == [len(request) - 4]
    assert connection.sweeps == 0


def test_a_client_with_many_requests_waits_for_its_turn():
    """Others are served in between. Nothing is read meanwhile, so that an end of the stream does not
    overtake requests."""
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(bytes(view[8:])))
    requests = [b"%d" % number for number in range(2 * FRAMES_ALONE + 5)]
    scripted.transport.incoming.append(b"".join(map(frame, requests)))
    scripted.transport.incoming.append(b"")  # the client closes the connection
    scripted.transport.reader()
    assert seen == requests[:FRAMES_ALONE]
    assert scripted.transport.reader is None
    scripted.connection.mute(1)
    scripted.loop.advance(0)  # the turn of a client that is muted
    scripted.loop.advance(0)
    assert len(seen) == FRAMES_ALONE
    scripted.loop.advance(1)
    assert seen == requests
    scripted.transport.reader()
    assert scripted.connection.closed


def test_only_a_few_have_their_turn_at_once_and_turns_are_shorter_then():
    loop = ScriptedLoop()
    turns = Turns(loop)
    taken = []

    def take(number):
        taken.append((number, turns.frames))
        if len(taken) <= count:
            turns.wait("10.0.0.9", lambda: take(number))

    count = TURNS_AT_ONCE + 2
    assert turns.frames == FRAMES_ALONE
    for number in range(count):
        turns.wait("10.0.0.9", lambda number=number: take(number))
    assert not taken
    turns._run()
    assert taken == [(number, FRAMES_BESIDE_OTHERS) for number in range(TURNS_AT_ONCE)]
    loop.advance(0)
    assert [number for number, _ in taken] == [*range(count)] * 2
    assert taken[-1] == (count - 1, FRAMES_ALONE)
    assert turns.frames == FRAMES_ALONE


def test_slow_requests_end_a_turn():
    seen = []

    def dispatch(connection, view):
        seen.append(bytes(view[8:]))
        scripted.loop.now += SECONDS_ALONE

    scripted = Scripted(dispatch)
    requests = [b"%d" % number for number in range(7)]
    scripted.transport.incoming.append(b"".join(map(frame, requests)))
    scripted.transport.reader()
    assert len(seen) == 3  # the clock is read for the first time after the first request
    scripted.loop.advance(1)
    assert seen == requests


def test_slow_turns_wait_for_the_next_iteration():
    loop = ScriptedLoop()
    turns = Turns(loop)
    taken = []

    def take(name):
        taken.append(name)
        loop.now += 2 * ROUND_SECONDS

    for name in "abc":
        turns.wait("10.0.0.9", lambda name=name: take(name))
    for count in (1, 2, 3):
        turns._run()
        assert len(taken) == count
    assert taken == ["a", "b", "c"]


def test_addresses_take_turns():
    turns = Turns(ScriptedLoop())
    taken = []
    for number in range(20):
        turns.wait("10.0.0.1", lambda number=number: taken.append(number))
    turns.wait("10.0.0.2", lambda: taken.append("other"))
    turns._run()
    assert taken[:3] == [0, "other", 1]


def test_a_client_is_preferred_after_its_first_request():
    scripted = Scripted(lambda connection, view: None)
    scripted.receive(frame(b"1")[:-1])
    assert not scripted.transport.is_preferred
    scripted.receive(frame(b"1")[-1:])
    assert scripted.transport.is_preferred


def test_a_client_that_is_not_authenticated_is_not_preferred():
    scripted = Scripted(lambda connection, view: None)
    scripted.knows_client = False
    scripted.receive(frame(b"a token"))
    assert not scripted.transport.is_preferred
    scripted.knows_client = True
    scripted.receive(frame(b"1")[:-1])
    assert not scripted.transport.is_preferred
    scripted.receive(frame(b"1")[-1:])
    assert scripted.transport.is_preferred


def test_a_paused_connection_processes_nothing_until_each_pause_has_ended():
    seen = []
    slots = []

    def dispatch(connection, view):
        seen.append(bytes(view[8:]))
        slots.append(connection.defer(overlap=True))
        if len(seen) == 1:
            connection.pause()
            connection.pause()

    scripted = Scripted(dispatch)
    scripted.receive(frame(b"1", PRODUCE) + frame(b"2", PRODUCE), frame(b"3", PRODUCE))
    slots[0].complete([b"."])
    assert (seen, scripted.transport.sent) == ([b"1"], b".")
    scripted.connection.resume()
    assert seen == [b"1"]
    scripted.connection.resume()
    assert seen == [b"1", b"2", b"3"]


def test_a_paused_connection_may_be_muted_and_closed():
    seen = []
    scripted = Scripted(lambda connection, view: seen.append(connection.defer(overlap=True)))
    scripted.connection.pause()
    scripted.connection.mute(100)
    scripted.receive(frame(b"1", PRODUCE))
    scripted.loop.advance(0.2)
    assert not seen
    scripted.connection.mute(100)
    scripted.connection.resume()
    assert not seen
    scripted.loop.advance(0.2)
    assert len(seen) == 1
    peer = scripted.connection.peer
    peer.pause()
    scripted.connection.close()
    peer.resume()
