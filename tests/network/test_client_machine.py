"""When a client connects, sends and gives up."""

from __future__ import annotations

import random

from odradek.network.client_machine import (
    ClientClosed,
    ClientMachine,
    ClientSettings,
    Connect,
    ConnectionLost,
    Disconnect,
    Fail,
    NotConnected,
    Renew,
    Request,
    RequestTimedOut,
    Send,
    State,
)

MIDDLE = b"\x80\0\0\0"  # no jitter
SETTINGS = ClientSettings(in_flight_max=2)


def machine(settings: ClientSettings = SETTINGS) -> ClientMachine:
    return ClientMachine(settings, lambda count: MIDDLE)


def request(deadline_ms: int = 30_000) -> Request:
    return Request(3, 12, [], deadline_ms, lambda response, error: None)


def failures(effects):
    return [(each.request, type(each.error)) for each in effects if isinstance(each, Fail)]


def test_a_request_makes_the_connection_and_leaves_when_it_is_open():
    client, first = machine(), request()
    assert client.submit(0, first) == [Connect(10_000)]
    assert client.next_deadline_ms() == 30_000
    assert client.opened() == [Send(first, 1)]
    assert client.responded(1) is first
    assert client.tick(6) == []
    assert client.next_deadline_ms() is None


def test_requests_leave_in_order_and_only_so_many_at_a_time():
    client = machine()
    requests = [request() for _ in range(4)]
    for each in requests:
        client.submit(0, each)
    assert client.opened() == [Send(requests[0], 1), Send(requests[1], 2)]
    assert client.responded(2) is None
    assert client.responded(1) is requests[0]
    assert client.tick(2) == [Send(requests[2], 3)]


def test_a_loss_fails_what_was_sent_and_the_rest_waits_for_the_next_connection():
    client = machine()
    requests = [request() for _ in range(3)]
    for each in requests:
        client.submit(0, each)
    client.opened()
    effects = client.lost(100, "gone")
    assert failures(effects) == [(each, ConnectionLost) for each in requests[:2]]
    assert client.next_deadline_ms() == 150
    assert client.tick(149) == []
    assert client.tick(150) == [Connect(10_000)]
    assert client.opened() == [Send(requests[2], 3)]


def test_the_back_off_doubles_to_its_bound_and_begins_anew_after_an_open_connection():
    client = machine()
    now = 0
    (connect,) = client.submit(now, request(10**9))
    delays, timeouts = [], []
    for _ in range(7):
        timeouts.append(connect.timeout_ms)
        assert client.lost(now, "refused") == []
        delays.append(client.next_deadline_ms() - now)
        now = client.next_deadline_ms()
        (connect,) = client.tick(now)
    assert delays == [50, 100, 200, 400, 800, 1000, 1000]
    assert timeouts == [10_000, 20_000, 30_000, 30_000, 30_000, 30_000, 30_000]
    client.opened()
    client.lost(now, "gone")
    client.submit(now, request(10**9))
    assert client.next_deadline_ms() == now + 50


def test_jitter_is_a_fifth():
    draw = random.Random(5)
    found = []
    for _ in range(200):
        client = ClientMachine(SETTINGS, draw.randbytes)
        client.submit(0, request())
        client.lost(0, "refused")
        found.append(client.next_deadline_ms())
    assert min(found) >= 40
    assert max(found) <= 60
    assert len(set(found)) > 10


def test_a_response_that_is_late_ends_the_connection():
    client = machine()
    soon, later, waiting = request(100), request(200), request(300)
    for each in (soon, later, waiting):
        client.submit(0, each)
    client.opened()
    effects = client.tick(100)
    assert effects[0] == Disconnect()
    assert failures(effects) == [(soon, RequestTimedOut), (later, ConnectionLost)]
    assert client.state is State.DISCONNECTED
    assert client.tick(150) == [Connect(10_000)]


def test_a_request_that_cannot_be_sent_in_time_fails_alone():
    client = machine()
    soon, later = request(100), request(200)
    client.submit(0, soon)
    client.submit(0, later)
    assert failures(client.tick(100)) == [(soon, RequestTimedOut)]
    assert client.opened() == [Send(later, 1)]


def test_a_closed_client_fails_everything():
    client = machine()
    requests = [request() for _ in range(3)]
    for each in requests:
        client.submit(0, each)
    client.opened()
    effects = client.close()
    assert effects[0] == Disconnect()
    assert failures(effects) == [(each, ClientClosed) for each in requests]
    assert failures(client.submit(1, requests[0])) == [(requests[0], ClientClosed)]
    assert client.close() == []
    assert client.lost(2, "gone") == []


def test_a_client_that_fails_fast_keeps_no_requests_that_cannot_be_sent():
    client = machine(ClientSettings(fails_fast=True))
    first, second = request(), request()
    client.submit(0, first)
    client.submit(0, second)
    assert failures(client.lost(10, "refused")) == [(first, NotConnected), (second, NotConnected)]
    assert client.next_deadline_ms() is None
    assert failures(client.submit(20, first)) == [(first, NotConnected)], "the back-off"
    third = request()
    assert client.submit(60, third) == [Connect(20_000)]
    assert client.opened() == [Send(third, 1)]
    fourth = request()
    client.submit(80, fourth)
    assert failures(client.lost(90, "gone")) == [(third, ConnectionLost), (fourth, ConnectionLost)]


# -- sessions that expire ---------------------------------------------------------------------


def open_until(renew_at_ms: int, settings: ClientSettings = SETTINGS) -> ClientMachine:
    client = machine(settings)
    client.submit(0, request())
    client.opened(renew_at_ms)
    client.responded(1)
    return client


def test_a_session_is_renewed_before_the_next_request():
    client, late, later = open_until(1_000), request(), request()
    assert client.tick(1_000) == [], "nothing waits"
    assert client.next_deadline_ms() is None
    assert client.submit(1_000, late) == [Renew(10_000)]
    assert client.state is State.RENEWING
    assert client.submit(1_001, later) == []
    assert client.opened(2_000) == [Send(late, 2), Send(later, 3)]
    assert client.state is State.OPEN


def test_a_renewal_waits_for_the_responses_to_earlier_requests():
    client, early, late = open_until(1_000), request(), request()
    assert client.submit(999, early) == [Send(early, 2)]
    assert client.submit(1_000, late) == []
    assert client.responded(2) is early
    assert client.tick(1_001) == [Renew(10_000)]
    assert client.opened(None) == [Send(late, 3)]
    assert client.submit(10_000, request())[0].correlation_id == 4, "it does not expire any more"


def test_requests_follow_even_a_session_that_has_no_time():
    client, waiting = open_until(0), request()
    assert client.submit(0, waiting) == [Renew(10_000)]
    assert client.opened(0) == [Send(waiting, 2)]


def test_a_renewal_that_fails_is_a_lost_connection_and_its_requests_wait_for_the_next_one():
    client, waiting = open_until(1_000, ClientSettings(fails_fast=True)), request()
    assert client.submit(1_000, waiting) == [Renew(10_000)]
    assert client.lost(1_010, "refused") == []
    assert client.tick(1_060) == [Connect(10_000)]
    assert client.opened() == [Send(waiting, 2)]


def test_requests_time_out_and_fail_during_a_renewal():
    client, soon, later = open_until(1_000), request(1_500), request()
    client.submit(1_000, soon)
    client.submit(1_000, later)
    assert client.next_deadline_ms() == 1_500
    assert failures(client.tick(1_500)) == [(soon, RequestTimedOut)]
    effects = client.close()
    assert effects[0] == Disconnect()
    assert failures(effects) == [(later, ClientClosed)]
