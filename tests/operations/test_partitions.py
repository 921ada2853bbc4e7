"""Partitions as words, and names that are meant."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from odradek.client.errors import ClientError, NoSuchTopicError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_health import reach
from odradek.operations.partitions import parse_numbers, select_partitions
from odradek.operations.suggestions import did_you_mean, suggest_topics


class Cluster:
    """Has the topics `a` with three partitions, and `flights` with one."""

    def __init__(self) -> None:
        self.topics = {"a": SimpleNamespace(partitions={0: 1, 1: 1, 2: 1}), "flights": None}

    def topic(self, name: str):
        return self.topics[name]

    def refresh(self, _names=None):
        return self


def test_numbers_and_ranges() -> None:
    assert parse_numbers("0,2-4") == [0, 2, 3, 4]


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1000000", "0-9999999"])
def test_what_is_no_list_of_partitions(text) -> None:
    with pytest.raises(ValueError, match=r"write partitions as|there is no partition"):
        parse_numbers(text)


def test_partitions_are_selected_once_in_the_order_of_the_words() -> None:
    a = [TopicPartition("a", index) for index in range(3)]
    assert select_partitions(Cluster(), ["a"]) == a
    assert select_partitions(Cluster(), ["a:2", "a"]) == [a[2], a[0], a[1]]
    assert select_partitions(Cluster(), ["a"], only=[1]) == [a[1]]
    with pytest.raises(NoSuchTopicError):
        select_partitions(Cluster(), ["a:0,3"])
    with pytest.raises(ValueError, match="write partitions as"):
        select_partitions(Cluster(), ["a:x"])


def test_names_that_are_meant() -> None:
    assert did_you_mean("flihgts", ["a", "flights"]) == "Did you mean flights?"
    assert did_you_mean("xyz", ["a", "flights"]) == ""
    other = ClientError("no")
    found = suggest_topics(Cluster(), [NoSuchTopicError("flihgts", None, "Create it."), other])
    assert found[0].advice == "Did you mean flights? Create it."
    assert found[1] is other


def test_brokers_that_cannot_be_reached() -> None:
    refused = ClientError("refused")

    class Brokers(Cluster):
        def refresh(self, _names=None):
            return SimpleNamespace(nodes={2: two, 1: one})

        def node(self, node_id: int) -> None:
            if node_id == 2:
                raise refused

    one, two = Named(1), Named(2)
    assert reach(Brokers()) == {one: None, two: refused}


class Named:
    """A broker with an id."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
