"""A client that has lost its brokers begins again with the bootstrap addresses (KIP-899, KIP-1102)."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from tests.client.listening import Listening, shut_down

from odradek.client import Admin, Consumer, Producer, aio
from odradek.client.core.group_protocol import encode_assignment
from odradek.client.core.routes import Recovery, Routes
from odradek.client.errors import BrokerError, NotDeliveredError, UnreachableError
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse, MetadataResponseBroker
from odradek.wire.generated.offset_fetch_request import OffsetFetchRequest
from odradek.wire.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.wire.generated.sync_group_request import SyncGroupRequest
from odradek.wire.generated.sync_group_response import SyncGroupResponse

METADATA = MetadataRequest.API_KEY
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


class Entrance(Listening):
    """An address that stays, and leads to a broker wherever it is now."""

    def __init__(self):
        super().__init__()
        self.broker_port = 0

    def _serve(self, connection):
        with connection:
            try:
                inside = socket.create_connection(("127.0.0.1", self.broker_port))
            except OSError:
                return
            with inside:
                back = self._spawn(self._copy, inside, connection)
                self._copy(connection, inside)
                back.join()

    @staticmethod
    def _copy(one, other):
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass  # the other direction has ended both
        shut_down(one)
        shut_down(other)


class Moving:
    """A broker that gets another address when it is moved."""

    def __init__(self, data):
        self._data = data
        self.entrance = Entrance()
        self.entrance.start()
        self._broker = None
        self._start()

    def _start(self):
        self._broker = Broker(settings=SETTINGS, data=self._data)
        self._broker.start()
        self.entrance.broker_port = self._broker.port

    def create_topics(self, topics):
        self._broker.create_topics(topics)

    def move(self):
        before = self._broker.port
        self._broker.close()
        with socket.create_server(("127.0.0.1", before)) as taken:  # another program has it now
            assert taken.fileno() >= 0
            self._start()
        assert self._broker.port != before

    def close(self):
        self._broker.close()
        self.entrance.stop()


@pytest.fixture
def moving(tmp_path):
    moving = Moving(str(tmp_path))
    yield moving
    moving.close()


def settings(moving):
    return {
        "bootstrap.servers": moving.entrance.address,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
    }


GROUP = {"group_id": "g", "auto_offset_reset": "earliest", "group_protocol": "consumer"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_all_addresses_change(moving, protocol):
    moving.create_topics({"t": 1})
    group = {**GROUP, "group_protocol": protocol}
    with (
        Producer(settings(moving)) as producer,
        Consumer(settings(moving), **group) as consumer,
        Admin(settings(moving)) as admin,
    ):
        consumer.subscribe(["t"])
        records = iter(consumer)
        for number in range(3):
            producer.send("t", b"%d" % number).wait(60)
            assert next(records).value == b"%d" % number
            assert list(admin.describe_consumer_groups(["g"])) == ["g"]
            moving.move()
        consumer.commit()
        assert consumer.committed(("t", 0))["t", 0].offset == 3


def test_all_addresses_change_with_asyncio(moving):
    moving.create_topics({"t": 1})

    async def run():
        async with (
            aio.Producer(settings(moving)) as producer,
            aio.Consumer(settings(moving), **GROUP) as consumer,
        ):
            consumer.subscribe(["t"])
            records = aiter(consumer)
            for number in range(3):
                await (await producer.send("t", b"%d" % number))
                assert (await anext(records)).value == b"%d" % number
                await asyncio.to_thread(moving.move)
            await consumer.commit()

    asyncio.run(asyncio.wait_for(run(), 100))


def test_without_recovery_only_the_known_brokers_are_tried(moving):
    moving.create_topics({"t": 1})
    short = {"delivery_timeout_ms": 5_000, "request_timeout_ms": 1_000}
    producer = Producer(settings(moving), metadata_recovery_strategy="none", **short)
    producer.send("t", b"0").wait(60)
    moving.move()
    producer.send("t", b"1")
    with pytest.raises(NotDeliveredError):
        producer.flush()
    producer.close()
    with Admin(settings(moving), metadata_recovery_strategy="none") as admin:
        admin.list_topics()
        moving.move()
        with pytest.raises(UnreachableError):
            admin.list_topics()


def begin_again(fake):
    """Return answers to Metadata: the second one says that the client must begin again."""
    said = []

    def answer(request):
        said.append(request)
        if len(said) == 2:
            return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        return fake.metadata()

    return said, answer


def test_a_broker_asks_the_client_to_begin_again(fake):
    said, fake.answers[METADATA] = begin_again(fake)
    fake.topics["t"] = 1
    with Consumer(bootstrap_servers=fake.address, metadata_max_age_ms=50) as consumer:
        fake.answers[FetchRequest.API_KEY] = lambda _: FetchResponse()
        consumer.assign([("t", 0, 0)])
        deadline = time.monotonic() + 60
        while len(said) < 3:
            consumer.poll(0.05)
            assert time.monotonic() < deadline
    said, fake.answers[METADATA] = begin_again(fake)
    with Admin(bootstrap_servers=fake.address) as admin:
        assert [each.name for each in admin.list_topics()] == ["t"]
        assert [each.name for each in admin.list_topics()] == ["t"]
    assert len(said) >= 3


def nodes(port):
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h", port=port)])


def test_after_long_without_metadata_the_client_starts_over():
    routes = Routes(lambda: 1 << 30, recovery=Recovery(trigger_ms=5_000))
    routes.topic("t", 0)
    (ask,) = routes.poll(0)
    ask.on_answer(nodes(1), 0)  # t is missing: wanted again
    now = 0
    for now in range(0, 5_000, 100):
        for ask in routes.poll(now):
            ask.on_error(BrokerError(ErrorCode.REQUEST_TIMED_OUT), now)
        assert not routes.must_start_over
    assert routes.next_deadline_ms is not None
    assert routes.next_deadline_ms <= 5_100
    routes.poll(5_100)
    assert routes.must_start_over
    routes.start_over()
    assert not routes.must_start_over
    assert routes.node(1) is None


@pytest.mark.parametrize("recovery", [Recovery(rebootstraps=False, trigger_ms=10), Recovery()])
def test_a_client_that_has_metadata_or_no_recovery_does_not_start_over(recovery):
    routes = Routes(lambda: 1 << 30, recovery=recovery)
    routes.topic("t", 0)
    for now in range(0, 250_000, 1_000):
        for ask in routes.poll(now):
            ask.on_error(BrokerError(ErrorCode.REQUEST_TIMED_OUT), now)
    assert not routes.must_start_over


def test_settings_of_recovery():
    for name, value, text in (
        ("strategy", "always", "must be one of rebootstrap, none"),
        ("rebootstrap.trigger.ms", -1, "at least 0"),
    ):
        with pytest.raises(ValueError, match=text):
            Producer({"bootstrap.servers": "h:1", f"metadata.recovery.{name}": value})


def test_a_coordinator_goes_silent_after_a_join(fake):
    """The assignment is asked for again on a new connection when `request.timeout.ms` is over."""
    fake.topics["t"] = 1
    fake.answers[JoinGroupRequest.API_KEY] = lambda request: JoinGroupResponse(
        generation_id=len(fake.requests[JoinGroupRequest.API_KEY]),
        protocol_type="consumer",
        protocol_name="range",
        leader="other",
        member_id=request.member_id or "m",
    )
    fake.answers[SyncGroupRequest.API_KEY] = [
        lambda _: None,
        lambda _: SyncGroupResponse(assignment=encode_assignment([("t", 0)])),
    ]
    fake.answers[OffsetFetchRequest.API_KEY] = lambda request: OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id="g",
                topics=[
                    OffsetFetchResponseTopics(
                        name="t", partitions=[OffsetFetchResponsePartitions(committed_offset=0)]
                    )
                ],
            )
        ]
    )
    fake.answers[FetchRequest.API_KEY] = lambda _: FetchResponse()
    fake.answers[HeartbeatRequest.API_KEY] = lambda _: HeartbeatResponse()
    fake.answers[LeaveGroupRequest.API_KEY] = lambda _: LeaveGroupResponse()
    with Consumer(
        bootstrap_servers=fake.address,
        group_id="g",
        request_timeout_ms=500,
        partition_assignment_strategy="range",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe(["t"])
        deadline = time.monotonic() + 60
        while not consumer.assignment:
            began = time.monotonic()
            assert consumer.poll(0.1) is None
            assert time.monotonic() - began < 30
            assert time.monotonic() < deadline
        generations = [each.generation_id for each in fake.requests[SyncGroupRequest.API_KEY]]
        assert generations == [1, 2]
