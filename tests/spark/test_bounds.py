"""Reads that begin after their end, and checkpoints of other queries, are refused with both names.

Spark is not started: the readers are called as Spark calls them.
"""

from __future__ import annotations

import json
import warnings

import pytest
from tests.spark.test_source import produce

from odradek.client.admin.topics import delete_records
from odradek.model.topic_partition import TopicPartition
from odradek.spark.options import read_options
from odradek.spark.readers import BatchReader, StreamReader
from odradek.spark.resolution import DataLossError

pytestmark = [pytest.mark.cluster]


@pytest.fixture
def topic(servers, make_topic) -> str:
    name = make_topic()
    produce(servers, name, [(0, str(i), 500 + 1000 * i) for i in range(10)])
    return name


@pytest.fixture
def options(servers):
    def made(streaming=False, **given):
        return read_options({"kafka.bootstrap.servers": servers, **given}, streaming)

    return made


@pytest.fixture
def stream(options):
    """A streaming reader, which ends with the test."""
    made = []

    def reader(**given):
        made.append(StreamReader(options(True, **given)))
        return made[-1]

    yield reader
    for each in made:
        each.stop()


def at(topic, offset):
    return json.dumps({topic: {"0": offset}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"startingOffsets": 8, "endingOffsets": 3},
            "startingOffsets is 8, but endingOffsets is 3",
        ),
        ({"startingOffsets": 500}, "startingOffsets is 500, but the partition ends at 10"),
        (
            {"startingOffsets": 500, "endingOffsets": -1},
            "startingOffsets is 500, but the partition ends at 10",
        ),
        (
            {"startingTimestamp": "7000", "endingTimestamp": "2000"},
            "startingTimestamp is 7000 .offset 7., but endingTimestamp is 2000 .offset 2.",
        ),
        (
            {"startingTimestamp": "1800", "endingTimestamp": "1600"},
            "startingTimestamp is 1800 .offset 2., but endingTimestamp is 1600 .offset 2.",
        ),
        (
            {"startingOffsetsByTimestamp": 7000, "endingOffsets": 3},
            "startingOffsetsByTimestamp is 7000 .offset 7., but endingOffsets is 3",
        ),
        (
            {"startingOffsets": 7, "endingOffsetsByTimestamp": 3000},
            "startingOffsets is 7, but endingOffsetsByTimestamp is 3000 .offset 3.",
        ),
    ],
)
def test_a_batch_that_starts_after_its_end_is_refused(topic, options, given, message):
    listed = {k: v if isinstance(v, str) else at(topic, v) for k, v in given.items()}
    with pytest.raises(ValueError, match=f"{topic}-0 would start after its end: {message}"):
        BatchReader(options(subscribe=topic, **listed)).partitions()


def test_a_batch_may_be_empty(topic, options):
    for given in (
        {"startingOffsets": at(topic, 10)},
        {"startingOffsets": at(topic, 4), "endingOffsets": at(topic, 4)},
        {"startingTimestamp": "2000", "endingTimestamp": "2000"},
    ):
        assert BatchReader(options(subscribe=topic, **given)).partitions() == []


def test_a_range_that_was_deleted_is_lost(topic, options, cluster):
    delete_records(cluster, {TopicPartition(topic, 0): 6})
    given = {"subscribe": topic, "endingOffsets": at(topic, 3)}
    with pytest.raises(DataLossError, match="begins at 6, but endingOffsets is 3"):
        BatchReader(options(**given)).partitions()
    with pytest.warns(UserWarning, match="begins at 6"):
        assert BatchReader(options(**given, failOnDataLoss="false")).partitions() == []


def test_a_stream_that_starts_beyond_the_end_is_refused(topic, stream):
    reader = stream(subscribe=topic, startingOffsets=at(topic, 999_999))
    with pytest.raises(ValueError, match=f"is 999999 for {topic}-0, but the partition ends at 10"):
        reader.initialOffset()
    reader = stream(subscribe=topic, startingOffsets=at(topic, 10))
    assert reader.initialOffset()[topic] == {"0": 10}


@pytest.mark.parametrize("loss", ["true", "false"])
@pytest.mark.parametrize("way", ["subscribe", "subscribePattern", "assign"])
def test_a_checkpoint_of_another_topic_is_refused(topic, stream, make_topic, loss, way):
    other = make_topic()
    before = stream(subscribe=topic, startingOffsets="earliest")
    start = before.initialOffset()
    end = before.latestOffset(start, before.getDefaultReadLimit())
    named = {"assign": json.dumps({other: [0]})}.get(way, other)
    after = stream(failOnDataLoss=loss, **{way: named})
    message = f"this checkpoint belongs to a query on {topic}, and this query reads {other}"
    with pytest.raises(ValueError, match=message):
        after.latestOffset(start, after.getDefaultReadLimit())
    with pytest.raises(ValueError, match=message):
        after.partitions(start, end)


def test_a_topic_that_is_no_longer_subscribed(topic, stream, make_topic):
    other = make_topic()
    before = stream(subscribe=f"{topic},{other}", startingOffsets="earliest")
    start = before.initialOffset()
    after = stream(subscribe=other)
    with pytest.raises(DataLossError, match=f"has {topic}-0, which this query does not read"):
        after.latestOffset(start, after.getDefaultReadLimit())
    after = stream(subscribe=other, failOnDataLoss="false")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        after.latestOffset(start, after.getDefaultReadLimit())
    assert any("does not read" in str(each.message) for each in found)
