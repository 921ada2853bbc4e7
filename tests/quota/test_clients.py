"""The meters of clients. tests/oracle compares them with Apache Kafka's."""

from __future__ import annotations

import math

from odradek.core.quota.clients import SWEEP_MS, UNUSED_MS, ClientQuotas
from odradek.core.quota.meters import Windows

USER, ID = "user", "client-id"


def clients(**limits):
    made = ClientQuotas(Windows(11, 1000), Windows(11, 1000))
    made.apply([(((USER, "ann"),), limits)])
    return made


def test_the_connections_of_a_user_share_a_meter():
    quotas = clients(producer_byte_rate=1000.0)
    first, second = (quotas.meters("ann", name, 0) for name in ("a", "b"))
    assert first.produce is second.produce is not None
    assert first.produce.record(10_000, 0) == 0
    assert first.produce.record(1, 0) == 1
    assert quotas.meters("bob", "a", 0).produce is None
    assert first.fetch is first.request is None
    first.produce.throttled(30, 0)
    assert quotas.produce.throttles.count(29) == 1
    assert quotas.produce.throttles.count(30) == 0
    assert first.produce.throttle_time_ms(30) == 30


def test_the_longest_throttle_of_request_time_is_a_window():
    meter = clients(request_percentage=1.0).meters("ann", "a", 0).request
    assert meter is not None
    assert meter.record(1e9, 0) == 1000


def test_what_cannot_be_sent_within_the_windows_is_too_much():
    meter = clients(consumer_byte_rate=1000.0).meters("ann", "a", 0).fetch
    assert meter is not None
    assert meter.value_max == 10_000


def test_a_changed_limit_keeps_what_was_measured():
    quotas = clients(producer_byte_rate=1000.0)
    kept = quotas.meters("ann", "a", 0)
    assert kept.produce is not None
    kept.produce.record(10_000, 0)
    quotas.apply([(((USER, "ann"),), {"producer_byte_rate": 500.0})])
    assert kept.generation != quotas.generation
    again = quotas.meters("ann", "a", 0)
    assert again.produce is kept.produce
    assert again.produce.check(0) == 10_000
    quotas.apply([(((USER, "ann"),), {})])
    assert quotas.is_empty
    assert quotas.meters("ann", "a", 0).produce is None


def test_limits_that_no_controller_accepts_are_ignored():
    for value in (0.0, -1.0, math.nan):
        assert clients(producer_byte_rate=value).is_empty


def test_meters_that_nobody_uses_are_dropped():
    quotas = clients(producer_byte_rate=1000.0)
    meter = quotas.meters("ann", "a", SWEEP_MS).produce
    generation = quotas.generation
    assert meter is not None
    quotas.meters("bob", "a", SWEEP_MS + UNUSED_MS - 1)
    assert quotas.meters("ann", "a", SWEEP_MS + UNUSED_MS - 1).produce is meter
    quotas.meters("bob", "a", SWEEP_MS + 2 * UNUSED_MS)
    assert quotas.generation != generation
    assert quotas.meters("ann", "a", SWEEP_MS + 2 * UNUSED_MS).produce is not meter
