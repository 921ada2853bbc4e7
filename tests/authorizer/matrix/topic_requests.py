"""Requests of the matrix that read and write topics, or describe and change them."""

from __future__ import annotations

from tests.authorizer.matrix.request import NAMES, UNKNOWN_ID, Known, Request, by_id, by_name
from tests.authorizer.matrix.rights import cluster, topics, transactions

from odradek.model.acl import AclOperation
from odradek.records.builder import RecordBatchBuilder

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
TIMESTAMP = 1_700_000_000_000
OPERATIONS = {"include_topic_authorized_operations": True}


def batch(producer_id: int = -1, producer_epoch: int = -1) -> bytes:
    """Return a batch with one record; with a producer id it is part of a transaction."""
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )
    builder.append(TIMESTAMP, None, b"value")
    return bytes(builder.build())


_RECORDS = {"index": 0, "records": batch()}
_WRITTEN = ("w", "v", "gone", "none")
_FETCHED = {"partition": 0, "partition_max_bytes": 1 << 20}
_FETCH = {"min_bytes": 0, "max_wait_ms": 0, "session_epoch": -1}
_EPOCH = {"partition": 0, "leader_epoch": 0}
_TIME = {"partition_index": 0, "timestamp": -1}
_NAMED = [{"name": each} for each in NAMES]
_IDENTIFIED = [
    {"name": None, "topic_id": each}
    for each in (Known("topic t"), Known("topic u"), Known("topic w"), UNKNOWN_ID)
]
_PRODUCE = {"acks": -1, "timeout_ms": 5000}
_TRANSACTION = {"index": 0, "records": Known("transactional batch")}


def _creations(*names: str) -> list[dict[str, object]]:
    return [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in names]


def _fetching() -> list[Request]:
    describe = topics(DESCRIBE)
    read = topics(READ)
    return [
        Request("", "Fetch", 12, {**_FETCH, "topics": by_name(_FETCHED, name="topic")}, read),
        Request("", "Fetch", 4, {**_FETCH, "topics": by_name(_FETCHED, name="topic")}, read),
        Request("", "Fetch", 17, {**_FETCH, "topics": by_id(_FETCHED)}, read),
        Request("nothing allowed", "Fetch", 18, {**_FETCH, "topics": by_id(_FETCHED, ("u",))}, read),
        Request(
            "a new session", "Fetch", 17,
            {**_FETCH, "session_epoch": 0, "topics": by_id(_FETCHED)}, read,
        ),
        Request(
            "as a follower", "Fetch", 12,
            {**_FETCH, "replica_id": 99, "topics": by_name(_FETCHED, name="topic")},
            cluster(CLUSTER_ACTION),
        ),
        Request(
            "as a follower", "Fetch", 17,
            {**_FETCH, "replica_state": {"replica_id": 99}, "topics": by_id(_FETCHED)},
            cluster(CLUSTER_ACTION),
        ),
        Request("as a follower", "Fetch", 12, {**_FETCH, "replica_id": 99, "topics": by_name(
            _FETCHED, name="topic")}, read),
        Request("", "ListOffsets", 1, {"replica_id": -1, "topics": by_name(_TIME)}, describe),
        Request("", "ListOffsets", 10, {"replica_id": -1, "topics": by_name(_TIME)}, describe),
        Request("", "ListOffsets", 10, {"replica_id": 99, "topics": by_name(_TIME)},
                cluster(CLUSTER_ACTION)),
        Request("READ", "ListOffsets", 7, {"replica_id": -1, "topics": by_name(_TIME)}, read),
        Request(
            "", "OffsetForLeaderEpoch", 4,
            {"replica_id": -1, "topics": by_name(_EPOCH, name="topic")}, describe,
        ),
        Request(
            "", "OffsetForLeaderEpoch", 2, {"topics": by_name(_EPOCH, name="topic")}, describe
        ),
        Request(
            "of a follower", "OffsetForLeaderEpoch", 4,
            {"replica_id": 99, "topics": by_name(_EPOCH, name="topic")}, cluster(CLUSTER_ACTION),
        ),
    ]  # fmt: skip


