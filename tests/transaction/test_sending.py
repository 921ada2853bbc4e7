"""Markers and questions on their way to other brokers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.broker.test_broker_channels import registered
from tests.coordinator.support import image_of

from odradek.broker.coordinator.marker_sender import MarkerSender
from odradek.broker.coordinator.membership import RemoteMembership
from odradek.broker.peers.channels import BrokerUnreachable, UnsupportedByBroker
from odradek.core.metadata.image import ClusterImage
from odradek.core.transaction.markers import Marker
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.generated.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

OK = ErrorCode.NONE
PLACE = TopicPartition("orders", 0)
HERE, THERE = 1, 2


class Channels:
    """Answers every request with success, unless there is a failure."""

    def __init__(self):
        self.asked = []
        self.failure = None
        self.image = image_of({"orders": 1})

    async def ask(self, broker_id, request, version_min):
        self.asked.append((broker_id, request, version_min))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if hasattr(request, "markers"):
            partition = WritableTxnMarkerPartitionResult(partition_index=0)
            topic = WritableTxnMarkerTopicResult(name="orders", partitions=[partition])
            return WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(producer_id=each.producer_id, topics=[topic])
                    for each in request.markers
                ]
            )
        partition = AddPartitionsToTxnPartitionResult(partition_index=0)
        topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=[partition])
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id, topic_results=[topic]
                )
                for each in request.transactions
            ]
        )

    def elect(self, leader, fenced=False):
        """`leader` coordinates all transactional ids."""
        image = image_of({"__transaction_state": 3})
        topic = image.topics.by_name["__transaction_state"]
        for index, each in topic.partitions.items():
            topic.partitions[index] = each._replace(leader=leader)
        brokers = {leader: registered(9092, fenced=fenced)}
        self.image = replace(image, cluster=ClusterImage(brokers))


class Writer:
    """Writes the markers for this broker's partitions."""

    def write(self, marker):
        return dict.fromkeys(marker.partitions, OK)


def run(test):
    def runner():
        async def go():
            unhandled = []
            asyncio.get_running_loop().set_exception_handler(
                lambda loop, context: unhandled.append(context)
            )
            await test(Channels(), unhandled)

        asyncio.run(go())

    runner.__name__ = test.__name__
    return runner


def sender_over(channels):
    return MarkerSender(HERE, Writer(), channels, asyncio.get_running_loop())


def membership_over(channels):
    return RemoteMembership(HERE, channels, asyncio.get_running_loop())


def marker(producer_id):
    return Marker(producer_id, 0, 4, True, 2, [PLACE])


def ask(membership, name="shop", adds=True):
    return membership.ask(name, 1000, 0, {"orders": frozenset((0,))}, adds=adds)


# -- markers --------------------------------------------------------------------------------------


@run
async def test_markers_for_this_broker_are_not_sent(channels, unhandled):
    assert sender_over(channels).send(HERE, 0, marker(7)) == {PLACE: OK}
    await asyncio.sleep(0.01)
    assert channels.asked == []


@run
async def test_markers_of_one_iteration_are_sent_together(channels, unhandled):
    sender = sender_over(channels)
    futures = [sender.send(THERE, 0, marker(7)), sender.send(THERE, 1, marker(8))]
    await asyncio.sleep(0)
    futures.append(sender.send(THERE, 1, marker(9)))
    assert await asyncio.gather(*futures) == [{PLACE: OK}] * 3
    assert [
        (broker_id, [each.producer_id for each in request.markers])
        for broker_id, request, _ in channels.asked
    ] == [(THERE, [7, 8]), (THERE, [9])]
    assert await sender.send(THERE, 0, marker(7)) == {PLACE: OK}, "the next task"


@pytest.mark.parametrize("failure", [BrokerUnreachable("x"), UnsupportedByBroker("x")])
def test_markers_without_a_response_have_no_results(failure):
    @run
    async def test(channels, unhandled):
        sender = sender_over(channels)
        channels.failure = failure
        assert await sender.send(THERE, 0, marker(7)) == {}
        channels.failure = None
        assert await sender.send(THERE, 0, marker(7)) == {PLACE: OK}

    test()


@run
async def test_an_unexpected_error_loses_no_marker(channels, unhandled):
    sender = sender_over(channels)
    channels.failure = ValueError("a defect")
    assert await sender.send(THERE, 0, marker(7)) == {}
    channels.failure = None
    await asyncio.sleep(0)
    assert await sender.send(THERE, 0, marker(7)) == {PLACE: OK}
    while not unhandled:
        await asyncio.sleep(0)  # asyncio reports the error of the task
    assert isinstance(unhandled[0]["exception"], ValueError)


@run
async def test_markers_of_a_partition_that_moved_are_not_sent(channels, unhandled):
    sender = sender_over(channels)
    dropped, kept = sender.send(THERE, 0, marker(7)), sender.send(THERE, 1, marker(8))
    sender.drop(0)
    assert dropped.cancelled()
    assert await kept == {PLACE: OK}
    ((_, request, _),) = channels.asked
    assert [each.producer_id for each in request.markers] == [8]


# -- questions ------------------------------------------------------------------------------------


@run
async def test_questions_of_one_iteration_are_asked_together(channels, unhandled):
    channels.elect(THERE)
    membership = membership_over(channels)
    futures = [ask(membership), ask(membership, "other", adds=False)]
    assert await asyncio.gather(*futures) == [{PLACE: OK}] * 2
    ((broker_id, request, version_min),) = channels.asked
    assert broker_id == THERE
    assert [each.verify_only for each in request.transactions] == [False, True]
    assert version_min == 5
    assert await ask(membership, adds=False) == {PLACE: OK}, "the next task"
    assert channels.asked[-1][2] == 4


@run
async def test_a_producer_that_asks_again_gets_the_newer_answer(channels, unhandled):
    channels.elect(THERE)
    membership = membership_over(channels)
    first, second = ask(membership), ask(membership)
    assert first.result() == {PLACE: ErrorCode.NETWORK_EXCEPTION}
    assert await second == {PLACE: OK}


@run
async def test_a_coordinator_that_does_not_answer(channels, unhandled):
    channels.elect(THERE)
    membership = membership_over(channels)
    channels.failure = BrokerUnreachable("x")
    assert await ask(membership) == {PLACE: ErrorCode.NETWORK_EXCEPTION}
    channels.failure = UnsupportedByBroker("x")
    assert await ask(membership) == {PLACE: ErrorCode.UNSUPPORTED_VERSION}
    assert await ask(membership, adds=False) == {PLACE: OK}
    cancelled = ask(membership)
    cancelled.cancel()
    channels.failure = None
    assert await ask(membership) == {PLACE: OK}


@run
async def test_who_coordinates_is_in_the_metadata(channels, unhandled):
    membership = membership_over(channels)

    def refusal():
        with pytest.raises(ApiError) as refused:
            ask(membership)
        return refused.value.code

    assert refusal() is ErrorCode.COORDINATOR_NOT_AVAILABLE, "the topic does not exist"
    channels.elect(-1)
    channels.image.cluster.brokers.clear()
    assert refusal() is ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no leader"
    channels.elect(THERE, fenced=True)
    assert refusal() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    channels.elect(HERE)
    assert refusal() is ErrorCode.NOT_COORDINATOR, "this broker should know"
    channels.elect(THERE)
    assert await ask(membership) == {PLACE: OK}
