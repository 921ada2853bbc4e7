"""Requests of the share APIs with one invalid field, and sequences that end with invalid requests.

The responses are the same as Apache Kafka's, the memory is bounded, and refused requests with one
invalid field change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker as Process
from compat.lab.odradek_node import OdradekNode
from tests.bad_input.coordinators.recorded_answers import check_answers, recorded_answers
from tests.bad_input.coordinators.requests import Broker, Outcome, create_topic
from tests.bad_input.recorded import AGAINST_APACHE, WAITS
from tests.bad_input.share.requests import (
    SETTINGS,
    ShareActor,
    produce,
    wait_for_share_coordinator,
)
from tests.bad_input.share.stories import STORIES, Story

FIELDS = "test_requests_with_one_invalid_field"
SEQUENCES = "test_sequences_of_requests"
"""The names of the recordings, which are those of the tests."""
REQUESTS = (
    ("ShareGroupHeartbeat", 1, "join_share"),
    ("ShareGroupDescribe", 1, "join_share"),
    ("ShareFetch", 2, "acquire"),
    ("ShareAcknowledge", 2, "acquire"),
    ("InitializeShareGroupState", 0, "write_state"),
    ("ReadShareGroupState", 0, "write_state"),
    ("WriteShareGroupState", 1, "write_state"),
    ("DeleteShareGroupState", 0, "write_state"),
    ("ReadShareGroupStateSummary", 1, "write_state"),
    ("DescribeShareGroupOffsets", 1, "set_offsets"),
    ("AlterShareGroupOffsets", 0, "set_offsets"),
    ("DeleteShareGroupOffsets", 0, "set_offsets"),
)
"""API, version, and the method of `ShareActor` that prepares the group."""
UNSTABLE = {"DescribeShareGroupOffsets 1 after set_offsets: groups = many"}
"""Apache Kafka answers some of these requests, and others never."""
AT_ONCE = 6
GROWTH_MAX = 60 << 20
"""Maximum growth of the node's memory."""


class Node(NamedTuple):
    """A node that serves share groups, and the topic of the requests."""

    port: int
    topic_id: bytes


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for both tests. It is checked at the end."""
    directory = tmp_path_factory.mktemp("node")
    kind: type[Process] = ApacheKafka if AGAINST_APACHE else OdradekNode
    with kind(settings=SETTINGS, directory=directory) as process:
        topic_id = create_topic(process.port)
        produce(process.port)
        wait_for_share_coordinator(process.port, topic_id)
        resident = process.rss_bytes()
        yield Node(process.port, topic_id)
        assert process.alive(), process.last_words()
        grown = process.rss_bytes() - resident
        said = process.log.read_text(encoding="utf-8")
    if not AGAINST_APACHE:
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:4000]
        assert grown < GROWTH_MAX, f"the node grew by {grown >> 20} MB"


def test_requests_with_one_invalid_field(node: Node) -> None:
    silent = {case for case, answer in recorded_answers(FIELDS).items() if answer == WAITS}
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def play(number: int) -> list[Outcome]:
            broker = Broker(node.port, node.topic_id, ShareActor, silent)
            try:
                return list(broker.play(number, *REQUESTS[number]))
            finally:
                broker.close()

        found = list(pool.map(play, range(len(REQUESTS))))
    outcomes = [each for request in found for each in request if each.what not in UNSTABLE]
    check_answers(FIELDS, outcomes)
    if AGAINST_APACHE:
        return
    refused = [each for each in outcomes if each.is_refused]
    assert len(refused) > len(outcomes) // 4, "so that something is refused at all"
    changed = [each for each in refused if each.before != each.after]
    assert not changed, "\n".join(f"{each}" for each in changed[:5])


def test_sequences_of_requests(node: Node) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def play(tell: Callable[[Story], None]) -> list[Outcome]:
            broker = Broker(node.port, node.topic_id, ShareActor)
            try:
                story = Story(broker, tell.__name__.replace("_", " "), node.topic_id)
                tell(story)
                return story.outcomes
            finally:
                broker.close()

        found = list(pool.map(play, STORIES))
    check_answers(SEQUENCES, [each for story in found for each in story])
