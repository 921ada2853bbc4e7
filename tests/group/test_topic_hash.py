"""The hash of the topics that a group subscribes to."""

from __future__ import annotations

from random import Random

import pytest
from compat.lab.toolchain import Missing
from tests.coordinator.support import LED, topic_id
from tests.group import java_oracle

from odradek.core.group.modern.topics import topic_hash, xxh3
from odradek.core.metadata.image import BrokerRegistration, ClusterImage, TopicImage

LENGTHS = (0, 1, 3, 4, 8, 9, 16, 17, 64, 128, 129, 240, 241, 256, 1024, 1025, 5000)


def broker(number, rack):
    return BrokerRegistration(number, 0, bytes(16), {}, {}, rack, False, False, False, (), None)


def test_what_the_hash_depends_on():
    topic = TopicImage("t", topic_id("t"), dict.fromkeys(range(2), LED))
    racks = [None, "a", "b", "aa"]
    hashes = {topic_hash(topic, ClusterImage({1: broker(1, rack)})) for rack in racks}
    hashes.add(topic_hash(TopicImage("s", topic.id, topic.partitions), ClusterImage()))
    hashes.add(topic_hash(TopicImage("t", topic_id("s"), topic.partitions), ClusterImage()))
    hashes.add(topic_hash(TopicImage("t", topic.id, {0: LED}), ClusterImage()))
    assert len(hashes) == len(racks) + 3
    assert topic_hash(topic, ClusterImage()) in hashes, "a broker that is not known has no rack"


def test_the_hash_of_an_empty_input():
    assert xxh3(b"") == 0x2D06800538D394C2


@pytest.mark.java
def test_as_apache_kafka_hashes():
    random = Random(3)
    texts = [random.randbytes(length) for length in LENGTHS]
    topics = [
        "topic A 3",
        "topic b.c-d 2 r1 rack-two r1",
        "topic x 40 ä",
        "topic long-name 700 a b c",
    ]
    questions = [f"hash\t{each.hex()}" for each in texts]
    questions += [each.replace(" ", "\t") for each in topics]
    try:
        answers = [int(each) for each in java_oracle.ask(questions)]
    except Missing as reason:
        pytest.skip(str(reason))
    assert answers[: len(texts)] == [xxh3(each) for each in texts]
    for line, answer in zip(topics, answers[len(texts) :], strict=True):
        _, name, count, *racks = line.split()
        brokers = {number: broker(number, rack) for number, rack in enumerate(racks)}
        led = LED._replace(replicas=tuple(brokers))
        topic = TopicImage(name, bytes(range(16)), dict.fromkeys(range(int(count)), led))
        assert topic_hash(topic, ClusterImage(brokers)) == answer, line
