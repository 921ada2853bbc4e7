"""The APIs of the controller listener, for brokers and administrators."""

import pytest
from tests.control.test_topic_decisions import topic

from odradek.handlers.registry import FORWARDED, SERVED
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
)
from odradek.wire.generated.assign_replicas_to_dirs_request import (
    PartitionData as AssignedPartition,
)
from odradek.wire.generated.assign_replicas_to_dirs_request import TopicData as AssignedTopic
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from odradek.wire.generated.controller_registration_request import (
    ControllerRegistrationRequest,
)
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest

from .controllers import CLUSTER_ID, FEATURES, three_controllers
from .requests import ask, decoded, envelope
from .test_three_controllers import run


def registration(broker, incarnation=1):
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=CLUSTER_ID,
        incarnation_id=bytes([incarnation] * 16),
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in FEATURES.items()
        ],
        log_dirs=[bytes([broker] * 16)],
    )


async def join(port, broker, version=None):
    """Register a broker and unfence it; return its epoch."""
    registered = await ask(port, registration(broker), version)
    assert registered.error_code == 0
    epoch = registered.broker_epoch
    heartbeat = BrokerHeartbeatRequest(
        broker_id=broker, broker_epoch=epoch, current_metadata_offset=epoch
    )
    answer = await ask(port, heartbeat)
    assert (answer.error_code, answer.is_caught_up, answer.is_fenced) == (0, True, False)
    return epoch


def create(*names, factor=-1):
    return CreateTopicsRequest(
        topics=[topic(each, factor=factor) for each in names], timeout_ms=60_000
    )


@run
async def test_two_brokers_live_on_the_active_controller(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        port = quorum.ports[active.id]
        epochs = {each: await join(port, each) for each in (11, 12)}
        again = await ask(port, registration(11, incarnation=2))
        assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        stale = await ask(port, BrokerHeartbeatRequest(broker_id=11, broker_epoch=1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH

        blocks = [
            await ask(port, AllocateProducerIdsRequest(broker_id=each, broker_epoch=epoch))
            for each, epoch in epochs.items()
        ]
        assert [each.producer_id_start for each in blocks] == [0, 1000]

        created = (await ask(port, create("a", factor=2))).topics[0]
        assert (created.error_code, created.replication_factor) == (0, 2)
        partition = active.loader.image.topics.partition("a", 0)
        leader = partition.leader
        (follower,) = set(partition.replicas) - {leader}
        change = PartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=leader, broker_epoch=epochs[leader])],
            partition_epoch=partition.partition_epoch,
        )
        alter = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=epochs[leader],
            topics=[TopicData(topic_id=created.topic_id, partitions=[change])],
        )
        altered = (await ask(port, alter)).topics[0].partitions[0]
        assert (altered.error_code, altered.isr) == (0, [leader])
        assert active.loader.image.topics.partition("a", 0).isr == (leader,)

        assign = AssignReplicasToDirsRequest(
            broker_id=follower,
            broker_epoch=epochs[follower],
            directories=[
                DirectoryData(
                    id=bytes([follower] * 16),
                    topics=[
                        AssignedTopic(
                            topic_id=created.topic_id,
                            partitions=[AssignedPartition(partition_index=0)],
                        )
                    ],
                )
            ],
        )
        assigned = await ask(port, assign)
        assert assigned.error_code == 0
        assert assigned.directories[0].topics[0].partitions[0].error_code == 0

        gone = await ask(port, UnregisterBrokerRequest(broker_id=follower))
        assert gone.error_code == 0
        await quorum.until_equal()
        for each in quorum.running:
            assert set(each.loader.image.cluster.brokers) == {leader}


