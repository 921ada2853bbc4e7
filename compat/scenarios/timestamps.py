"""Timestamps of records, and offsets found by them."""

from __future__ import annotations

import time

from compat.driver import Record
from compat.scenarios.stage import Stage, equal, holds, scenario

START_MS = 1_700_000_000_000
SKEW_MS = 60_000


@scenario("create time")
def create_time(stage: Stage) -> None:
    """The producer's timestamps come back, also when they go backwards."""
    topic = stage.topic(retention_ms="-1")
    stamps = [START_MS, START_MS + 5, START_MS - 86_400_000, START_MS + 1, 1]
    stage.driver.produce(topic, [Record(b"v", timestamp=stamp) for stamp in stamps])
    read = stage.driver.read(topic, len(stamps))
    equal([record.timestamp for record in read], stamps, "timestamps")


@scenario("log append time")
def log_append_time(stage: Stage) -> None:
    """With LogAppendTime the broker's clock counts, not the producer's."""
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    stage.driver.produce(topic, [Record(b"v", timestamp=START_MS) for _ in range(3)])
    after = int(time.time() * 1000)
    stamps = [record.timestamp for record in stage.driver.read(topic, 3)]
    holds(
        all(before - SKEW_MS <= stamp <= after + SKEW_MS for stamp in stamps),
        f"timestamps {stamps} are not between {before} and {after}",
    )
    holds(all(batch.log_append_time for batch in stage.batches(topic)), "the batches do not say so")


@scenario("offsets by timestamp")
def offsets_by_timestamp(stage: Stage) -> None:
    """The first offset at or after a time; earliest and latest; nothing after the last."""
    topic = stage.topic(retention_ms="-1")
    for n in range(10):
        records = [Record(b"v", timestamp=START_MS + n * 1000 + i) for i in range(3)]
        stage.driver.produce(topic, records)
    find = stage.driver.offset
    equal(find(topic, 0, "earliest"), 0, "earliest")
    equal(find(topic, 0, "latest"), 30, "latest")
    equal(find(topic, 0, START_MS - 1), 0, "before the first")
    equal(find(topic, 0, START_MS + 4000), 12, "at the first of a batch")
    equal(find(topic, 0, START_MS + 4001), 13, "in the middle of a batch")
    equal(find(topic, 0, START_MS + 4500), 15, "between two batches")
    late = find(topic, 0, START_MS + 1_000_000)
    holds(late in (None, 30), f"after the last: {late}, expected none or the end of the log")
