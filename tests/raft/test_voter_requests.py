"""Changes of the voters by requests over sockets: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and
UpdateFeatures."""

import pytest
from compat.lab.toolchain import free_port
from tests.control.test_topic_decisions import topic

from odradek.model.errors import ErrorCode
from odradek.wire.generated.add_raft_voter_request import AddRaftVoterRequest, Listener
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.remove_raft_voter_request import RemoveRaftVoterRequest
from odradek.wire.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.generated.update_raft_voter_request import (
    KRaftVersionFeature,
    UpdateRaftVoterRequest,
)
from odradek.wire.generated.update_raft_voter_request import Listener as UpdatedListener

from .controllers import CLUSTER_ID, three_controllers
from .requests import ask, decoded, envelope
from .test_three_controllers import run

pytestmark = pytest.mark.cluster

QUICK = {"controller_quorum_fetch_timeout_ms": "800"}
"""A follower looks at its entry among the voters after this time. A fetch waits for up to 500 ms."""


def add(controller, **fields):
    voter = controller.formatted()
    listeners = [Listener(**each._asdict()) for each in voter.endpoints]
    return AddRaftVoterRequest(
        **{
            "cluster_id": CLUSTER_ID,
            "timeout_ms": 30_000,
            "voter_id": voter.key.id,
            "voter_directory_id": voter.key.directory_id,
            "listeners": listeners,
            **fields,
        }
    )


def remove(key, **fields):
    return RemoveRaftVoterRequest(
        **{
            "cluster_id": CLUSTER_ID,
            "voter_id": key.id,
            "voter_directory_id": key.directory_id,
            **fields,
        }
    )


async def forwarded(port, request):
    """Send a request as a broker forwards it; return the response to the client."""
    answer = await ask(port, envelope(request, request.VERSION_MAX))
    assert answer.error_code == 0
    return decoded(request, request.VERSION_MAX, answer.response_data)


async def described(port):
    """The ids and directory ids of the voters and of the observers, and the nodes with endpoints."""
    topics = [
        TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    ]
    answer = await ask(port, DescribeQuorumRequest(topics=topics))
    (partition,) = answer.topics[0].partitions
    voters, observers = (
        {each.replica_id: each.replica_directory_id for each in replicas}
        for replicas in (partition.current_voters, partition.observers)
    )
    nodes = {each.node_id: each.listeners[0].port for each in answer.nodes}
    return voters, observers, nodes


def voters_of(controller):
    return sorted(controller.raft.settings.voters.voters)


@run
async def test_a_fourth_voter_is_added_and_the_leader_is_removed(tmp_path):
    async with three_controllers(tmp_path, dynamic=True) as quorum:
        first = await quorum.active()
        port = quorum.ports[first.id]
        await first.register_broker()
        await first.ask(CreateTopicsRequest(topics=[topic("a")], timeout_ms=60_000))
        fourth = quorum.observer(first)
        await fourth.start()
        await quorum.until_equal()
        directories = {
            each.id: each.formatted().key.directory_id for each in quorum.controllers.values()
        }
        new = directories.pop(4)
        voters, observers, nodes = await described(port)
        assert (voters, observers) == (directories, {4: new})
        assert nodes == {each: quorum.ports[each] for each in (1, 2, 3)}

        assert (await forwarded(port, add(fourth))).error_code == 0
        again = await ask(port, add(fourth))
        assert (again.error_code, again.error_message) == (
            ErrorCode.DUPLICATE_VOTER,
            "node 4 is a voter already",
        )
        await quorum.until(lambda: all(voters_of(each) == [1, 2, 3, 4] for each in quorum.running))
        voters, observers, nodes = await described(port)
        assert (voters, observers) == ({**directories, 4: new}, {})
        assert nodes[4] == quorum.ports[4]

        removed = first.raft.machine.local
        assert (await ask(port, remove(removed))).error_code == 0
        await quorum.until(lambda: not first.controller.is_active)
        await first.stop()
        second = await quorum.active()
        left = sorted({1, 2, 3, 4} - {first.id})
        assert voters_of(second) == left
        gone = await ask(quorum.ports[second.id], remove(removed))
        assert gone.error_code == ErrorCode.VOTER_NOT_FOUND
        await second.register_broker()
        await second.ask(CreateTopicsRequest(topics=[topic("b")], timeout_ms=60_000))
        assert await quorum.until_equal() == ["a", "b"]