@run
async def test_each_version_of_a_registration(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        low, high = (
            BY_KEY[api_keys.BROKER_REGISTRATION].version_min,
            BY_KEY[api_keys.BROKER_REGISTRATION].version_max,
        )
        for version in range(low, high + 1):
            answer = await ask(quorum.ports[active.id], registration(20 + version), version)
            # Before version 2 a registration names no directories, which the finalized
            # metadata.version needs.
            expected = 0 if version >= 2 else ErrorCode.INVALID_REGISTRATION
            assert answer.error_code == expected, version


@run
async def test_a_controller_registers(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        request = ControllerRegistrationRequest(controller_id=3, incarnation_id=bytes([3] * 16))
        answer = await ask(quorum.ports[active.id], request)
        assert answer.error_code == 0
        assert set(active.loader.image.cluster.controllers) == {3}


@run
async def test_a_standby_is_no_controller(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        standby = next(each for each in quorum.running if each is not active)
        port = quorum.ports[standby.id]
        requests = [
            registration(1),
            BrokerHeartbeatRequest(broker_id=1),
            AllocateProducerIdsRequest(broker_id=1),
            AlterPartitionRequest(broker_id=1),
            AssignReplicasToDirsRequest(broker_id=1),
            UnregisterBrokerRequest(broker_id=1),
            ControllerRegistrationRequest(controller_id=1),
            envelope(create("a"), 7),
        ]
        for request in requests:
            answer = await ask(port, request)
            assert answer.error_code == ErrorCode.NOT_CONTROLLER, type(request)
        created = await ask(port, create("a"))
        assert created.topics[0].error_code == ErrorCode.NOT_CONTROLLER


@run
async def test_the_versions_are_those_that_are_served(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        answer = await ask(quorum.ports[1], ApiVersionsRequest(), 0)
        told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        expected = {
            key: (each.version_min, each.version_max)
            for key, each in SERVED.items()
            if each.is_on_controllers
        }
        assert told == expected
        assert {56, 58, 62, 63, 64, 67, 70, 73} < told.keys()


# -- Envelope -------------------------------------------------------------------------------------


def test_an_envelope_may_have_what_brokers_forward():
    forwarded = {key for key, each in SERVED.items() if FORWARDED in each.places}
    assert all("controller" in BY_KEY[key].listeners for key in forwarded)


@run
async def test_forwarded_requests(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        port = quorum.ports[active.id]
        await join(port, 11)
        for version in range(2, 8):
            request = create(f"v{version}")
            answer = await ask(port, envelope(request, version))
            assert answer.error_code == 0
            response = decoded(request, version, answer.response_data)
            assert [(each.name, each.error_code) for each in response.topics] == [
                (f"v{version}", 0)
            ]
        state = DeleteTopicState(name="v2")
        delete = DeleteTopicsRequest(topics=[state], timeout_ms=60_000)
        answer = await ask(port, envelope(delete, 6, address=b"\0" * 15 + b"\1"))
        assert decoded(delete, 6, answer.response_data).responses[0].error_code == 0
        assert await quorum.until_equal() == ["v3", "v4", "v5", "v6", "v7"]
        describe = DescribeQuorumRequest()
        answer = await ask(port, envelope(describe, 2))
        assert decoded(describe, 2, answer.response_data).error_code == 0


CASES = {
    "not forwarded": (lambda: envelope(MetadataRequest(), 12), ErrorCode.INVALID_REQUEST),
    "address": (lambda: envelope(create("a"), 7, address=b"abc"), ErrorCode.INVALID_REQUEST),
    "principal": (
        lambda: envelope(create("a"), 7, principal=b"\0\0\x07"),
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
    ),
    "principal's version": (
        lambda: envelope(create("a"), 7, principal=b"\0\x09abc"),
        ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_envelopes_that_are_refused(tmp_path, case):
    @run
    async def test(path):
        async with three_controllers(path) as quorum:
            active = await quorum.active()
            make, expected = CASES[case]
            answer = await ask(quorum.ports[active.id], make())
            assert (answer.error_code, answer.response_data) == (expected, None)
            truncated = envelope(create("a"), 7)
            truncated.request_data = truncated.request_data[:-3]
            answer = await ask(quorum.ports[active.id], truncated)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    test(tmp_path)
