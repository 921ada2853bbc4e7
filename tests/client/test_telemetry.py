"""A client pushes its metrics to a broker that asks for them (KIP-714), in both shells."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.support.waiting import until

from odradek.client import Admin, Consumer, Producer, aio
from odradek.client.admin.configs import Change, Resource, ResourceType
from odradek.client.core.client_metrics import ClientMeter, ProducerMeter, Spread
from odradek.client.core.routes import Routes
from odradek.client.core.telemetry import INTERVAL_MS_DEFAULT, Telemetry, TelemetryState
from odradek.client.errors import DisconnectedError, UnsupportedVersionError
from odradek.model.errors import ErrorCode
from odradek.records.compression import Codec, decompress
from odradek.telemetry import otlp
from odradek.testing import Broker
from odradek.wire.generated.get_telemetry_subscriptions_request import (
    GetTelemetrySubscriptionsRequest,
)
from odradek.wire.generated.get_telemetry_subscriptions_response import (
    GetTelemetrySubscriptionsResponse,
)
from odradek.wire.generated.push_telemetry_request import PushTelemetryRequest
from odradek.wire.generated.push_telemetry_response import PushTelemetryResponse

INTERVAL_MS = 10_000
ID = bytes(range(16))
PREFIX = "org.apache.kafka."


class Lab:
    """A client's telemetry, and a broker that answers by hand."""

    def __init__(self, **options):
        draw = random.Random(3)
        self.routes = Routes(lambda: draw.getrandbits(31))
        self.queue_times = Spread()
        self.meter = ProducerMeter(self.queue_times, "payments")
        self.now = 1_000
        self.telemetry = Telemetry(
            self.routes, self.meter, lambda: 1_700_000_000_000 + self.now, 30_000,
            **{"is_on": True, **options},
        )  # fmt: off
        self.routes.has_answered = True

    def ask(self):
        (ask,) = self.telemetry.poll(self.now)
        assert ask.link is None
        assert self.telemetry.poll(self.now) == []
        return ask

    def subscribe(self, metrics=("*",), **options):
        ask = self.ask()
        assert isinstance(ask.request, GetTelemetrySubscriptionsRequest)
        ask.on_answer(
            GetTelemetrySubscriptionsResponse(
                client_instance_id=ID,
                subscription_id=7,
                push_interval_ms=INTERVAL_MS,
                requested_metrics=list(metrics),
                **options,
            ),
            self.now,
        )
        return ask.request

    def wait(self):
        """Let the time pass until something is due. Return how long it took."""
        assert self.telemetry.poll(self.now) == []
        waited = self.telemetry.next_deadline_ms - self.now
        self.now += waited
        return waited

    def push(self):
        ask = self.ask()
        request = ask.request
        assert isinstance(request, PushTelemetryRequest)
        assert (request.client_instance_id, request.subscription_id) == (ID, 7)
        return ask

    def numbers(self, ask):
        data = decompress(ask.request.compression_type, ask.request.metrics, 1 << 20)
        return {
            (each.name.removeprefix(PREFIX), each.attributes): each
            for each in otlp.points(bytes(data))
        }


def answer(ask, lab, code=0):
    ask.on_answer(PushTelemetryResponse(error_code=code), lab.now)


def test_pushes_come_at_their_times_and_say_what_has_changed():
    lab = Lab()
    for _ in range(3):
        lab.meter.opened()
    lab.queue_times.add(4)
    lab.queue_times.add(8)
    assert lab.subscribe(delta_temporality=True).client_instance_id == bytes(16)
    assert INTERVAL_MS // 2 <= lab.wait() <= INTERVAL_MS * 3 // 2
    ask = lab.push()
    numbers = lab.numbers(ask)
    total = numbers["producer.connection.creation.total", ()]
    assert (total.value, total.is_delta) == (3, True)
    assert numbers["producer.record.queue.time.avg", ()].value == 6
    assert numbers["producer.record.queue.time.max", ()].value == 8
    answer(ask, lab)
    lab.meter.opened()
    lab.meter.answered(4, GetTelemetrySubscriptionsRequest(), PushTelemetryResponse(), 12)
    assert lab.wait() == INTERVAL_MS
    ask = lab.push()
    numbers = lab.numbers(ask)
    assert numbers["producer.connection.creation.total", ()].value == 1
    assert numbers["producer.node.request.latency.avg", (("node_id", "node-4"),)].value == 12
    assert numbers["producer.record.queue.time.max", ()].value == 0
    assert not ask.request.terminating


