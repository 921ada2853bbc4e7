"""Turns of the event loop are short, all ready sockets are served, and closed ones are not."""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys

import pytest

from odradek.env.event_loop import (
    LONG_SECONDS,
    STRANGERS_BESIDE_OTHERS_MAX,
    TURN_EVENTS_MAX,
    NodeSelector,
    defer,
    prefer,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="strangers need EPOLLONESHOT")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    return [socket.socketpair() for _ in range(count)]


def _close(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    for pair in pairs:
        for each in pair:
            each.close()


def test_a_turn_serves_a_few_and_the_next_turns_the_rest() -> None:
    selector = NodeSelector(Clock())
    pairs = _pairs(3 * TURN_EVENTS_MAX)
    try:
        for ours, theirs in pairs:
            selector.register(ours, selectors.EVENT_READ)
            theirs.send(b"x")
        served = []
        for _ in range(3):
            ready = selector.select(0)
            assert len(ready) == TURN_EVENTS_MAX
            served += [key.fd for key, _ in ready]
        assert sorted(served) == sorted(ours.fileno() for ours, _ in pairs)
    finally:
        selector.close()
        _close(pairs)


def test_a_socket_that_is_closed_before_its_turn_is_not_served() -> None:
    selector = NodeSelector(Clock())
    pairs = _pairs(TURN_EVENTS_MAX + 3)
    try:
        for ours, theirs in pairs:
            selector.register(ours, selectors.EVENT_READ)
            theirs.send(b"x")
        first = {key.fd for key, _ in selector.select(0)}
        left, changed, stays = (ours for ours, _ in pairs if ours.fileno() not in first)
        selector.unregister(left)
        selector.modify(changed, selectors.EVENT_READ | selectors.EVENT_WRITE)
        assert [key.fd for key, _ in selector.select(0)] == [stays.fileno()]
        again = {key.fd: events for key, events in selector.select(0)}
        assert left.fileno() not in again
        if changed.fileno() not in again:  # it was not among the first few of a new look
            again = {key.fd: events for key, events in selector.select(0)}
        assert again[changed.fileno()] == selectors.EVENT_READ | selectors.EVENT_WRITE
    finally:
        selector.close()
        _close(pairs)


def test_a_wait_without_sockets_is_measured() -> None:
    selector = NodeSelector()
    try:
        assert selector.select(0) == []
        assert selector.turns == 1
        assert selector.take_pause_max() > 0
        assert selector.pause_seconds_max == 0
        selector.select(0)
        selector.forget_pauses()
        assert selector.take_pause_max() == 0
    finally:
        selector.close()


def _ready_pairs(selector: NodeSelector, count: int) -> list[tuple[socket.socket, socket.socket]]:
    pairs = _pairs(count)
    for ours, theirs in pairs:
        selector.register(ours, selectors.EVENT_READ)
        theirs.send(b"x")
    return pairs


def test_after_a_long_iteration_fewer_sockets_are_served():
    clock = Clock()
    selector = NodeSelector(clock)
    pairs = _ready_pairs(selector, TURN_EVENTS_MAX)
    try:
        served = []
        for _ in range(6):
            served.append(len(selector.select(0)))
            while selector._held:
                selector.select(0)
            clock.now += 2 * LONG_SECONDS
        assert served == [16, 8, 4, 4, 4, 4]
        for _ in range(20):  # iterations that take no time
            selector.select(0)
        while selector._held:
            selector.select(0)
        assert len(selector.select(0)) == TURN_EVENTS_MAX
    finally:
        selector.close()
        _close(pairs)


@linux
def test_strangers_are_served_after_others_and_their_addresses_take_turns():
    selector = NodeSelector(Clock())
    strangers = _ready_pairs(selector, 3 * TURN_EVENTS_MAX)
    late, known = _ready_pairs(selector, 2)
    try:
        host = {ours.fileno(): "10.0.0.1" for ours, _ in strangers}
        host[late[0].fileno()] = "10.0.0.2"
        for descriptor, address in host.items():
            selector.defer(descriptor, address)
        served = [key.fd for key, _ in selector.select(0)]
        assert served[0] == known[0].fileno()
        assert len(served) == 1 + STRANGERS_BESIDE_OTHERS_MAX
        assert late[0].fileno() in served[1:3]
        known[0].recv(1)
        served = [key.fd for key, _ in selector.select(0)]
        assert len(served) == TURN_EVENTS_MAX
        assert {host[each] for each in served} == {"10.0.0.1", "10.0.0.2"}  # it was not read
    finally:
        selector.close()
        _close([*strangers, late, known])


@linux
def test_a_stranger_that_waits_is_not_reported_again():
    selector = NodeSelector(Clock())
    pairs = _ready_pairs(selector, 2 * TURN_EVENTS_MAX)
    reported = []
    select = selectors.DefaultSelector.select
    try:
        for ours, _ in pairs:
            selector.defer(ours.fileno(), "10.0.0.1")
        for _ in range(2):
            for key, _ in selector.select(0):
                reported.append(key.fd)
                key.fileobj.recv(1)
            assert select(selector, 0) == []
        assert sorted(reported) == sorted(ours.fileno() for ours, _ in pairs)
    finally:
        selector.close()
        _close(pairs)


@linux
def test_strangers_that_wait_may_be_preferred_changed_or_closed():
    selector = NodeSelector(Clock())
    pairs = _ready_pairs(selector, TURN_EVENTS_MAX + 3)
    try:
        for ours, _ in pairs:
            selector.defer(ours.fileno(), "10.0.0.1")
        first = {key.fd for key, _ in selector.select(0)}
        left, changed, preferred = (ours for ours, _ in pairs if ours.fileno() not in first)
        for ours, _ in pairs:
            if ours.fileno() in first:
                ours.recv(1)
        selector.unregister(left)
        selector.prefer(left.fileno())
        selector.modify(changed, selectors.EVENT_READ | selectors.EVENT_WRITE)
        selector.prefer(preferred.fileno())
        again = {key.fd: events for key, events in selector.select(0)}
        assert again == {
            changed.fileno(): selectors.EVENT_READ | selectors.EVENT_WRITE,
            preferred.fileno(): selectors.EVENT_READ,
        }
        # A new connection with the descriptor of one that is closed is no stranger.
        selector.register(left, selectors.EVENT_READ)
        assert left.fileno() in {key.fd for key, _ in selectors.DefaultSelector.select(selector, 0)}
        assert left.fileno() in {key.fd for key, _ in selectors.DefaultSelector.select(selector, 0)}
    finally:
        selector.close()
        _close(pairs)


def test_other_event_loops_know_no_strangers():
    loop = asyncio.new_event_loop()
    try:
        assert not defer(loop, 5, "10.0.0.1")
        prefer(loop, 5)
    finally:
        loop.close()


@pytest.mark.parametrize("timeout", [None, 0, 0.0001, -1])
def test_the_same_sockets_are_ready_as_for_the_base_class(timeout: float | None) -> None:
    read, write = selectors.EVENT_READ, selectors.EVENT_WRITE
    pairs = _pairs(9)
    for ours, theirs in pairs[3:6]:
        theirs.send(b"x")
        ours.setblocking(False)
    for _, theirs in pairs[6:]:
        theirs.close()
    with NodeSelector() as selector, selectors.DefaultSelector() as base:
        try:
            for number, (ours, _) in enumerate(pairs):
                for each in (selector, base):
                    each.register(ours, (read, write, read | write)[number % 3], number)
            expected = [(key.fd, key.data, events) for key, events in base.select(timeout)]
            found = []
            while event := selector.select(timeout if len(found) < len(expected) else 0):
                found += [(key.fd, key.data, events) for key, events in event]
                for key, _ in event:
                    selector.unregister(key.fileobj)
            assert sorted(found) == sorted(expected)
            assert len(expected) == 8, "all but the first, which only waits for bytes"
            for key in list(base.get_map().values()):
                base.unregister(key.fileobj)
            assert base.select(0) == selector.select(0) == []
        finally:
            _close(pairs)
