"""A Streams group is told the same of a topology by Kafka Streams and by us."""

from __future__ import annotations

import os

import pytest
from tests.streams_api.generator import generate
from tests.streams_api.interpreter import build

from odradek.streams.process.group_topology import group_topology

COUNT = int(os.environ.get("ODRADEK_TOPOLOGIES", "60"))
"""How many random topologies are compared."""


def ours(request):
    """Our topology in the JSON of Kafka's messages."""
    message = group_topology(build(request).topology()).message()
    return {
        "epoch": message.epoch,
        "subtopologies": [
            {
                "subtopologyId": each.subtopology_id,
                "sourceTopics": each.source_topics,
                "sourceTopicRegex": each.source_topic_regex,
                "stateChangelogTopics": [topic(one) for one in each.state_changelog_topics],
                "repartitionSinkTopics": each.repartition_sink_topics,
                "repartitionSourceTopics": [topic(one) for one in each.repartition_source_topics],
                "copartitionGroups": [
                    {
                        "sourceTopics": one.source_topics,
                        "sourceTopicRegex": one.source_topic_regex,
                        "repartitionSourceTopics": one.repartition_source_topics,
                    }
                    for one in each.copartition_groups
                ],
            }
            for each in message.subtopologies
        ],
    }


def topic(info):
    return {
        "name": info.name,
        "partitions": info.partitions,
        "replicationFactor": info.replication_factor,
        "topicConfigs": [{"key": each.key, "value": each.value} for each in info.topic_configs],
    }


def in_order(message):
    """The same with the groups in order: Java has them in that of a hash set."""
    for each in message["subtopologies"]:
        for group in each["copartitionGroups"]:
            for places in group.values():
                places.sort()
        each["copartitionGroups"].sort(key=str)
    return message


@pytest.mark.java
def test_streams_groups_are_told_what_kafka_streams_tells(kafka_streams):
    compared = 0
    differences = []
    for seed in range(COUNT):
        request = {**generate(seed), "history": [], "wire": True}
        (answer,) = kafka_streams.ask([request])
        if "error" in answer:  # why Kafka Streams refuses a topology: see `comparison`
            continue
        mine = in_order(ours(request))
        compared += 1
        if in_order(answer["wire"]) != mine:
            differences.append((seed, answer["wire"], mine))
    assert differences == []
    assert compared > COUNT * 0.9
