"""Plans of new committed offsets."""

from __future__ import annotations

import pytest

from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations import group_offsets
from odradek.operations.group_offsets import clamped, parse_offsets, shifted

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def test_offsets_are_shifted() -> None:
    assert shifted([A, B], {A: 10, B: 3}, -4) == {A: 6, B: -1}
    with pytest.raises(ClientError, match="nothing is committed to shift from: b-1"):
        shifted([A, B], {A: 10}, 1)


def test_offsets_outside_of_the_partition(monkeypatch) -> None:
    limits = {group_offsets.EARLIEST: 5, group_offsets.LATEST: 20}
    monkeypatch.setattr(
        group_offsets, "offsets_at", lambda _, keys, time_ms: dict.fromkeys(keys, limits[time_ms])
    )
    assert clamped(None, {A: -1, B: 99}) == {A: 5, B: 20}
    assert clamped(None, {A: 5, B: 12}) == {A: 5, B: 12}


@pytest.mark.parametrize(
    "text",
    [
        '"a",0,7\n\nb,1,8\n',
        ' [{"topic": "a", "partition": 0, "offset": 7}, {"topic": "b", "partition": "1", "offset": 8}]',
    ],
)
def test_both_forms_of_a_plan(text) -> None:
    assert parse_offsets(text) == {A: 7, B: 8}


@pytest.mark.parametrize("text", ["", "[]", "a,0", "a,0,x", "[1]", '[{"topic": "a"}]', "[{"])
def test_what_is_no_plan(text) -> None:
    with pytest.raises(ValueError, match=r"not a list of offsets|contains no offsets"):
        parse_offsets(text)
