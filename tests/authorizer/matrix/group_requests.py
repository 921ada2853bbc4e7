"""Requests of the matrix to the coordinators of groups and transactions."""

from __future__ import annotations

from typing import Any

from tests.authorizer.matrix.request import NAMES, Known, Request, by_id, by_name
from tests.authorizer.matrix.rights import cluster, groups, topics, transactions

from odradek.model.acl import AclOperation

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION

_COMMIT = {"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}
_INDEX = {"partition_index": 0}
_INDEXES = "partition_indexes"
_GROUPS = ("g", "h", "missing", "absent")
"""`g` and `h` exist. By default a user has rights for `g` and `missing`."""
_SOME = ("g", "missing")


def _offsets() -> list[Request]:
    read = [*groups(READ), *topics(READ)]
    describe = [*groups(DESCRIBE, *_SOME), *topics(DESCRIBE)]
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1}
    several = [
        {"group_id": each, "topics": by_name(0, parts=_INDEXES)} for each in ("g", "h", "missing")
    ]
    every = [{"group_id": each, "topics": None} for each in ("g", "h", "missing")]
    ids = [{"group_id": each, "topics": by_id(0, parts=_INDEXES)} for each in ("g", "h")]
    return [
        Request("", "OffsetCommit", 2, {**commit, "topics": by_name(_COMMIT)}, read),
        Request("", "OffsetCommit", 9, {**commit, "topics": by_name(_COMMIT)}, read),
        Request("", "OffsetCommit", 10, {**commit, "topics": by_id(_COMMIT)}, read),
        Request("no topic", "OffsetCommit", 9, {**commit, "topics": []}, read),
        Request(
            "one topic", "OffsetCommit", 9, {**commit, "topics": by_name(_COMMIT, ("t",))}, read
        ),
        Request(
            "one hidden topic", "OffsetCommit", 9, {**commit, "topics": by_name(_COMMIT, ("u",))},
            read,
        ),
        Request(
            "", "OffsetFetch", 1, {"group_id": "g", "topics": by_name(0, parts=_INDEXES)}, describe
        ),
        Request(
            "", "OffsetFetch", 7, {"group_id": "g", "topics": by_name(0, parts=_INDEXES)}, describe
        ),
        Request("all", "OffsetFetch", 7, {"group_id": "g", "topics": None}, describe),
        Request("all", "OffsetFetch", 2, {"group_id": "g", "topics": None}, describe),
        Request("", "OffsetFetch", 9, {"groups": several}, describe),
        Request("all", "OffsetFetch", 9, {"groups": every}, describe),
        Request("", "OffsetFetch", 10, {"groups": ids}, describe),
        Request("all", "OffsetFetch", 10, {"groups": every}, describe),
        Request(
            "", "OffsetDelete", 0, {"group_id": "o", "topics": by_name(_INDEX)},
            [*groups(DELETE, "o"), *topics(READ)],
        ),
        Request(
            "a missing group", "OffsetDelete", 0,
            {"group_id": "missing", "topics": by_name(_INDEX)},
            [*groups(DELETE, "missing"), *topics(READ)],
        ),
    ]  # fmt: skip


def _coordinators() -> list[Request]:
    return [
        Request("", "FindCoordinator", 0, {"key": "g"}, groups(DESCRIBE)),
        Request("", "FindCoordinator", 3, {"key": "g", "key_type": 0}, groups(DESCRIBE)),
        Request("", "FindCoordinator", 3, {"key": "x", "key_type": 1}, transactions(DESCRIBE)),
        Request(
            "groups", "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": _GROUPS},
            groups(DESCRIBE, *_SOME),
        ),
        Request(
            "transactions", "FindCoordinator", 6, {"key_type": 1, "coordinator_keys": ["x", "y"]},
            transactions(DESCRIBE),
        ),
        Request(
            "an unknown type", "FindCoordinator", 6, {"key_type": 7, "coordinator_keys": ["x"]},
            groups(DESCRIBE, "x"),
        ),
        Request(
            "an empty key", "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [""]}
        ),
        Request(
            "invalid share partitions", "FindCoordinator", 6,
            {"key_type": 2, "coordinator_keys": ["g", "g:x:0"]}, cluster(CLUSTER_ACTION),
        ),
    ]  # fmt: skip


