"""The rates of new connections."""

from odradek.core.quota.connections import CONNECTION_RATE, ConnectionRates, address_of
from odradek.core.quota.meters import Windows

WINDOWS = Windows(11, 1000)


def limited(*changes, listeners=("A", "B"), protected="B"):
    rates = ConnectionRates(WINDOWS, listeners, protected)
    rates.apply([((("ip", ip),), {CONNECTION_RATE: limit}) for ip, limit in changes])
    return rates


def accepted(rates, listener, count, now_ms=0):
    """How many of so many connections at once are accepted at once."""
    return sum(rates.record(listener, now_ms) == 0 for _ in range(count))


def test_a_node_and_its_listeners_have_limits():
    rates = limited()
    assert accepted(rates, "A", 1000) == 1000
    rates = limited()
    rates.use_limits(5, {"B": 2})
    assert accepted(rates, "A", 100) == 50
    assert rates.record("A", 0) == 1000  # no delay is longer than a window
    assert accepted(rates, "B", 100) == 20  # protected: only the limit of its own


def test_the_only_listener_is_not_protected():
    rates = limited(listeners=("A",), protected="A")
    rates.use_limits(5, {})
    assert accepted(rates, "A", 100) == 50


def test_a_delay_brings_the_rate_to_the_limit():
    rates = limited()
    rates.use_limits(10, {})
    accepted(rates, "A", 101)
    # 102 connections in 10 s are 10.2 per second: 0.2 / 10 * 10 s are missing.
    assert rates.record("A", 0) == 200
    assert rates.rate(0) == 10.2


def test_an_address_has_a_limit_and_what_is_refused_does_not_count():
    rates = limited(
        (None, 2.0), ("10.0.0.1", 1.0), ("::ffff:10.0.0.3", 3.0), ("10.0.0.4", 2**31 - 1)
    )
    for host, count in (("10.0.0.1", 10), ("10.0.0.2", 20), ("10.0.0.3", 30), ("10.0.0.4", 40)):
        found = 0
        for _ in range(40):
            rates.record("A", 0)
            found += rates.record_address("A", host, 0) == 0
        assert (host, found) == (host, count)
    assert rates.listeners["A"].rate.measure(0) == 100 / 10
    assert rates.rate(0) == 100 / 10
    assert rates.listeners["A"].refused.measure(0) > 0
    assert rates.listeners["A"].throttled.measure(0) == 0
    rates.apply([((("ip", "10.0.0.1"),), None)])
    assert rates.record_address("A", "10.0.0.1", 0) == 0  # the default of 2 per second
    rates.apply([((("ip", None),), {})])
    assert all(rates.record_address("A", "10.0.0.2", 0) == 0 for _ in range(100))


def test_names_that_are_no_addresses_are_returned():
    assert limited().apply([((("ip", "host"),), {CONNECTION_RATE: 1.0})]) == ["host"]
    assert address_of("host") is None
    assert address_of("0:0::1") == "::1"
    assert address_of("::ffff:1.2.3.4") == "1.2.3.4"
