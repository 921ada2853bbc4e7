"""The controller loses and regains the leadership of a quorum with several voters."""

import asyncio

import pytest

from odradek.broker.clients.request_context import RequestContext
from odradek.core.controller.partition_index import PartitionIndex
from odradek.log.errors import DiskFull
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.create_topics_request import CreateTopicsRequest

from .harness import FEATURES
from .quorum import CLUSTER_ID, run
from .test_broker_decisions import registration
from .test_topic_decisions import topic

CONTEXT = RequestContext(Peer("127.0.0.1", 1, "PLAINTEXT", "127.0.0.1", 2), 0, 4, 0, None, 0)
"""The context of a request from another node."""


def create(*names, partitions=1):
    return CreateTopicsRequest(topics=[topic(name, partitions, 2) for name in names])


async def answered(quorum, controller, request, context=CONTEXT):
    """Submit a request and commit its records."""
    asked = asyncio.get_running_loop().create_task(
        controller.submit(None if context is None else context, request)
    )
    await settle()
    quorum.commit()
    return await asked


async def settle():
    for _ in range(3):
        await asyncio.sleep(0)


def pending(controller, request):
    return asyncio.get_running_loop().create_task(controller.submit(None, request))


async def join(quorum, controller, *brokers):
    """Register and unfence brokers."""
    for broker in brokers:
        request = registration(
            broker_id=broker,
            cluster_id=CLUSTER_ID,
            incarnation_id=bytes(15) + bytes((broker,)),
            log_dirs=[bytes(14) + bytes((7, broker))],
        )
        assert {each.name for each in request.features} <= set(FEATURES)
        await answered(quorum, controller, request)
        await beat(quorum, controller, broker)


async def beat(quorum, controller, *brokers):
    for broker in brokers:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=controller.image.cluster.brokers[broker].epoch,
            current_metadata_offset=controller.image.offset,
        )
        await answered(quorum, controller, request)


async def live(quorum, controller, seconds, *brokers):
    """Let the time pass while these brokers send heartbeats."""
    for _ in range(seconds):
        await beat(quorum, controller, *brokers)
        await asyncio.sleep(1)
        quorum.commit()


def names(image):
    return sorted(image.topics.by_name)


def fenced(image):
    return sorted(each.id for each in image.cluster.brokers.values() if each.fenced)


def index_of(controller):
    return controller._machine._index.contents()


