"""The broker of a node registers, sends heartbeats, and stops."""

import asyncio
import logging
import random

import pytest

from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.core.metadata.registrations import Endpoint
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest

from .harness import FEATURES
from .quorum import CLUSTER_ID, run

INTERVAL_MS = 2_000
ENDPOINT = Endpoint("PLAINTEXT", "localhost", 9092, 0)


async def started(quorum, interval_ms=INTERVAL_MS):
    """The lifecycle of the broker on node 1, whose controller is active."""
    quorum.commit_at_once()
    controller = quorum.elect(1)
    await controller.wait_active()
    lifecycle = BrokerLifecycle(
        LocalControllerChannel(controller),
        node_id=1,
        cluster_id=CLUSTER_ID,
        random_bytes=random.Random(1).randbytes,
        supported_features=FEATURES,
    )
    await lifecycle.register([ENDPOINT], [bytes(14) + b"\x07\x01"], None, -1)
    assert is_fenced(controller)
    await lifecycle.unfence(controller.image.offset)
    assert not is_fenced(controller)
    lifecycle.start_heartbeats(interval_ms, lambda: controller.image.offset)
    return controller, lifecycle


def is_fenced(controller):
    return controller.image.cluster.brokers[1].fenced


@run
async def test_a_broker_that_sends_heartbeats_is_not_fenced(quorum):
    controller, lifecycle = await started(quorum)
    for _ in range(60):
        await asyncio.sleep(1)
        assert not is_fenced(controller)
    lifecycle.stop_heartbeats()
    await asyncio.sleep(8.9)
    assert not is_fenced(controller)
    await asyncio.sleep(3)
    assert is_fenced(controller)


@run
async def test_a_broker_that_was_fenced_returns_with_its_next_heartbeat(quorum):
    controller, lifecycle = await started(quorum)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=lifecycle.epoch, want_fence=True)
    await controller.submit(None, request)
    assert is_fenced(controller)
    await asyncio.sleep(2.1)
    assert not is_fenced(controller)


@run
async def test_no_heartbeat_follows_the_end(quorum):
    controller, lifecycle = await started(quorum)
    await asyncio.sleep(5)
    await lifecycle.shut_down(controller.image.offset)
    assert is_fenced(controller)
    await asyncio.sleep(30)
    assert is_fenced(controller)
    with pytest.raises(ApiError) as raised:
        await lifecycle.unfence(-1)
    assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE, "it has not read its registration"


def test_heartbeats_that_are_refused_are_logged_once(caplog):
    @run
    async def histories(quorum):
        controller, lifecycle = await started(quorum)
        quorum.elect(2)
        await asyncio.sleep(20)
        refused = [each.getMessage() for each in caplog.records if "heartbeats" in each.message]
        assert len(refused) == 1, "NOT_CONTROLLER"
        quorum.elect(1)
        await asyncio.sleep(20)
        assert not is_fenced(controller)
        await controller.submit(None, UnregisterBrokerRequest(broker_id=1))
        await asyncio.sleep(20)
        refused = [each.getMessage() for each in caplog.records if "heartbeats" in each.message]
        assert len(refused) == 2
        assert "is not registered" in refused[1]
        lifecycle.stop_heartbeats()

    with caplog.at_level(logging.WARNING, logger="odradek.broker"):
        histories()


class Unreachable:
    """The channel to a controller that can be out of reach."""

    def __init__(self, controller):
        self.channel = LocalControllerChannel(controller)
        self.is_cut = False

    async def submit(self, context, request):
        if self.is_cut:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        return await self.channel.submit(context, request)


FAILED = bytes(14) + b"\x07\x02"


async def started_with_two_directories(quorum):
    quorum.commit_at_once()
    controller = quorum.elect(1)
    await controller.wait_active()
    channel, offline = Unreachable(controller), []
    lifecycle = BrokerLifecycle(
        channel,
        node_id=1,
        cluster_id=CLUSTER_ID,
        random_bytes=random.Random(1).randbytes,
        supported_features=FEATURES,
        offline_directories=lambda: offline,
    )
    await lifecycle.register([ENDPOINT], [bytes(14) + b"\x07\x01", FAILED], None, -1)
    await lifecycle.unfence(controller.image.offset)
    lifecycle.start_heartbeats(INTERVAL_MS, lambda: controller.image.offset)
    return controller, channel, lifecycle, offline


@run
async def test_a_failed_directory_is_reported_within_the_time(quorum):
    controller, channel, lifecycle, offline = await started_with_two_directories(quorum)
    stops = []
    channel.is_cut = True
    offline.append(FAILED)
    lifecycle.report_failed_directory(FAILED, 5_000, lambda: stops.append("stop"))
    await asyncio.sleep(4.5)
    channel.is_cut = False  # the heartbeat after 6 s would be too late
    await asyncio.sleep(0.1)
    lifecycle.send_soon()
    await asyncio.sleep(10)
    assert stops == []
    assert FAILED not in controller.image.cluster.brokers[1].directories
    lifecycle.stop_heartbeats()


@run
async def test_a_broker_stops_if_it_cannot_report_a_failed_directory(quorum):
    controller, channel, lifecycle, offline = await started_with_two_directories(quorum)
    stops = []
    channel.is_cut = True
    offline.append(FAILED)
    lifecycle.report_failed_directory(FAILED, 5_000, lambda: stops.append("stop"))
    await asyncio.sleep(4.9)
    assert stops == []
    await asyncio.sleep(0.2)
    assert stops == ["stop"]
    assert FAILED in controller.image.cluster.brokers[1].directories
    lifecycle.stop_heartbeats()


@run
async def test_a_broker_that_stops_waits_for_no_report(quorum):
    _, channel, lifecycle, offline = await started_with_two_directories(quorum)
    stops = []
    channel.is_cut = True
    offline.append(FAILED)
    lifecycle.report_failed_directory(FAILED, 5_000, lambda: stops.append("stop"))
    lifecycle.stop_heartbeats()
    lifecycle.report_failed_directory(bytes(14) + b"\x07\x03", 5_000, lambda: stops.append("stop"))
    await asyncio.sleep(10)
    assert stops == []
