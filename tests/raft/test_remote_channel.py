"""A broker that is not a controller: an observer, and its channel to the active controller."""

import asyncio
import contextlib
import gc
import itertools
from types import SimpleNamespace

import pytest
from tests.control.test_topic_decisions import topic

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.controller.remote_channel import RemoteControllerChannel
from odradek.core.metadata.registrations import Endpoint
from odradek.core.raft.voters import Destination
from odradek.env.network import SocketNetwork
from odradek.env.randomness import system_random_bytes
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest

from .controllers import CLUSTER_ID, FEATURES, three_controllers
from .test_three_controllers import run

pytestmark = pytest.mark.cluster


def channel_to(find, **times):
    settings = {"timeout_ms": 60_000, "attempt_timeout_ms": 500, "retry_backoff_ms": 10, **times}
    return RemoteControllerChannel(
        find, SocketNetwork(), system_random_bytes, client_id="broker-4", **settings
    )


def create(name, timeout_ms=60_000):
    return CreateTopicsRequest(topics=[topic(name)], timeout_ms=timeout_ms)


def from_client(key, version, host="127.0.0.1"):
    peer = Peer(host, 5000, "PLAINTEXT", "127.0.0.1", 9092)
    return RequestContext(peer, key, version, 77, "a client", 0)


@contextlib.asynccontextmanager
async def broker(quorum, **times):
    """An observer, and its channel and lifecycle."""
    await quorum.active()
    observer = quorum.observer()
    await observer.start()
    channel = channel_to(lambda: observer.raft.controller, **times)
    lifecycle = BrokerLifecycle(
        channel,
        node_id=4,
        cluster_id=CLUSTER_ID,
        random_bytes=system_random_bytes,
        supported_features=FEATURES,
    )
    try:
        yield observer, channel, lifecycle
    finally:
        lifecycle.stop_heartbeats()
        channel.close()


async def join(quorum, observer, lifecycle):
    endpoint = Endpoint("PLAINTEXT", "localhost", 9092, 0)
    epoch = await lifecycle.register([endpoint], [bytes([4] * 16)], None, -1)
    await quorum.until(lambda: observer.loader.image.offset >= epoch)
    assert observer.raft.is_caught_up
    await lifecycle.unfence(observer.loader.image.offset)


def is_fenced(node):
    return node.loader.image.cluster.brokers[4].fenced


@run
@pytest.mark.slow("controllers are killed until each has led")
async def test_a_broker_goes_on_when_the_controller_changes(tmp_path):
    async with (
        three_controllers(
            tmp_path, broker_session_timeout_ms="2500", broker_heartbeat_interval_ms="200"
        ) as quorum,
        broker(quorum) as (observer, channel, lifecycle),
    ):
        await join(quorum, observer, lifecycle)
        lifecycle.start_heartbeats(200, lambda: observer.loader.image.offset)
        for round_number in range(2):
            first = await quorum.active()
            names = [f"t{round_number}-{each}" for each in range(5)]
            pending = [asyncio.create_task(channel.submit(None, create(each))) for each in names]
            await asyncio.sleep(0)
            await (first.kill() if round_number else first.stop())
            for answer in await asyncio.gather(*pending):
                code = answer.topics[0].error_code
                assert code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)
            second = await quorum.active()
            assert second is not first
            request = AllocateProducerIdsRequest(broker_id=4, broker_epoch=lifecycle.epoch)
            assert (await channel.submit(None, request)).producer_id_len == 1000
            await asyncio.sleep(3)  # more than a session: the heartbeats reach the new controller
            await quorum.until(lambda second=second: not is_fenced(second))
            await quorum.until(lambda names=names: set(names) <= observer_topics(observer))
            await first.start()
            await quorum.until_equal()
        lifecycle.stop_heartbeats()
        active = await quorum.active()
        await quorum.until(lambda: is_fenced(active))


def observer_topics(observer):
    return set(observer.loader.image.topics.by_name)


@run
async def test_forwarded_requests_of_each_version(tmp_path):
    async with three_controllers(tmp_path) as quorum, broker(quorum) as (observer, channel, life):
        await join(quorum, observer, life)
        for version in range(2, 8):
            context = from_client(19, version, "::1" if version % 2 else "127.0.0.1")
            answer = await channel.submit(context, create(f"v{version}"))
            assert [each.error_code for each in answer.topics] == [0]
        again = await channel.submit(from_client(19, 7), create("v7"))
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        described = await channel.submit(from_client(55, 2), DescribeQuorumRequest())
        assert described.error_code == 0