def _metadata() -> list[Request]:
    describe = topics(DESCRIBE)
    read = topics(READ)
    every = {"topics": None, "allow_auto_topic_creation": False}
    return [
        Request("", "Metadata", 12, {"topics": _NAMED, **OPERATIONS}, describe),
        Request("", "Metadata", 13, {"topics": _NAMED}, topics(WRITE)),
        Request("by id", "Metadata", 12, {"topics": _IDENTIFIED, **OPERATIONS}, describe),
        Request("all", "Metadata", 12, {**every, **OPERATIONS}, describe),
        Request("all", "Metadata", 1, {"topics": None}, topics(READ, "t", "__consumer_offsets")),
        Request("all", "Metadata", 0, {"topics": []}, describe),
        Request("no topic", "Metadata", 4, {"topics": []}, describe),
        Request(
            "operations on the cluster", "Metadata", 9,
            {**every, "include_cluster_authorized_operations": True}, cluster(DESCRIBE),
        ),
        Request(
            "operations on the cluster", "Metadata", 10,
            {**every, "include_cluster_authorized_operations": True},
            [*cluster(DESCRIBE), *cluster(ALTER), *cluster(CREATE)],
        ),
        Request(
            "an invalid name and an internal topic", "Metadata", 12,
            {"topics": [{"name": "a b"}, {"name": "__consumer_offsets"}, {"name": ""}]},
            topics(DESCRIBE, "a b", "__consumer_offsets"),
        ),
        Request("", "DescribeTopicPartitions", 0, {"topics": _NAMED}, describe),
        Request("all", "DescribeTopicPartitions", 0, {"topics": []}, describe),
        Request(
            "from u on", "DescribeTopicPartitions", 0,
            {"topics": [], "cursor": {"topic_name": "u", "partition_index": 0}},
            topics(DESCRIBE, "t", "w"),
        ),
        Request(
            "from a hidden topic on", "DescribeTopicPartitions", 0,
            {"topics": _NAMED, "cursor": {"topic_name": "u", "partition_index": 0}}, describe,
        ),
        Request(
            "one partition", "DescribeTopicPartitions", 0,
            {"topics": [], "response_partition_limit": 1}, topics(DESCRIBE, "u", "w"),
        ),
        Request(
            "", "DescribeProducers", 0, {"topics": by_name(0, parts="partition_indexes")}, read
        ),
    ]  # fmt: skip


def _reading() -> list[Request]:
    return [*_fetching(), *_metadata()]


def _writing() -> list[Request]:
    write = topics(WRITE, "w", "gone")
    named = by_name(_RECORDS, _WRITTEN, parts="partition_data")
    transaction = by_name(_TRANSACTION, ("w", "v"), parts="partition_data")
    return [
        Request("", "Produce", 3, {**_PRODUCE, "topic_data": named}, write),
        Request("", "Produce", 12, {**_PRODUCE, "topic_data": named}, write),
        Request("acks=1", "Produce", 9, {**_PRODUCE, "acks": 1, "topic_data": named}, write),
        Request(
            "one topic", "Produce", 9,
            {**_PRODUCE, "topic_data": by_name(_RECORDS, ("w",), parts="partition_data")}, write,
        ),
        Request(
            "one topic", "Produce", 13,
            {**_PRODUCE, "topic_data": by_id(_RECORDS, ("w",), parts="partition_data")[:1]}, write,
        ),
        Request(
            "by id", "Produce", 13,
            {**_PRODUCE, "topic_data": by_id(_RECORDS, ("w", "v"), parts="partition_data")}, write,
        ),
        Request(
            "a transaction", "Produce", 12,
            {**_PRODUCE, "transactional_id": "x", "topic_data": transaction},
            [*transactions(WRITE), *topics(WRITE, "w")],
        ),
        Request(
            "a transaction of another id", "Produce", 12,
            {**_PRODUCE, "transactional_id": None, "topic_data": transaction},
            [*transactions(WRITE), *topics(WRITE, "w")],
        ),
        Request(
            "invalid acks", "Produce", 9, {**_PRODUCE, "acks": 2, "topic_data": named}, write
        ),
        Request(
            "", "DeleteRecords", 2,
            {
                "timeout_ms": 5000,
                "topics": by_name(
                    {"partition_index": 0, "offset": 1}, ("r", "u", "gone", "none")
                ),
            },
            topics(DELETE, "r", "gone"),
        ),
    ]  # fmt: skip