def _classic() -> list[Request]:
    read = groups(READ)
    join = {
        "session_timeout_ms": 1_000_000,
        "rebalance_timeout_ms": 1_000_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    member = {"group_id": "g", "member_id": "m"}
    listed = {"groups": [*_GROUPS, "classic"], "include_authorized_operations": True}
    return [
        Request("", "JoinGroup", 5, {**join, "group_id": "j5", "member_id": ""}, groups(READ, "j5")),
        Request("", "JoinGroup", 3, {**join, "group_id": "j3", "member_id": ""}, groups(READ, "j3")),
        Request("", "Heartbeat", 4, {**member, "generation_id": 1}, read),
        Request("", "Heartbeat", 0, {**member, "generation_id": 1}, read),
        Request("", "LeaveGroup", 2, member, read),
        Request(
            "", "LeaveGroup", 5,
            {"group_id": "g", "members": [{"member_id": "m"}, {"member_id": "n"}]}, read,
        ),
        Request("", "SyncGroup", 5, {
            **member, "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"
        }, read),
        Request("", "SyncGroup", 3, {**member, "generation_id": 1}, read),
        Request("", "DescribeGroups", 6, listed, groups(DESCRIBE, "missing", "classic")),
        Request("", "DescribeGroups", 5, listed, groups(READ, "g", "classic")),
        Request("", "DescribeGroups", 0, {"groups": list(_GROUPS)}, groups(DELETE)),
        Request("", "ListGroups", 5, {}, groups(DESCRIBE)),
        Request("", "ListGroups", 0, {}, groups(READ)),
        Request("right for the cluster", "ListGroups", 5, {}, cluster(DESCRIBE)),
        Request(
            "", "DeleteGroups", 2, {"groups_names": ["e1", "e2", "missing", "absent"]},
            groups(DELETE, "e1", "missing"),
        ),
    ]  # fmt: skip


def _consumers() -> list[Request]:
    beat = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
    join = {**beat, "topic_partitions": []}
    described = ["both", "one", "missing", "absent"]
    operations = {"include_authorized_operations": True}
    seen = groups(DESCRIBE, "both", "one", "missing")
    return [
        Request(
            "", "ConsumerGroupHeartbeat", 1,
            {**join, "group_id": "c1", "subscribed_topic_names": ["t", "gone"]},
            [*groups(READ, "c1"), *topics(DESCRIBE)],
        ),
        Request(
            "a hidden topic", "ConsumerGroupHeartbeat", 0,
            {**join, "group_id": "c2", "subscribed_topic_names": ["t", "u"]},
            [*groups(READ, "c2"), *topics(DESCRIBE)],
        ),
        Request(
            "a pattern", "ConsumerGroupHeartbeat", 1,
            {**join, "group_id": "c3", "subscribed_topic_regex": "t|u"},
            [*groups(READ, "c3"), *topics(DESCRIBE)],
        ),
        Request(
            "an unknown member", "ConsumerGroupHeartbeat", 1,
            {"group_id": "g", "member_id": "m", "member_epoch": 7}, groups(READ),
        ),
        Request(
            "", "ConsumerGroupDescribe", 1, {"group_ids": described, **operations},
            [*seen, *topics(DESCRIBE)],
        ),
        Request(
            "both topics", "ConsumerGroupDescribe", 0, {"group_ids": ["both", "one"]},
            [*seen, *topics(DESCRIBE, "t", "u")],
        ),
        Request(
            "operations", "ConsumerGroupDescribe", 1, {"group_ids": ["one"], **operations},
            [*groups(READ, "one"), *groups(DELETE, "one"), *topics(READ)],
        ),
    ]  # fmt: skip


def _share_members() -> list[Request]:
    join = {"member_id": "m", "member_epoch": 0}
    described = ["s-both", "s-one", "missing", "absent"]
    operations = {"include_authorized_operations": True}
    seen = groups(DESCRIBE, "s-both", "s-one", "missing")
    return [
        Request(
            "", "ShareGroupHeartbeat", 1,
            {**join, "group_id": "h1", "subscribed_topic_names": ["t", "gone"]},
            [*groups(READ, "h1"), *topics(DESCRIBE)],
        ),
        Request(
            "a hidden topic", "ShareGroupHeartbeat", 1,
            {**join, "group_id": "h2", "subscribed_topic_names": ["t", "u"]},
            [*groups(READ, "h2"), *topics(DESCRIBE)],
        ),
        Request(
            "", "ShareGroupDescribe", 1, {"group_ids": described, **operations},
            [*seen, *topics(DESCRIBE)],
        ),
        Request(
            "both topics", "ShareGroupDescribe", 1, {"group_ids": ["s-both", "s-one"]},
            [*seen, *topics(DESCRIBE, "t", "u")],
        ),
    ]  # fmt: skip


def _share_fetches() -> list[Request]:
    fetch = {
        "group_id": "sg",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "max_records": 10,
        "batch_size": 10,
        "max_wait_ms": 500,
        "min_bytes": 1,
    }
    known = by_id({"partition_index": 0})[:2]
    acknowledged = {
        "partition_index": 0,
        "acknowledgement_batches": [
            {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
        ],
    }
    return [
        Request(
            "", "ShareFetch", 2, {**fetch, "share_session_epoch": 0, "topics": known},
            [*groups(READ, "sg"), *topics(READ)],
        ),
        Request(
            "nothing allowed", "ShareFetch", 1,
            {**fetch, "member_id": "AAAAAAAAAAAAAAAAAAAAAg", "share_session_epoch": 0,
             "topics": known[1:]},
            [*groups(READ, "sg"), *topics(READ)],
        ),
        Request(
            "no session", "ShareFetch", 2, {**fetch, "share_session_epoch": 4, "topics": known},
            [*groups(READ, "sg"), *topics(READ)],
        ),
        Request(
            "no session", "ShareAcknowledge", 2,
            {"group_id": "sg", "member_id": fetch["member_id"], "share_session_epoch": 4,
             "topics": by_id(acknowledged)[:2]},
            [*groups(READ, "sg"), *topics(READ)],
        ),
    ]  # fmt: skip


def _share_offsets() -> list[Request]:
    offsets = [
        {"group_id": each, "topics": by_name(0, name="topic_name")} for each in ("s-both", "s-one")
    ]
    every = [{"group_id": each, "topics": None} for each in ("s-both", "s-one", "missing")]
    altered = {"partition_index": 0, "start_offset": 1}
    return [
        Request(
            "", "DescribeShareGroupOffsets", 0, {"groups": offsets},
            [*groups(DESCRIBE, "s-both"), *topics(DESCRIBE)],
        ),
        Request(
            "all", "DescribeShareGroupOffsets", 1, {"groups": every},
            [*groups(DESCRIBE, "s-both", "missing"), *topics(DESCRIBE)],
        ),
        Request(
            "", "AlterShareGroupOffsets", 0,
            {"group_id": "s-empty", "topics": by_name(altered, name="topic_name")},
            [*groups(READ, "s-empty"), *topics(READ)],
        ),
        Request(
            "no topic allowed", "AlterShareGroupOffsets", 0,
            {"group_id": "s-empty", "topics": by_name(altered, ("u",), name="topic_name")},
            [*groups(READ, "s-empty"), *topics(READ)],
        ),
        Request(
            "", "DeleteShareGroupOffsets", 0,
            {"group_id": "s-empty", "topics": [{"topic_name": each} for each in NAMES]},
            [*groups(DELETE, "s-empty"), *topics(READ)],
        ),
        Request(
            "no topic allowed", "DeleteShareGroupOffsets", 0,
            {"group_id": "s-empty", "topics": [{"topic_name": "u"}]},
            [*groups(DELETE, "s-empty"), *topics(READ)],
        ),
    ]  # fmt: skip


def _share_states() -> list[Request]:
    states: dict[str, tuple[int, dict[str, Any]]] = {
        "InitializeShareGroupState": (0, {"partition": 0, "state_epoch": 1, "start_offset": 0}),
        "ReadShareGroupState": (0, {"partition": 0, "leader_epoch": 0}),
        "WriteShareGroupState": (
            1,
            {
                "partition": 0,
                "state_epoch": 1,
                "leader_epoch": 0,
                "start_offset": 1,
                "state_batches": [],
            },
        ),
        "ReadShareGroupStateSummary": (1, {"partition": 0, "leader_epoch": 0}),
        "DeleteShareGroupState": (0, {"partition": 0}),
    }
    return [
        Request(
            "",
            api,
            version,
            {"group_id": "state", "topics": by_id(part)[:1]},
            cluster(CLUSTER_ACTION),
        )
        for api, (version, part) in states.items()
    ]


def _shares() -> list[Request]:
    return [*_share_members(), *_share_fetches(), *_share_offsets(), *_share_states()]


def _streams() -> list[Request]:
    """Requests about Streams groups, which create no group."""
    join = {
        "member_id": "m",
        "rebalance_timeout_ms": 1000,
        "process_id": "p",
        **{key: [] for key in ("active_tasks", "standby_tasks", "warmup_tasks")},
    }
    endless = {
        "subtopology_id": "0", "source_topics": ["t"], "repartition_source_topics": [{"name": "gone"}]
    }  # fmt: skip
    hidden = {"subtopology_id": "0", "source_topics": ["t"], "repartition_sink_topics": ["u"]}
    return [
        Request(
            "an endless topology", "StreamsGroupHeartbeat", 0,
            {**join, "group_id": "st", "topology": {"subtopologies": [endless]}},
            [*groups(READ, "st"), *topics(DESCRIBE)],
        ),
        Request(
            "a hidden topic", "StreamsGroupHeartbeat", 0,
            {**join, "group_id": "st", "topology": {"subtopologies": [hidden]}},
            [*groups(READ, "st"), *topics(DESCRIBE)],
        ),
        Request(
            "another group", "StreamsGroupHeartbeat", 0,
            {"group_id": "g", "member_id": "m", "member_epoch": 5}, groups(READ),
        ),
        Request(
            "", "StreamsGroupDescribe", 0,
            {"group_ids": list(_GROUPS), "include_authorized_operations": True},
            groups(DESCRIBE, *_SOME),
        ),
        Request(
            "", "StreamsGroupTopologyDescriptionUpdate", 0,
            {"group_id": "g", "member_id": "m", "topology_description": {}}, groups(READ),
        ),
    ]  # fmt: skip


def _producers() -> list[Request]:
    producer = {"producer_id": Known("producer x"), "producer_epoch": Known("epoch x")}
    added = [{"name": each, "partitions": [0]} for each in NAMES]
    old: dict[str, Any] = {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": Known("producer x"),
        "v3_and_below_producer_epoch": Known("epoch x"),
        "v3_and_below_topics": added,
    }
    one = {**old, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}
    verified = [
        {"transactional_id": each, **producer, "verify_only": True, "topics": added[:2]}
        for each in ("x", "y")
    ]
    start = {"transaction_timeout_ms": 60_000}
    idempotent = {"transactional_id": None, **start}
    write = transactions(WRITE)
    return [
        Request("", "InitProducerId", 4, {"transactional_id": "i4", **start}, transactions(
            WRITE, "i4")),
        Request("", "InitProducerId", 5, {"transactional_id": "i5", **start}, transactions(
            WRITE, "i5")),
        Request(
            "", "InitProducerId", 0, {"transactional_id": "", **start}, transactions(WRITE, "none")
        ),
        Request(
            "idempotent", "InitProducerId", 4, idempotent, cluster(AclOperation.IDEMPOTENT_WRITE)
        ),
        Request("idempotent", "InitProducerId", 2, idempotent, topics(WRITE, "anything")),
        Request("idempotent", "InitProducerId", 5, idempotent, topics(READ, "anything")),
        Request("", "AddPartitionsToTxn", 3, old, [*write, *topics(WRITE)]),
        Request("", "AddPartitionsToTxn", 0, one, [*write, *topics(WRITE)]),
        Request(
            "verified only", "AddPartitionsToTxn", 4, {"transactions": verified},
            cluster(CLUSTER_ACTION),
        ),
        Request(
            "verified only", "AddPartitionsToTxn", 5, {"transactions": verified},
            [*write, *topics(WRITE)],
        ),
    ]  # fmt: skip


def _transactions() -> list[Request]:
    producer = {"producer_id": Known("producer x"), "producer_epoch": Known("epoch x")}
    commit = {"transactional_id": "x", "group_id": "g", **producer, "topics": by_name(_COMMIT)}
    marker = {
        "producer_id": 777, "producer_epoch": 0, "transaction_result": True,
        "topics": [{"name": each, "partition_indexes": [0]} for each in ("w", "gone")],
        "coordinator_epoch": 0,
    }  # fmt: skip
    write = transactions(WRITE)
    return [
        Request(
            "", "AddOffsetsToTxn", 3, {"transactional_id": "x", **producer, "group_id": "g"},
            [*write, *groups(READ)],
        ),
        Request("", "TxnOffsetCommit", 2, commit, [*write, *groups(READ), *topics(READ)]),
        Request("", "TxnOffsetCommit", 3, commit, [*write, *groups(READ), *topics(READ)]),
        Request("", "TxnOffsetCommit", 5, commit, [*write, *groups(READ), *topics(READ)]),
        Request(
            "no topic", "TxnOffsetCommit", 3, {**commit, "topics": []},
            [*write, *groups(READ)],
        ),
        Request(
            "", "DescribeTransactions", 0, {"transactional_ids": ["open", "y", "missing", "absent"]},
            [*transactions(DESCRIBE, "open", "missing"), *topics(DESCRIBE, "t")],
        ),
        Request(
            "", "ListTransactions", 1, {}, transactions(DESCRIBE, "open"),
        ),
        Request("", "ListTransactions", 2, {"transactional_id_pattern": "o.*|y"}, transactions(
            DESCRIBE, "open", "x")),
        Request(
            "", "EndTxn", 3, {"transactional_id": "x", **producer, "committed": True}, write
        ),
        Request(
            "", "EndTxn", 5, {"transactional_id": "x", **producer, "committed": True}, write
        ),
        Request("", "WriteTxnMarkers", 1, {"markers": [marker]}, cluster(CLUSTER_ACTION)),
        Request("", "WriteTxnMarkers", 1, {"markers": [marker]}, cluster(ALTER)),
    ]  # fmt: skip


def _transactional() -> list[Request]:
    return [*_producers(), *_transactions()]


GROUP_REQUESTS = [
    *_offsets(),
    *_coordinators(),
    *_classic(),
    *_consumers(),
    *_shares(),
    *_streams(),
    *_transactional(),
]
