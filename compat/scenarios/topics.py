"""Topics and their settings."""

from __future__ import annotations

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, eventually, refused, same_contents, scenario


@scenario("create and delete topic")
def create_and_delete_topic(stage: Stage) -> None:
    """A topic appears, cannot be created twice, is gone after deletion, and can come again."""
    topic = stage.topic(partitions=5)
    eventually(stage.driver.topics, lambda names: topic in names, "the topic is listed")
    equal(stage.driver.partitions(topic), 5, "partitions")
    refused(lambda: stage.driver.create_topic(topic, 5), "TOPIC_ALREADY_EXISTS")
    stage.driver.produce(topic, [Record(b"old")])
    stage.driver.delete_topic(topic)
    eventually(stage.driver.topics, lambda names: topic not in names, "the topic is gone")
    stage.driver.create_topic(topic, 1)
    eventually(stage.driver.topics, lambda names: topic in names, "the topic is listed again")
    equal(stage.driver.produce(topic, [Record(b"new")]), [0], "offset in the new topic")
    same_contents(stage.driver.read(topic, 1), [Record(b"new")], "the new topic")


@scenario("refused topics")
def refused_topics(stage: Stage) -> None:
    """A bad name, a bad setting and a bad number of partitions have Kafka's errors."""
    create = stage.driver.create_topic
    refused(lambda: create("no/such name!"), "INVALID_TOPIC_EXCEPTION", "TOPIC_EXCEPTION")
    bad = {"retention.ms": "a while"}
    refused(lambda: create(stage.name("setting"), 1, bad), "INVALID_CONFIG")
    unknown = {"no.such.setting": "1"}
    refused(lambda: create(stage.name("unknown"), 1, unknown), "INVALID_CONFIG")
    refused(lambda: create(stage.name("zero"), 0), "INVALID_PARTITIONS", "INVALID_ARG")
    refused(lambda: stage.driver.delete_topic(stage.name("none")), *UNKNOWN_TOPIC)


UNKNOWN_TOPIC = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PART")


@scenario("add partitions")
def add_partitions(stage: Stage) -> None:
    """A topic grows from 1 partition to 4, and never shrinks."""
    topic = stage.topic()
    stage.driver.produce(topic, [Record(b"before")])
    stage.driver.add_partitions(topic, 4)
    eventually(lambda: stage.driver.partitions(topic), lambda count: count == 4, "partitions")
    refused(lambda: stage.driver.add_partitions(topic, 2), "INVALID_PARTITIONS")
    equal(stage.driver.produce(topic, [Record(b"after", partition=3)]), [0], "offset")
    read = stage.driver.read(topic, 2, partitions=[0, 3])
    equal({record.value for record in read}, {b"before", b"after"}, "values")


@scenario("topic settings")
def topic_settings(stage: Stage) -> None:
    """Settings given at creation are described, altered and described again."""
    topic = stage.topic(retention_ms="123456789", cleanup_policy="compact")
    described = stage.driver.describe_topic(topic)
    equal(described["retention.ms"], "123456789", "retention.ms")
    equal(described["cleanup.policy"], "compact", "cleanup.policy")
    equal(described["max.message.bytes"], "1048588", "max.message.bytes, a default")
    stage.driver.alter_topic(topic, "retention.ms", "987654321")
    eventually(
        lambda: stage.driver.describe_topic(topic)["retention.ms"],
        lambda value: value == "987654321",
        "altered retention.ms",
    )
    refused(
        lambda: stage.driver.alter_topic(topic, "retention.ms", "never"),
        "INVALID_CONFIG",
        "InvalidConfigurationException",
    )


@scenario("delete records")
def delete_records(stage: Stage) -> None:
    """Records before an offset are gone, the others keep their offsets."""
    topic = stage.topic()
    stage.driver.produce(topic, [Record(str(n).encode()) for n in range(20)])
    stage.driver.delete_records(topic, 0, 12)
    equal(stage.driver.offset(topic, 0, "earliest"), 12, "earliest")
    equal(stage.driver.offset(topic, 0, "latest"), 20, "latest")
    read = stage.driver.read(topic, 8, start=12)
    equal([record.offset for record in read], list(range(12, 20)), "offsets")
    equal([record.value for record in read], [str(n).encode() for n in range(12, 20)], "values")