@run
async def test_requests_that_are_refused(tmp_path):
    async with three_controllers(tmp_path, dynamic=True) as quorum:
        active = await quorum.active()
        port = quorum.ports[active.id]
        standby = next(each for each in quorum.running if each is not active)
        fourth = quorum.observer(active)
        closed = fourth.formatted()
        quorum.endpoints.pop(4).listener.close()
        other_cluster = "AAAAAAAAAAAAAAAAAAAAAA"
        nobody = await ask(port, add(fourth, timeout_ms=2000))
        assert nobody.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "does not respond to ApiVersions" in nobody.error_message
        for request, code in (
            (add(fourth, cluster_id=other_cluster), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (add(fourth, listeners=[]), ErrorCode.INVALID_REQUEST),
            (remove(closed.key, cluster_id=other_cluster), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (remove(closed.key), ErrorCode.VOTER_NOT_FOUND),
            (update(closed, 0), ErrorCode.FENCED_LEADER_EPOCH),
        ):
            answer = await ask(port, request)
            assert answer.error_code == code, type(request)
        for request in (add(fourth), remove(closed.key)):
            answer = await ask(quorum.ports[standby.id], request)
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer = await ask(quorum.ports[standby.id], envelope(request, 0))
            assert answer.error_code == ErrorCode.NOT_CONTROLLER
        updated = await ask(quorum.ports[standby.id], update(closed, active.raft.machine.epoch))
        assert updated.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leads = updated.current_leader
        assert (leads.leader_id, leads.port) == (active.id, port)


def update(voter, epoch):
    return UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[UpdatedListener(**each._asdict()) for each in voter.endpoints],
        kraft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )


@run
async def test_a_controller_that_may_joins_and_one_with_a_new_disk_replaces_itself(tmp_path):
    async with three_controllers(tmp_path, dynamic=True, **QUICK) as quorum:
        active = await quorum.active()
        fourth = quorum.observer(active)
        fourth.settings["controller.quorum.auto.join.enable"] = "true"
        await fourth.start()
        await quorum.until(lambda: all(voters_of(each) == [1, 2, 3, 4] for each in quorum.running))
        before = fourth.formatted().key
        await fourth.stop()
        fourth.wipe()
        await fourth.start()
        after = fourth.formatted().key
        assert after != before
        await quorum.until(
            lambda: all(
                each.raft.settings.voters.contains(after)
                and not each.raft.settings.voters.contains(before)
                for each in quorum.running
            )
        )


@run
async def test_a_voter_with_another_port_reports_it(tmp_path):
    async with three_controllers(tmp_path, dynamic=True, **QUICK) as quorum:
        active = await quorum.active()
        moved = next(each for each in quorum.running if each is not active)
        await moved.stop()
        quorum.endpoints[moved.id] = quorum.bind(free_port())
        quorum.ports[moved.id] = port = quorum.endpoints[moved.id].port
        await moved.start()

        def knows(controller):
            return controller.raft.settings.voters.destination(moved.id).port == port

        await quorum.until(lambda: all(map(knows, quorum.running)))


async def raise_kraft_version(port, level, **fields):
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=1)
    return await ask(port, UpdateFeaturesRequest(feature_updates=[update], **fields))


@run
async def test_static_voters_become_dynamic_ones(tmp_path):
    async with three_controllers(tmp_path, **QUICK) as quorum:
        active = await quorum.active()
        port = quorum.ports[active.id]
        early = await raise_kraft_version(port, 1)
        assert early.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "have not told the leader" in early.error_message
        static = await ask(port, remove(active.formatted().key))
        assert static.error_code == ErrorCode.UNSUPPORTED_VERSION
        await quorum.until(
            lambda: any(each.raft.machine.upgrade_problem() is None for each in quorum.running)
        )
        active = await quorum.active()
        port = quorum.ports[active.id]
        assert (await raise_kraft_version(port, 1, validate_only=True)).error_code == 0
        assert active.raft.settings.kraft_version == 0
        assert (await raise_kraft_version(port, 1)).error_code == 0
        await quorum.until(
            lambda: all(each.raft.settings.kraft_version == 1 for each in quorum.running)
        )
        lower = await raise_kraft_version(port, 0)
        assert lower.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (await raise_kraft_version(port, 1)).error_code == 0
        removed = next(each for each in quorum.running if each is not active)
        key = removed.formatted().key
        assert (await ask(port, remove(key))).error_code == 0
        await removed.stop()
        await active.stop()
        await active.start()
        again = await quorum.active()
        assert voters_of(again) == sorted({1, 2, 3} - {removed.id})
        assert all(each.key.directory_id != bytes(16) for each in voters_in(again))


def voters_in(controller):
    return controller.raft.settings.voters.voters.values()


@run
async def test_controllers_describe_the_cluster(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        port = quorum.ports[active.id]
        answer = await ask(port, DescribeClusterRequest(endpoint_type=2))
        assert (answer.error_code, answer.cluster_id) == (0, CLUSTER_ID)
        assert (answer.controller_id, answer.brokers) == (active.id, [])
        brokers = await ask(port, DescribeClusterRequest())
        assert brokers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
