"""What a reader leaves out for a filter, no record that passes the filter is in."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from tests.support.run_seed import seeds

from odradek.model.topic_partition import TopicPartition
from odradek.spark.pushdown import COMPARISONS, Pushed

COMPARED = (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def passes(condition, record) -> bool:
    return COMPARISONS[type(condition)](record[condition.attribute[0]], condition.value)


@pytest.mark.parametrize("seed", seeds(50))
def test_a_read_is_limited_to_the_records_that_pass(seed):
    draw = random.Random(seed)
    records = [
        {"topic": topic, "partition": partition, "offset": offset}
        for topic in ("a", "b")
        for partition in range(3)
        for offset in range(5, 15)
    ]
    conditions = []
    for _ in range(draw.randrange(4)):
        column, high = draw.choice((("partition", 3), ("offset", 20), ("topic", 0)))
        values = ["a", "b", "c"] if column == "topic" else list(range(-1, high))
        kinds = COMPARED if column == "offset" else (*COMPARED, In)
        kind = draw.choice(kinds)
        value = tuple(draw.sample(values, 2)) if kind is In else draw.choice(values)
        conditions.append(kind((column,), value))
    pushed = Pushed()
    assert list(pushed.take(conditions)) == []
    read = [
        record
        for record in records
        if pushed.selects(TopicPartition(record["topic"], record["partition"]))
        and record["offset"] in range(*pushed.limited((5, 15)))
    ]
    expected = [record for record in records if all(passes(c, record) for c in conditions)]
    assert read == expected, f"seed {seed}: {conditions}"


def test_a_lower_bound_of_the_time_is_used_and_checked_by_spark():
    early, late = (datetime(2026, 1, 1, 0, 0, s, 1999, tzinfo=UTC) for s in (1, 2))
    filters = [
        GreaterThan(("timestamp",), early),
        GreaterThanOrEqual(("timestamp",), late),
        LessThan(("timestamp",), late),
    ]
    pushed = Pushed()
    assert list(pushed.take(filters)) == filters
    assert (
        pushed.timestamp_ms == int(datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC).timestamp()) * 1000 + 1
    )


def test_other_filters_are_left_to_spark():
    filters = [
        IsNotNull(("offset",)),
        Not(EqualTo(("partition",), 1)),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        In(("offset",), (1, 2)),
    ]
    pushed = Pushed()
    assert list(pushed.take(filters)) == filters
    assert pushed == Pushed()