def _tried_changes() -> list[Request]:
    tried = {"topics": _creations("new-a", "new-b"), "timeout_ms": 5000, "validate_only": True}
    counts = [{"name": each, "count": 2, "assignments": None} for each in NAMES]
    partitions = {"timeout_ms": 5000, "topics": counts}
    return [
        Request("valid only", "CreateTopics", 7, tried, topics(CREATE, "new-a")),
        Request("valid only", "CreateTopics", 4, tried, topics(CREATE, "new-a")),
        Request(
            "settings are shown", "CreateTopics", 7, tried,
            [*topics(CREATE, "new-a", "new-b"), *topics(DESCRIBE_CONFIGS, "new-a")],
        ),
        Request("right for the cluster", "CreateTopics", 7, tried, cluster(CREATE)),
        Request(
            "twice, an invalid name, one that exists", "CreateTopics", 7,
            {
                "topics": _creations("new-a", "new-a", "new-b", "a b", "t", "u", "__cluster_metadata"),
                "timeout_ms": 5000,
                "validate_only": True,
            },
            topics(CREATE, "new-a", "t", "__cluster_metadata"),
        ),
        Request(
            "", "CreatePartitions", 3, {**partitions, "validate_only": True}, topics(ALTER)
        ),
        Request(
            "twice", "CreatePartitions", 0,
            {"timeout_ms": 5000, "topics": [*counts, *counts[:2]], "validate_only": True},
            topics(ALTER),
        ),
    ]  # fmt: skip


def _changes() -> list[Request]:
    created = {"topics": _creations("new-a", "new-b"), "timeout_ms": 5000}
    counts = [{"name": each, "count": 2, "assignments": None} for each in NAMES]
    partitions = {"timeout_ms": 5000, "topics": counts}
    deleted = [
        *({"name": each} for each in ("d1", "d2", "gone", "none")),
        *({"name": None, "topic_id": Known(f"topic {each}")} for each in ("d3", "d4")),
        {"name": None, "topic_id": UNKNOWN_ID},
    ]
    return [
        Request("", "CreateTopics", 7, created, topics(CREATE, "new-a")),
        Request("", "CreatePartitions", 3, partitions, topics(ALTER)),
        Request("", "DeleteTopics", 6, {"topics": deleted, "timeout_ms": 5000}, topics(
            DELETE, "d1", "d3", "gone")),
        Request(
            "twice, and by name and id", "DeleteTopics", 6,
            {
                "timeout_ms": 5000,
                "topics": [
                    *({"name": each} for each in ("d2", "d2", "u")),
                    {"name": None, "topic_id": Known("topic d4")},
                    {"name": "d4"},
                    {"name": "d4", "topic_id": Known("topic d4")},
                ],
            },
            topics(DELETE, "d2", "d4"),
        ),
        Request(
            "", "DeleteTopics", 5,
            {"topic_names": ["d5", "d2", "gone", "none"], "timeout_ms": 5000},
            topics(DELETE, "d5", "gone"),
        ),
        Request(
            "right for the cluster", "DeleteTopics", 6,
            {"topics": [{"name": "d6"}, {"name": "gone"}], "timeout_ms": 5000}, cluster(DELETE),
        ),
        Request(
            "created automatically", "Metadata", 12, {"topics": [{"name": "n1"}, {"name": "n2"}]},
            topics(CREATE, "n1"),
        ),
        Request(
            "created automatically", "Metadata", 11, {"topics": [{"name": "n3"}, {"name": "a b"}]},
            [*cluster(CREATE), *topics(DESCRIBE, "n3")],
        ),
        Request(
            "created automatically", "Metadata", 4, {"topics": [{"name": "n4"}]},
            [*topics(CREATE, "n4"), *topics(DESCRIBE, "n4")],
        ),
    ]  # fmt: skip


def _changing() -> list[Request]:
    found = _tried_changes()
    controllers = [
        Request(each.title, each.api, each.version, each.fields, each.needs, is_on_controller=True)
        for each in found
    ]
    controllers.append(
        Request(
            "",
            "DeleteTopics",
            6,
            {
                "timeout_ms": 5000,
                "topics": [
                    *({"name": each} for each in ("gone", "u", "none")),
                    {"name": None, "topic_id": Known("topic u")},
                ],
            },
            topics(DELETE, "gone"),
            is_on_controller=True,
        )
    )
    return [*found, *controllers, *_changes()]


TOPIC_REQUESTS = [*_reading(), *_writing()]
CHANGES_OF_TOPICS = _changing()
"""They come last, because they change what the others see."""
