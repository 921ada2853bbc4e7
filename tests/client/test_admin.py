"""Admin requests to a live broker."""

from __future__ import annotations

import uuid

import pytest

from odradek.client.admin.cluster import (
    api_versions,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    features,
)
from odradek.client.admin.configs import (
    Change,
    Resource,
    alter_configs,
    describe_configs,
    list_config_resources,
)
from odradek.client.admin.topics import (
    NewTopic,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
)
from odradek.client.errors import BrokerError, NoSuchTopicError
from odradek.client.offsets import EARLIEST, offsets_at
from odradek.client.producer import Producer
from odradek.model.config_resource import Operation, ResourceType, Source
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition


@pytest.fixture
def name():
    return f"test-{uuid.uuid4().hex[:12]}"


def code(result):
    assert isinstance(result, BrokerError), result
    return result.code


def test_the_life_of_a_topic(cluster, name):
    created = create_topics(cluster, [NewTopic(name, 2, 1, {"retention.ms": "1000"})])[name]
    assert (created.partitions, created.replication_factor) == (2, 1)
    assert created.configs["retention.ms"] == "1000"
    assert cluster.topic(name).id == created.id
    assert code(create_topics(cluster, [NewTopic(name)])[name]) == ErrorCode.TOPIC_ALREADY_EXISTS
    create_partitions(cluster, name, 3)
    while len(cluster.topic(name).partitions) != 3:
        cluster.forget_topic(name)
    with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
        create_partitions(cluster, name, 3)
    assert delete_topics(cluster, [name]) == {name: None}
    assert code(delete_topics(cluster, [name])[name]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_only_checking(cluster, name):
    results = create_topics(cluster, [NewTopic(name, 2), NewTopic("a/b")], validate_only=True)
    assert results[name].partitions == 2
    assert code(results["a/b"]) == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(NoSuchTopicError):
        cluster.topic(name)


def test_placing_replicas(cluster, name):
    (broker, *_) = cluster.refresh([]).nodes
    wanted = [
        NewTopic(name, assignments=[[broker], [broker]]),
        NewTopic(name + "-bad", assignments=[[999_999]]),
    ]
    results = create_topics(cluster, wanted)
    assert results[name].partitions == 2
    assert code(results[name + "-bad"]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    delete_topics(cluster, [name])


def test_settings_of_a_topic(cluster, make_topic):
    topic = Resource(ResourceType.TOPIC, make_topic(retention_ms=5000))
    entries = {e.name: e for e in describe_configs(cluster, [topic], documentation=True)[topic]}
    retention = entries["retention.ms"]
    assert (retention.value, retention.source, retention.value_type) == (
        "5000",
        Source.TOPIC,
        "long",
    )
    assert retention.is_set
    assert retention.documentation
    assert retention.synonyms[0].source == Source.TOPIC
    assert not entries["segment.ms"].is_set
    changes = [
        Change("retention.ms", None, Operation.DELETE),
        Change("cleanup.policy", "compact"),
    ]
    assert alter_configs(cluster, {topic: changes}) == {topic: None}
    names = ["retention.ms", "cleanup.policy"]

    def values():
        found = describe_configs(cluster, [topic], names=names)[topic]
        return {entry.name: entry.value for entry in found}

    while values()["cleanup.policy"] != "compact":
        pass  # the broker learns of it a moment later
    assert values()["retention.ms"] != "5000"
    error = alter_configs(cluster, {topic: [Change("no.such.setting", "1")]})[topic]
    assert code(error) == ErrorCode.INVALID_CONFIG


def test_settings_of_a_broker(cluster):
    (broker, *_) = cluster.refresh([]).nodes
    resource = Resource(ResourceType.BROKER, str(broker))
    entries = {e.name: e for e in describe_configs(cluster, [resource])[resource]}
    assert entries["node.id"].read_only
    assert entries["log.retention.hours"].value == "168"


def test_settings_of_nothing(cluster):
    resource = Resource(ResourceType.TOPIC, "no-such-topic")
    result = describe_configs(cluster, [resource])[resource]
    assert code(result) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_has_settings(cluster, make_topic):
    topic = make_topic()
    found = list_config_resources(cluster, [ResourceType.TOPIC])
    assert Resource(ResourceType.TOPIC, topic) in found


def test_deleting_records(cluster, make_topic):
    topic = make_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Producer(cluster) as producer:
        for _ in range(10):
            producer.send(topic, b"x", partition=0)
            producer.send(topic, b"x", partition=1)
    assert delete_records(cluster, {first: 4, second: -1}) == {first: 4, second: 10}
    assert offsets_at(cluster, [first, second], EARLIEST) == {first: 4, second: 10}
    assert code(delete_records(cluster, {first: 99})[first]) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_cluster(cluster):
    info = describe_cluster(cluster)
    assert len(info.cluster_id) == 22
    (broker, *_) = info.brokers
    assert not broker.fenced
    quorum = describe_quorum(cluster)
    assert quorum.leader_id in {voter.id for voter in quorum.voters}
    levels = {feature.name: feature.level for feature in features(cluster.any())}
    assert levels["metadata.version"] >= 7
    offered = {each.key: each.version_max for each in api_versions(cluster.any())}
    assert offered[3] >= 12


def test_log_directories(cluster, make_topic):
    topic = make_topic(partitions=2)
    with Producer(cluster) as producer:
        producer.send(topic, b"x" * 1000, partition=0)
        producer.send(topic, b"", partition=1)
    keys = [TopicPartition(topic, index) for index in range(2)]
    (broker, *_) = cluster.refresh([]).nodes
    sizes = {}
    for directory in describe_log_dirs(cluster, broker, keys):
        assert directory.error is None
        assert directory.total_bytes >= directory.usable_bytes > 0
        sizes |= directory.sizes
    assert sizes[keys[0]] > 1000 > sizes[keys[1]] > 0
    everything = [key for d in describe_log_dirs(cluster, broker) for key in d.sizes]
    assert set(keys) <= set(everything)


def test_producers(cluster, make_topic):
    topic = make_topic()
    key = TopicPartition(topic, 0)
    with Producer(cluster) as producer:
        producer.send(topic, b"x")
        producer.send(topic, b"y")
    (state,) = describe_producers(cluster, [key])[key]
    assert (state.producer_epoch, state.last_sequence) == (0, 1)
