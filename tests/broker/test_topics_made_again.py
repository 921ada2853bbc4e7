"""Fetch sessions over topics that are deleted and made again: the errors of Apache Kafka 4.3.0.

All expected errors were read from Apache Kafka with the same requests.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient

from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.generated.create_topics_response import CreateTopicsResponse
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest
from odradek.wire.generated.delete_topics_response import DeleteTopicsResponse
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from odradek.wire.generated.fetch_response import FetchResponse
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse, MetadataResponseTopic

UNKNOWN_ID = bytes(range(16))
NONE = ErrorCode.NONE
UNKNOWN, UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
INCONSISTENT = ErrorCode.INCONSISTENT_TOPIC_ID

Topic = str | bytes
Named = dict[Topic, list[int]]


class Fetcher:
    """A connection with one fetch session."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.session_id = self.epoch = 0

    def create(self, name: str, partitions: int) -> bytes:
        """Create a topic. Return its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        created = self.client.call("CreateTopics", 7, request, CreateTopicsResponse).topics[0]
        assert created.error_code == 0
        while self._metadata(name).error_code:
            time.sleep(0.01)
        while self.client.serving(name, partitions) < partitions:
            time.sleep(0.01)
        return created.topic_id

    def delete(self, name: str) -> None:
        """Delete a topic."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        self.client.call("DeleteTopics", 5, request, DeleteTopicsResponse)
        while not self._metadata(name).error_code:
            time.sleep(0.01)

    def _metadata(self, name: str) -> MetadataResponseTopic:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        return self.client.call("Metadata", 12, request, MetadataResponse).topics[0]

    def open(self, topics: Named, version: int = 13) -> dict[tuple[Topic, int], int]:
        """Fetch, and begin a new session."""
        self.session_id = self.epoch = 0
        return self.fetch(topics, version=version)

    def fetch(
        self, topics: Named | None = None, forgotten: Named | None = None, version: int = 13
    ) -> dict[tuple[Topic, int], int]:
        """Fetch in the session. Return the errors of the partitions in the response."""
        response = self._ask(topics or {}, forgotten or {}, version, self.session_id, self.epoch)
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch += 1
        return _errors(response)

    def refused(self, version: int) -> int:
        """Return the error of a fetch in the session."""
        return self._ask({}, {}, version, self.session_id, self.epoch).error_code

    def outside(self, topics: Named) -> dict[tuple[Topic, int], int]:
        """Fetch without a session."""
        return _errors(self._ask(topics, {}, 13, 0, -1))

    def _ask(
        self, topics: Named, forgotten: Named, version: int, session_id: int, epoch: int
    ) -> FetchResponse:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic_id=topic if isinstance(topic, bytes) else bytes(16),
                    topic=topic if isinstance(topic, str) else "",
                    partitions=[
                        FetchPartition(partition=each, partition_max_bytes=1 << 20)
                        for each in partitions
                    ],
                )
                for topic, partitions in topics.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic, partitions=partitions)
                for topic, partitions in forgotten.items()
                if isinstance(topic, bytes)
            ],
        )
        return self.client.call("Fetch", version, request, FetchResponse)


def _errors(response: FetchResponse) -> dict[tuple[Topic, int], int]:
    return {
        (topic.topic or topic.topic_id, each.partition_index): each.error_code
        for topic in response.responses
        for each in topic.partitions
    }


@pytest.fixture
def fetcher(odradek_broker: Broker) -> Iterator[Fetcher]:
    port = int(odradek_broker.bootstrap_servers.rpartition(":")[2])
    with contextlib.closing(WireClient(port)) as client:
        yield Fetcher(client)


def test_a_session_learns_that_the_topic_is_another(fetcher: Fetcher) -> None:
    old = fetcher.create("t", 2)
    opened = fetcher.open({old: [0, 1], UNKNOWN_ID: [0]})
    assert opened == {(old, 0): NONE, (old, 1): NONE, (UNKNOWN_ID, 0): UNKNOWN_TOPIC_ID}
    never = {(UNKNOWN_ID, 0): UNKNOWN_TOPIC_ID}
    assert fetcher.fetch() == never
    fetcher.delete("t")
    assert fetcher.fetch() == {(old, 0): UNKNOWN, (old, 1): UNKNOWN, **never}
    assert fetcher.outside({old: [0]}) == {(old, 0): UNKNOWN_TOPIC_ID}
    new = fetcher.create("t", 1)
    found = {(old, 0): INCONSISTENT, (old, 1): UNKNOWN, **never}
    assert fetcher.fetch() == found
    assert fetcher.outside({old: [0]}) == {(old, 0): UNKNOWN_TOPIC_ID}
    assert fetcher.fetch({old: [0]}) == found
    assert fetcher.fetch({new: [0]}) == {(new, 0): NONE, **found}
    assert fetcher.fetch(forgotten={old: [0, 1]}) == never
    assert fetcher.fetch({old: [0]}) == {(old, 0): UNKNOWN_TOPIC_ID, **never}
    assert fetcher.refused(version=12) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert fetcher.fetch(forgotten={UNKNOWN_ID: [0]}) == {(old, 0): UNKNOWN_TOPIC_ID}


def test_a_session_by_name_goes_on_with_the_new_topic(fetcher: Fetcher) -> None:
    fetcher.create("t", 1)
    assert fetcher.open({"t": [0]}, version=12) == {("t", 0): NONE}
    fetcher.delete("t")
    assert fetcher.fetch(version=12) == {("t", 0): UNKNOWN}
    fetcher.create("t", 1)
    assert fetcher.fetch(version=12) == {("t", 0): NONE}
    assert fetcher.refused(version=13) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