def test_without_deltas_totals_grow():
    lab = Lab()
    lab.meter.opened()
    lab.subscribe()
    lab.wait()
    answer(lab.push(), lab)
    lab.meter.opened()
    lab.wait()
    total = lab.numbers(lab.push())["producer.connection.creation.total", ()]
    assert (total.value, total.is_delta) == (2, False)


def test_only_what_is_asked_for_is_sent():
    lab = Lab()
    lab.subscribe([PREFIX + "producer.record", PREFIX + "consumer."])
    lab.wait()
    names = {name for name, _ in lab.numbers(lab.push())}
    assert names == {"producer.record.queue.time.avg", "producer.record.queue.time.max"}


def test_a_subscription_without_metrics_is_asked_for_again():
    lab = Lab()
    lab.subscribe([])
    assert lab.telemetry.state == TelemetryState.ASKING
    assert lab.wait() == INTERVAL_MS
    assert lab.subscribe().client_instance_id == ID
    assert lab.telemetry.state == TelemetryState.PUSHING


@pytest.mark.parametrize("codecs", [[4, 3], [9, 1], [2], [0]])
def test_the_first_codec_that_is_known_is_used(codecs):
    lab = Lab()
    lab.subscribe(accepted_compression_types=codecs)
    lab.wait()
    ask = lab.push()
    assert ask.request.compression_type == next(each for each in codecs if each in list(Codec))
    assert lab.numbers(ask)
    answer(ask, lab, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    lab.subscribe(accepted_compression_types=codecs)  # at once
    lab.wait()
    assert lab.push().request.compression_type == (3 if codecs == [4, 3] else 0)


@pytest.mark.parametrize(
    ("code", "pause_ms"),
    [
        (ErrorCode.INVALID_REQUEST, None),
        (ErrorCode.INVALID_RECORD, None),
        (ErrorCode.UNSUPPORTED_VERSION, None),
        (ErrorCode.UNKNOWN_SERVER_ERROR, None),
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0),
        (ErrorCode.TELEMETRY_TOO_LARGE, INTERVAL_MS),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, INTERVAL_MS),
    ],
)
def test_errors_of_a_push(code, pause_ms):
    lab = Lab()
    lab.subscribe()
    lab.wait()
    answer(lab.push(), lab, code)
    if pause_ms is None:
        assert lab.telemetry.state == TelemetryState.OFF
        assert lab.telemetry.poll(lab.now + 10**9) == []
        return
    if pause_ms:
        assert lab.wait() == pause_ms
    lab.subscribe()


def test_requests_without_a_response():
    lab = Lab()
    lab.ask().on_error(DisconnectedError("lost"), lab.now)
    assert lab.wait() == INTERVAL_MS_DEFAULT
    lab.subscribe()
    lab.wait()
    lab.push().on_error(DisconnectedError("lost"), lab.now)
    assert lab.wait() == INTERVAL_MS
    answer(lab.push(), lab)
    lab = Lab()
    lab.ask().on_error(UnsupportedVersionError("no such API"), lab.now)
    assert lab.telemetry.state == TelemetryState.OFF


@pytest.mark.parametrize("when", ["between", "in flight", "asking", "off"])
def test_the_last_push(when):
    lab = Lab(is_on=when != "off")
    if when not in ("asking", "off"):
        lab.subscribe()
    if when == "in flight":
        lab.wait()
        earlier = lab.push()
    lab.telemetry.terminate()
    if when in ("asking", "off"):
        assert lab.telemetry.has_ended()
        assert lab.telemetry.poll(lab.now) == []
        return
    ask = lab.push()
    assert ask.request.terminating
    assert not lab.telemetry.has_ended()
    if when == "in flight":
        answer(earlier, lab)
        assert not lab.telemetry.has_ended()
    answer(ask, lab)
    assert lab.telemetry.has_ended()
    assert lab.telemetry.poll(lab.now + 10**9) == []


