"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import pytest
from tests.coordinator.support import topic_id
from tests.group.support import Generation, commit_request

from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

T0, T1, U0 = ("topic", 0), ("topic", 1), ("unread", 0)


def in_transaction(
    coordinator, producer_id, offsets, group_id="g", generation=-1, member_id="", version=5
):
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=0,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                ],
            )
            for (name, index), offset in offsets.items()
        ],
    )
    shard = coordinator.groups.runtime.shard(coordinator.groups.partition_for(group_id))
    commit = shard.machine.commit.commit_in_transaction
    try:
        answer = shard.write_in_transaction(producer_id, 0, 0, commit, request, version)
    except ApiError as error:
        return error.code
    coordinator.get(answer)
    return ErrorCode.NONE


def end(coordinator, producer_id, committed, group_id="g"):
    shard = coordinator.groups.runtime.shard(coordinator.groups.partition_for(group_id))
    coordinator.get(shard.complete_transaction(producer_id, 0, 0, committed, 0))


def delete(coordinator, group_id, *partitions):
    topics = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=index))
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )
    answer = coordinator.call(coordinator.groups.delete_offsets, request)
    if isinstance(answer, ErrorCode):
        return answer
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def test_committed_offsets_are_fetched(coordinator):
    assert coordinator.commit("g", {T0: 5, T1: 6}) == {T0: 0, T1: 0}
    assert coordinator.committed("g") == {T0: 5, T1: 6}
    assert coordinator.committed("g", [T1, U0]) == {T1: 6, U0: -1}
    coordinator.commit("g", {T0: 7})
    coordinator.restart()
    assert coordinator.committed("g") == {T0: 7, T1: 6}
    assert coordinator.group("g").is_simple


