"""Turns of the event loop are short, all ready sockets are served, and closed ones are not."""

from __future__ import annotations

import selectors
import socket

from odradek.env.event_loop import TURN_EVENTS_MAX, MeasuredSelector


def _pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    return [socket.socketpair() for _ in range(count)]


def _close(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    for pair in pairs:
        for each in pair:
            each.close()


def test_a_turn_serves_a_few_and_the_next_turns_the_rest() -> None:
    selector = MeasuredSelector()
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
    selector = MeasuredSelector()
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
    selector = MeasuredSelector()
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