@run
async def test_decisions_that_were_not_committed_are_forgotten(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    await answered(quorum, first, create("kept"))
    committed = first.image
    lost = [pending(first, create("lost", partitions=3)), pending(first, create("also"))]
    await settle()
    assert names(first.image) == ["also", "kept", "lost"]
    assert not any(each.done() for each in lost)
    second = quorum.elect(2)  # its log has none of these records
    assert names(second.image) == ["kept"]
    for each in lost:
        with pytest.raises(ApiError) as raised:
            await each
        assert raised.value.code is ErrorCode.NOT_CONTROLLER
    assert not first.is_active
    assert first.image is quorum[1].loader.image
    assert first.image.topics == committed.topics
    with pytest.raises(ApiError) as raised:
        await first.submit(None, create("after"))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    await answered(quorum, second, create("other", partitions=2))
    again = quorum.elect(1)
    assert again is first
    assert names(first.image) == ["kept", "other"]
    assert index_of(first) == PartitionIndex(quorum[2].loader.image.topics).contents()
    await answered(quorum, first, create("lost"))
    assert names(quorum[3].loader.image) == ["kept", "lost", "other"]


@run
async def test_decisions_that_reach_the_next_leader_are_committed_by_it(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    asked = pending(first, create("a"))
    await settle()
    quorum.replicate(2)
    second = quorum.elect(2)
    with pytest.raises(ApiError) as raised:
        await asked
    assert raised.value.code is ErrorCode.NOT_CONTROLLER, "the client must ask again"
    assert names(second.image) == names(first.image) == ["a"]
    response = await answered(quorum, second, create("a"))
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@run
async def test_a_leader_of_a_later_epoch_forgets_what_it_had_not_committed(quorum):
    """The controller is notified that it leads again, but not that it had stopped leading."""
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    asked = pending(first, create("lost"))
    await settle()
    member = quorum[1]
    del member.log.batches[-1:]
    member.tell(member.leader._replace(epoch=2))
    await settle()
    assert first.is_active
    assert names(first.image) == []
    with pytest.raises(ApiError) as raised:
        await asked
    assert raised.value.code is ErrorCode.NOT_CONTROLLER


@run
async def test_records_of_another_leader_complete_no_request(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    pending(first, create("lost"))
    await settle()
    quorum.cut.add(1)
    second = quorum.elect(2)
    await answered(quorum, second, create("other"))
    quorum.cut.clear()
    with pytest.raises(AssertionError, match="announced before its records"):
        quorum.commit()


@run
async def test_a_controller_that_never_was_active_stays_pending(quorum):
    """Another node becomes the leader before the first records of this node are committed."""
    quorum.epoch = 1
    member = quorum[1]
    member.tell(member.leader._replace(leader_id=1, epoch=1))
    waiting = asyncio.get_running_loop().create_task(member.controller.wait_active())
    await settle()
    assert member.controller.is_active
    quorum.elect(2)
    quorum.commit()
    await settle()
    assert not member.controller.is_active
    assert not waiting.done()
    quorum.elect(1)
    await settle()
    quorum.commit()
    await waiting


@run
async def test_the_next_controller_fences_only_who_is_silent_to_it(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2, 3)
    await live(quorum, first, 8, 2, 3)
    second = quorum.elect(2)
    await live(quorum, second, 8, 2, 3)
    assert fenced(second.image) == [], "broker 1 is silent for 16 s, but not to this controller"
    await live(quorum, second, 2, 2, 3)
    assert fenced(second.image) == [1]
    assert fenced(quorum[3].loader.image) == [1]


@run
async def test_a_controller_that_lost_the_leadership_fences_nobody(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    second = quorum.elect(2)
    before = quorum[1].appended
    await live(quorum, second, 30, 1, 2)
    assert quorum[1].appended == before
    assert fenced(second.image) == []


@run
async def test_no_op_records_are_written_while_nothing_else_is(quorum):
    quorum.elect(1)
    quorum.commit()
    before = quorum[1].log.end_offset
    for _ in range(100):
        await asyncio.sleep(0.05)
        quorum.commit()
    assert 9 <= quorum[1].log.end_offset - before <= 10, "every half second"


@run
async def test_a_silent_broker_with_many_partitions_is_fenced_in_several_batches(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2, 3)
    await answered(quorum, first, create("a", partitions=300))
    member = quorum[1]
    held = len(list(first._machine._index.in_isr(3)))
    assert held > 100
    await live(quorum, first, 8, 1, 2)
    member.batch_bytes_max = 2_000
    before = member.appended
    await live(quorum, first, 2, 1, 2)
    assert fenced(first.image) == [3]
    assert member.appended - before > 5
    assert not first._machine._index.leads(3)
    assert names(quorum[2].loader.image) == ["a"]
    with pytest.raises(ApiError) as raised:
        await answered(quorum, first, create("b", partitions=300))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION, "a topic is created at once or not"
    assert names(first.image) == ["a"]


@run
async def test_a_full_disk_postpones_the_fencing(quorum):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    await live(quorum, first, 8, 2)
    quorum[1].disk_error = DiskFull("no space")
    await asyncio.sleep(3)
    assert fenced(first.image) == []
    quorum[1].disk_error = None
    await asyncio.sleep(1.1)
    assert 1 in fenced(first.image)


@run
async def test_a_broker_of_this_process_registers_although_its_last_incarnation_was_unfenced(
    quorum,
):
    first = quorum.elect(1)
    await join(quorum, first, 1, 2)
    quorum.elect(2)
    quorum.elect(1)
    own = registration(cluster_id=CLUSTER_ID, log_dirs=[bytes(14) + b"\x07\x01"])
    with pytest.raises(ApiError) as raised:
        await answered(quorum, first, own)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    response = await answered(quorum, first, own, context=None)
    assert response.broker_epoch == first.image.cluster.brokers[1].epoch