def test_a_group_that_does_not_exist(coordinator):
    assert coordinator.committed("none") == {}
    assert coordinator.committed("none", [T0]) == {T0: -1}
    commit = coordinator.commit
    assert commit("none", {T0: 1}, generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit("none", {T0: 1}, generation=1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.machine("none").state.groups == {}


def test_the_empty_group_id_is_valid(coordinator):
    coordinator.commit("", {T0: 5})
    assert coordinator.committed("") == {T0: 5}


def test_members_commit_in_their_generation(coordinator):
    generation = Generation(coordinator, "g", 1)
    commit, leader = coordinator.commit, generation.leader
    assert commit("g", {T0: 1}, member_id=leader, generation=1) == {T0: 0}
    assert commit("g", {T0: 2}, member_id=leader, generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit("g", {T0: 2}, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("g", {T0: 2}) is ErrorCode.UNKNOWN_MEMBER_ID, "from outside: not while in use"
    assert coordinator.committed("g") == {T0: 1}


def test_commits_between_join_and_sync_are_refused(coordinator):
    joining = coordinator.join("g", version=3)
    coordinator.run(10_000)
    member_id = joining.result().member_id
    answer = coordinator.commit("g", {T0: 1}, member_id=member_id, generation=1)
    assert answer is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_old_generation_can_commit_while_the_group_prepares_a_rebalance(coordinator):
    generation = Generation(coordinator, "g", 2)
    coordinator.join("g", generation.leader)
    answer = coordinator.commit("g", {T0: 1}, member_id=generation.follower, generation=1)
    assert answer == {T0: 0}


def test_metadata_that_is_too_long_fails_its_partition_only(coordinator):
    assert coordinator.commit("g", {T0: 1}, metadata="x" * 4096) == {T0: 0}
    answer = coordinator.commit("g", {T0: 2}, metadata="x" * 4097)
    assert answer == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert coordinator.committed("g") == {T0: 1}


def test_offsets_of_an_earlier_topic_of_the_same_name(coordinator):
    coordinator.commit("g", {T0: 5})
    for asked, offset in ((topic_id("topic"), 5), (bytes(16), 5), (b"another topic id", -1)):
        request = OffsetFetchRequestGroup(
            group_id="g",
            topics=[OffsetFetchRequestTopics(name="topic", topic_id=asked, partition_indexes=[0])],
        )
        answer = coordinator.call(coordinator.groups.fetch_offsets, request, False)
        assert answer.topics[0].partitions[0].committed_offset == offset


def test_fetches_wait_until_the_offsets_are_committed(make):
    coordinator = make(is_replicated=True)
    future = coordinator.groups.commit_offsets(coordinator.context(9), commit_request("g", {T0: 5}))
    coordinator.run()
    answer = coordinator.groups.fetch_offsets(fetch_request("g"), False)
    coordinator.run(10)
    assert not answer.done()
    coordinator.log("g").commit()
    assert answer.result().topics[0].partitions[0].committed_offset == 5
    assert future.done()


def fetch_request(group_id):
    return OffsetFetchRequestGroup(group_id=group_id, topics=None)


def test_a_commit_that_cannot_be_written_is_not_seen(coordinator):
    coordinator.commit("g", {T0: 1})
    coordinator.log("g").refusal = ErrorCode.KAFKA_STORAGE_ERROR
    assert coordinator.commit("g", {T0: 2}) is ErrorCode.NOT_COORDINATOR
    assert coordinator.committed("g") == {T0: 1}


# -- transactions -----------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_transaction_are_visible_when_it_commits(coordinator, committed):
    coordinator.commit("g", {T0: 1, T1: 1})
    assert in_transaction(coordinator, 7, {T0: 5}) is ErrorCode.NONE
    assert coordinator.committed("g") == {T0: 1, T1: 1}
    stable = coordinator.committed("g", [T0, T1], require_stable=True)
    assert stable == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT, T1: 1}
    assert coordinator.committed("g", require_stable=True) == stable
    coordinator.restart()
    assert coordinator.committed("g", [T0, T1], require_stable=True) == stable
    end(coordinator, 7, committed)
    expected = {T0: 5 if committed else 1, T1: 1}
    assert coordinator.committed("g", require_stable=True) == expected
    coordinator.restart()
    assert coordinator.committed("g", require_stable=True) == expected
    offsets = coordinator.machine("g").offsets
    assert (offsets.pending, offsets.open) == ({}, {})


def test_two_transactions_on_one_partition(coordinator):
    in_transaction(coordinator, 7, {T0: 5})
    in_transaction(coordinator, 8, {T0: 6})
    end(coordinator, 8, True)
    assert coordinator.committed("g", [T0], require_stable=True) == {
        T0: ErrorCode.UNSTABLE_OFFSET_COMMIT
    }
    end(coordinator, 7, True)
    assert coordinator.committed("g") == {T0: 6}, "what was written later stays"


def test_a_later_commit_outside_of_the_transaction_stays(coordinator):
    in_transaction(coordinator, 7, {T0: 5})
    coordinator.commit("g", {T0: 9})
    end(coordinator, 7, True)
    assert coordinator.committed("g") == {T0: 9}


def test_who_may_commit_in_a_transaction(coordinator):
    generation = Generation(coordinator, "g", 1)
    assert in_transaction(coordinator, 7, {T0: 1}) is ErrorCode.NONE, "older clients say nothing"
    known = {"generation": 1, "member_id": generation.leader}
    assert in_transaction(coordinator, 7, {T0: 1}, **known) is ErrorCode.NONE
    stale = {"generation": 0, "member_id": generation.leader}
    assert in_transaction(coordinator, 7, {T0: 1}, **stale) is ErrorCode.ILLEGAL_GENERATION
    unknown = {"generation": 1, "member_id": "nobody"}
    assert in_transaction(coordinator, 7, {T0: 1}, **unknown) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        in_transaction(coordinator, 7, {T0: 1}, "none", generation=1)
        is ErrorCode.ILLEGAL_GENERATION
    )


def test_version_6_says_why_a_member_may_not_commit_in_a_transaction(coordinator):
    """Apache Kafka 4.4 has it (KIP-1319)."""
    assert (
        in_transaction(coordinator, 7, {T0: 1}, "none", version=6, generation=1)
        is ErrorCode.GROUP_ID_NOT_FOUND
    )


def test_a_tombstone_ends_pending_offsets_too(coordinator):
    coordinator.commit("g", {T0: 1})
    in_transaction(coordinator, 7, {T0: 5, T1: 6})
    assert delete(coordinator, "g", T0) == {T0: 0}
    end(coordinator, 7, True)
    assert coordinator.committed("g") == {T1: 6}


# -- deletion ---------------------------------------------------------------------------------


def test_deleting_offsets(coordinator):
    assert delete(coordinator, "none", T0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(coordinator, "", T0) is ErrorCode.INVALID_GROUP_ID
    coordinator.commit("g", {T0: 1, T1: 1, U0: 1})
    assert delete(coordinator, "g", T0, ("none", 0)) == {T0: 0, ("none", 0): 0}
    assert coordinator.committed("g") == {T1: 1, U0: 1}


def test_offsets_in_use_stay(coordinator):
    generation = Generation(coordinator, "g", 1)
    coordinator.commit("g", {T0: 1, U0: 1}, member_id=generation.leader, generation=1)
    assert delete(coordinator, "g", T0, U0) == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: 0}
    assert coordinator.committed("g") == {T0: 1}


def test_offsets_of_groups_whose_topics_are_not_known(coordinator):
    consumer = (("range", b"not a subscription"),)
    Generation(coordinator, "g", 1, protocols=consumer)
    assert delete(coordinator, "g", T0) == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    Generation(coordinator, "c", 1, protocol_type="connect", protocols=(("x", b""),))
    assert delete(coordinator, "c", T0) is ErrorCode.NON_EMPTY_GROUP


def test_offsets_are_deleted_with_their_topic(coordinator):
    coordinator.set_topics(topic=2, unread=1)
    coordinator.commit("g", {T0: 1, U0: 1})
    coordinator.commit("h", {T1: 1})
    in_transaction(coordinator, 7, {T1: 1})
    coordinator.set_topics(unread=1)
    assert coordinator.committed("g") == {U0: 1}
    assert coordinator.committed("h") == {}
    assert coordinator.machine("g").offsets.open == {}


def test_offsets_of_a_later_topic_of_the_same_name_stay(coordinator):
    coordinator.set_topics(topic=2)
    coordinator.commit("g", {T0: 1})
    machine = coordinator.machine("g")
    other = [(b"another topic id", "topic")]
    assert machine.on_topics_deleted(other).records == []
    assert len(machine.on_topics_deleted([(topic_id("topic"), "topic")]).records) == 1