@run
async def test_a_standby_is_asked_until_the_time_is_over(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        standby = next(each for each in quorum.running if each is not active)
        address = Destination(standby.id, "127.0.0.1", quorum.ports[standby.id])
        channel = channel_to(lambda: address)
        for context in (None, from_client(19, 7)):
            # The time may end while a request is in flight.
            reasons = "not the active controller|no response in time"
            with pytest.raises(ApiError, match=reasons) as refused:
                await channel.submit(context, create("a", timeout_ms=200))
            assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert await quorum.until_equal() == []
        channel.close()


@run
async def test_the_timeout_of_one_client_does_not_end_the_requests_of_others(tmp_path):
    async with three_controllers(tmp_path) as quorum, broker(quorum) as (observer, channel, life):
        await join(quorum, observer, life)
        context = from_client(19, 7)

        async def be_impatient():
            for each in itertools.count():
                with contextlib.suppress(ApiError):
                    await channel.submit(context, create(f"impatient-{each}", 1))

        impatient = asyncio.create_task(be_impatient())
        for each in range(20):
            answer = await channel.submit(context, create(f"patient-{each}"))
            assert answer.topics[0].error_code == 0
        impatient.cancel()


@run
async def test_a_client_gets_an_answer_if_the_controller_hangs(tmp_path):
    """The connection goes on, because other requests may get their responses."""
    calls = []

    def call(*_):
        calls.append(asyncio.get_running_loop().create_future())
        return calls[-1]

    address = Destination(9, "127.0.0.1", 1)
    channel = channel_to(lambda: address, attempt_timeout_ms=50)
    client = SimpleNamespace(call=call, close=lambda: calls.append("closed"))
    channel._destination, channel._connect = address, lambda _: client
    channel._versions = SimpleNamespace(version=lambda _: 7)
    with pytest.raises(ApiError, match="no response in time") as refused:
        await channel.submit(None, create("a", timeout_ms=50))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    (future,) = calls
    assert future.cancelled()


@run
async def test_errors_of_whole_requests_are_raised(tmp_path):
    async with three_controllers(tmp_path) as quorum, broker(quorum) as (_, channel, _life):
        with pytest.raises(ApiError) as refused:
            await channel.submit(None, AllocateProducerIdsRequest(broker_id=9, broker_epoch=1))
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


@run
async def test_without_a_controller_the_request_times_out(tmp_path):
    channel = channel_to(lambda: None, timeout_ms=100)
    request = AllocateProducerIdsRequest(broker_id=9, broker_epoch=1)
    with pytest.raises(ApiError, match="not known") as refused:
        await channel.submit(None, request)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@run
async def test_nobody_waits_for_a_cancelled_request(tmp_path):
    async def hang(reader, writer):
        await reader.read()
        writer.close()

    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    address = Destination(9, "127.0.0.1", server.sockets[0].getsockname()[1])
    channel = channel_to(lambda: address)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await channel.submit(None, create("a"))
    channel.close()
    await asyncio.sleep(0.05)
    gc.collect()
    assert problems == []
    server.close()


@run
async def test_a_request_that_is_not_answered_goes_to_the_next_controller(tmp_path):
    """A controller that hangs keeps its connections open."""

    async def hang(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        port = server.sockets[0].getsockname()[1]
        addresses = [Destination(9, "127.0.0.1", port)]
        channel = channel_to(lambda: addresses[-1], attempt_timeout_ms=50)
        pending = asyncio.create_task(channel.submit(None, create("a")))
        await asyncio.sleep(0.2)
        assert not pending.done()
        addresses.append(Destination(active.id, "127.0.0.1", quorum.ports[active.id]))
        answer = await pending
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        channel.close()
    server.close()


@run
async def test_a_node_that_is_the_controller_again_gets_a_new_connection(tmp_path):
    """The client that was closed because another node was the controller is not used again."""
    connected = []
    again = asyncio.Event()

    async def hang(reader, writer):
        connected.append(writer)
        if len(connected) > 1:
            again.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    first = Destination(8, "127.0.0.1", server.sockets[0].getsockname()[1])
    other = Destination(9, "127.0.0.1", 1)
    found = [first]
    channel = channel_to(lambda: found[0] if len(found) == 1 else found.pop(0))
    pending = asyncio.create_task(channel.submit(None, create("a")))
    while not connected:
        await asyncio.sleep(0.01)
    found[:] = [other, first]
    await again.wait()
    pending.cancel()
    await asyncio.wait((pending,))
    channel.close()
    for each in connected:
        each.close()
        await each.wait_closed()
    server.close()
