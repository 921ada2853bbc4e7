"""AssignReplicasToDirs: brokers report the log directories of their replicas."""

import pytest

from odradek.core.metadata.registrations import NO_LEADER
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from odradek.wire.generated.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

from .harness import Controller, directory
from .test_broker_decisions import partition
from .test_topic_decisions import create, topic

FIRST, SECOND = directory(1), directory(9)


@pytest.fixture
def controller():
    """Broker 1 has two directories, so that it chooses the directory of a new replica."""
    controller = Controller()
    controller.register(1, directories=[FIRST, SECOND])
    controller.heartbeat(1)
    controller.join(2, 3)
    create(controller, topic("a", assignments={0: [1, 2], 1: [2, 3]}))
    create(controller, topic("b", assignments={0: [1]}))
    return controller


def assign(controller, *places, epoch=None):
    """Report (directory, topic, partition) of replicas on broker 1; return the error codes."""
    topics = controller.image.topics.by_name
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=controller.image.cluster.brokers[1].epoch if epoch is None else epoch,
        directories=[
            DirectoryData(
                id=where,
                topics=[
                    TopicData(
                        topic_id=topics[name].id if name in topics else bytes(15) + b"t",
                        partitions=[PartitionData(partition_index=index)],
                    )
                ],
            )
            for where, name, index in places
        ],
    )
    response = controller.ask(request).response
    assert [each.id for each in response.directories] == [where for where, _, _ in places]
    return [each.topics[0].partitions[0].error_code for each in response.directories]


def test_a_broker_says_where_its_replicas_are(controller):
    assert partition(controller).directories == (DIRECTORY_UNASSIGNED, directory(2))
    before = partition(controller)
    assert assign(controller, (SECOND, "a", 0), (FIRST, "b", 0)) == [0, 0]
    state = partition(controller)
    assert state.directories == (SECOND, directory(2))
    assert (state.leader, state.leader_epoch, state.isr) == (1, before.leader_epoch, before.isr)
    assert partition(controller, "b").directories == (FIRST,)
    image = controller.image
    assert assign(controller, (SECOND, "a", 0)) == [0]
    assert controller.image is image, "nothing new"


def test_a_replica_in_a_failed_directory_leads_no_longer(controller):
    assert assign(controller, (DIRECTORY_LOST, "a", 0), (directory(77), "b", 0)) == [0, 0]
    state = partition(controller)
    assert state.directories == (DIRECTORY_LOST, directory(2))
    assert (state.leader, state.isr) == (2, (2,))
    assert partition(controller, "b").leader == NO_LEADER


def test_replicas_that_are_not_there(controller):
    image = controller.image
    codes = assign(controller, (FIRST, "none", 0), (FIRST, "a", 7), (FIRST, "a", 1))
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert controller.image is image


def test_an_old_broker_epoch(controller):
    with pytest.raises(ApiError) as raised:
        assign(controller, (FIRST, "a", 0), epoch=7777)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_before_there_were_directories():
    controller = Controller(elr=False, level=16).join(1)
    create(controller, topic("b", assignments={0: [1]}))
    with pytest.raises(ApiError) as raised:
        assign(controller, (FIRST, "b", 0))
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
