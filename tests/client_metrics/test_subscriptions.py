"""Client telemetry: which metrics a client is asked for, and which pushes are rejected."""

import pytest

from odradek.core.client_metrics.subscriptions import INSTANCES_MAX, ClientMetrics
from odradek.model import uuids
from odradek.model.errors import ApiError, ErrorCode

CLIENT = {
    "client_id": "shop",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.3.0",
    "client_source_address": "127.0.0.1",
    "client_source_port": "50000",
}


@pytest.fixture
def machine():
    ids = iter(range(1000, 10**9))
    return ClientMetrics(1_000_000, lambda: next(ids).to_bytes(16, "big"))


def push(machine, instance, now_ms, **changes):
    arguments = {
        "subscription_id": instance.subscription_id,
        "compression_type": 0,
        "payload_bytes": 10,
        "terminating": False,
        **changes,
    }
    return machine.push(instance.id, CLIENT, now_ms, **arguments)


def error_of(call, *arguments, **keywords):
    with pytest.raises(ApiError) as caught:
        call(*arguments, **keywords)
    return caught.value.code


def test_without_subscriptions_a_client_is_asked_for_nothing(machine):
    instance = machine.subscribe(uuids.ZERO, CLIENT, 0)
    assert instance.id != uuids.ZERO
    assert (instance.metrics, instance.interval_ms) == ([], 300_000)


def test_matching_subscriptions_are_joined(machine):
    machine.configure("a", {"metrics": "x.,y.", "interval.ms": "2000", "match": "client_id=sh.*"})
    machine.configure("b", {"metrics": "z.", "interval.ms": "1000"})
    machine.configure("c", {"metrics": "*", "match": "client_id=other"})
    instance = machine.subscribe(uuids.ZERO, CLIENT, 0)
    assert (instance.metrics, instance.interval_ms) == (["x.", "y.", "z."], 1000)
    machine.configure("c", {"metrics": "*"})
    assert machine.subscribe(instance.id, CLIENT, 1).metrics == ["*"]


def test_the_id_changes_with_the_subscription_only(machine):
    machine.configure("a", {"metrics": "x."})
    first = machine.subscribe(uuids.ZERO, CLIENT, 0)
    before = first.subscription_id
    machine.configure("other", {"metrics": "q.", "match": "client_id=nobody"})
    assert machine.subscribe(first.id, CLIENT, 1).subscription_id == before
    machine.configure("a", {"metrics": "y."})
    assert machine.subscribe(first.id, CLIENT, 2).subscription_id != before


def test_pushes_are_taken_at_the_interval(machine):
    machine.configure("a", {"metrics": "*", "interval.ms": "1000"})
    instance = machine.subscribe(uuids.ZERO, CLIENT, 0)
    push(machine, instance, 500)
    assert error_of(push, machine, instance, 1400) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    push(machine, instance, 1500)
    push(machine, instance, 1501, terminating=True)
    assert error_of(push, machine, instance, 9000) is ErrorCode.INVALID_REQUEST


def test_asking_too_early_is_refused_unless_the_push_was(machine):
    machine.configure("a", {"metrics": "*", "interval.ms": "1000"})
    instance = machine.subscribe(uuids.ZERO, CLIENT, 0)
    early = error_of(machine.subscribe, instance.id, CLIENT, 999)
    assert early is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    unknown = error_of(push, machine, instance, 500, subscription_id=instance.subscription_id + 1)
    assert unknown is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    machine.subscribe(instance.id, CLIENT, 600)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"payload_bytes": 1_000_001}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_refused_payloads(machine, changes, code):
    instance = machine.subscribe(uuids.ZERO, CLIENT, 0)
    assert error_of(push, machine, instance, 1, **changes) is code


def test_reserved_ids_are_refused(machine):
    code = error_of(
        machine.push, uuids.ZERO, CLIENT, 0,
        subscription_id=0, compression_type=0, payload_bytes=0, terminating=False,
    )  # fmt: skip
    assert code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("match", ["client_id", "nonsense=x", "client_id=[", "client_id=a=b"])
def test_bad_patterns(machine, match):
    assert error_of(machine.configure, "a", {"match": match}) is ErrorCode.INVALID_CONFIG


def test_instances_are_bounded_and_forgotten(machine):
    for _ in range(INSTANCES_MAX + 10):
        machine.subscribe(uuids.ZERO, CLIENT, 0)
    assert len(machine.instances) == INSTANCES_MAX
    machine.subscribe(uuids.ZERO, CLIENT, 3 * 300_000 + 1)
    assert len(machine.instances) == 1
