"""Fetches one partition on a `Cluster`, response by response, for those who decode a whole response at once.

A consumer's fetcher (`core/fetcher`) has sessions, positions and batches. Who reads a known range of one
partition needs none of these, and decodes faster what has arrived together.
"""

from __future__ import annotations

from typing import TypeAlias

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.deadline import Deadline
from odradek.client.errors import ClientError, check
from odradek.client.frames import Pending
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData

_InFlight: TypeAlias = tuple[Connection, Pending[FetchResponse], int]
"""A fetch in flight: its connection, its request, and the requested offset."""


class PartitionFetch:
    """Fetches from the leader of a partition, which is looked up again after each error."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, isolation: int, wait_ms: int
    ) -> None:
        """`wait_ms` is how long the leader may wait for a first byte."""
        self._cluster = cluster
        self._partition = partition
        self._isolation = isolation
        self._wait_ms = wait_ms
        self._in_flight: _InFlight | None = None

    def send_ahead(self, offset: int, bytes_max: int) -> None:
        """Send a fetch whose response `fetch` will need. If that fails, `fetch` sends it again."""
        try:
            self._in_flight = self._send(offset, bytes_max)
        except ClientError:
            self._in_flight = None

    def fetch(self, offset: int, bytes_max: int) -> PartitionData:
        """Return the response to a fetch at an offset; that to the fetch sent ahead, if it fits.

        Raises:
            ClientError: see `Cluster.retrying`. OFFSET_OUT_OF_RANGE if the log does not have the offset.
        """

        def attempt(deadline: Deadline) -> PartitionData:
            in_flight, self._in_flight = self._in_flight, None
            try:
                if in_flight is None or in_flight[2] != offset:
                    in_flight = self._send(offset, bytes_max)
                connection, pending, _ = in_flight
                response = connection.receive(pending, deadline.remaining_ms)
                check(response.error_code)
                data: PartitionData = response.responses[0].partitions[0]
                check(data.error_code, subject=f"partition {self._partition}")
            except ClientError:
                self._cluster.forget_topic(self._partition.topic)
                raise
            return data

        return self._cluster.retrying(attempt)

    def _send(self, offset: int, bytes_max: int) -> _InFlight:
        topic, partition = self._partition
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=self._wait_ms,
            min_bytes=1 if self._wait_ms else 0,
            max_bytes=bytes_max,
            isolation_level=self._isolation,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id="",
        )
        connection = self._cluster.node(self._cluster.leader(self._partition))
        return connection, connection.send(request, FetchResponse), offset