def test_before_a_broker_has_answered_nothing_is_sent():
    lab = Lab()
    lab.routes.has_answered = False
    assert lab.telemetry.poll(lab.now) == []
    assert not lab.telemetry.is_active


def test_a_meter_without_a_kind_has_no_metrics():
    with pytest.raises(NotImplementedError):
        ClientMeter().samples(0)


# -- with a broker ------------------------------------------------------------------------------


@pytest.fixture
def broker():
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Broker(topics={"t": 1}, settings=settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            resource = Resource(ResourceType.CLIENT_METRICS, "all")
            changes = [Change("metrics", "*"), Change("interval.ms", "100")]
            admin.incremental_alter_configs({resource: changes})
        until(lambda: broker.node.broker.client_telemetry.machine.has_subscriptions)
        yield broker


@pytest.fixture
def pushes(broker, monkeypatch):
    """What clients push: for each the request, the software of the client, and the numbers."""
    found = []
    telemetry = broker.node.broker.client_telemetry
    push = telemetry.push

    def note(context, request, now_ms):
        data = decompress(request.compression_type, request.metrics, 1 << 20)
        numbers = {each.name.removeprefix(PREFIX): each.value for each in otlp.points(bytes(data))}
        found.append((request, context.peer.software_name, numbers))
        push(context, request, now_ms)

    monkeypatch.setattr(telemetry, "push", note)
    return found


def check(pushes):
    """Each client has pushed again and again, and said at its end that it ends."""
    by_client = {}
    for request, software, numbers in pushes:
        assert software == "odradek"
        by_client.setdefault(request.client_instance_id, []).append((request, numbers))
    assert len(by_client) == 2
    kinds = set()
    for some in by_client.values():
        assert [request.terminating for request, _ in some] == [False] * (len(some) - 1) + [True]
        (kind,) = {name.partition(".")[0] for _, numbers in some for name in numbers}
        kinds.add(kind)
        assert any(numbers[f"{kind}.connection.creation.total"] for _, numbers in some)
        assert f"{kind}.node.request.latency.max" in some[-1][1]
        if kind == "consumer":
            assigned = "consumer.coordinator.assigned.partitions"
            assert max(numbers[assigned] for _, numbers in some) == 1
            rebalances = "consumer.coordinator.rebalance.latency.total"
            assert any(numbers[rebalances] for _, numbers in some)
    assert kinds == {"producer", "consumer"}


GROUP = {"group_id": "g", "auto_offset_reset": "earliest"}


def test_the_blocking_clients_push_also_while_they_are_idle(broker, pushes):
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with Producer(settings) as producer, Consumer(settings, **GROUP) as consumer:
        consumer.subscribe(["t"])
        producer.send("t", b"1").wait(60)
        assert next(iter(consumer)).value == b"1"
        before = len(pushes)
        until(lambda: len(pushes) > before + 8)
    check(pushes)


def test_the_clients_of_asyncio_push_also_while_they_are_idle(broker, pushes):
    async def run():
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        async with aio.Producer(settings) as producer, aio.Consumer(settings, **GROUP) as consumer:
            consumer.subscribe(["t"])
            await (await producer.send("t", b"1"))
            assert (await anext(aiter(consumer))).value == b"1"
            before = len(pushes)
            async with asyncio.timeout(60):
                while len(pushes) <= before + 8:
                    await asyncio.sleep(0.05)

    asyncio.run(run())
    check(pushes)


def test_a_client_that_is_told_so_pushes_nothing(broker, pushes):
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.metrics.push": False}
    with Producer(settings) as producer:
        producer.send("t", b"1").wait(60)
    assert pushes == []
    assert not broker.node.broker.client_telemetry.machine.instances
