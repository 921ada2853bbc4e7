"""Asks leaders where the epoch of a position ends in their log (OffsetForLeaderEpoch, KIP-320)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.client.core.asks import Ask, Link
from odradek.client.core.fetch_state import FetchState
from odradek.client.core.offset_lookups import ORDINARY
from odradek.client.core.routes import Routes
from odradek.client.errors import ClientError, broker_error
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.generated.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse

Outcome = tuple[int, int] | ClientError
"""The largest epoch that is not above that of the position, and its end. Both are -1 if there is none."""
Checked = Callable[[FetchState, int, Outcome, int], None]
"""Called with the partition, the version that was asked for, the outcome, and the time in ms."""


class EpochChecks:
    """Makes the requests."""

    def __init__(self, routes: Routes, request_timeout_ms: int) -> None:
        self._routes = routes
        self._request_timeout_ms = request_timeout_ms

    def ask(self, states: Iterable[FetchState], checked: Checked) -> list[Ask]:
        """Return a request to each leader whose link is ready. Its partitions are marked as asked."""
        by_leader: dict[int, list[FetchState]] = {}
        for state in states:
            by_leader.setdefault(self._routes.leader(state.topic_partition), []).append(state)
        asks = []
        for leader, some in by_leader.items():
            link: Link = leader, ORDINARY
            if self._routes.is_ready(link):
                asks.append(self._ask(link, some, checked))
        return asks

    def _ask(self, link: Link, states: list[FetchState], checked: Checked) -> Ask:
        topics: dict[str, OffsetForLeaderTopic] = {}
        asked: dict[TopicPartition, tuple[FetchState, int]] = {}
        for state in states:
            state.asked()
            key = state.topic_partition
            asked[key] = state, state.version
            topic = topics.get(key.topic)
            if topic is None:
                topic = topics[key.topic] = OffsetForLeaderTopic(topic=key.topic)
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=key.partition,
                    current_leader_epoch=state.leader_epoch,
                    leader_epoch=state.epoch,
                )
            )

        def answered(response: OffsetForLeaderEpochResponse, now_ms: int) -> None:
            left = dict(asked)
            for topic in response.topics:
                for each in topic.partitions:
                    key = TopicPartition(topic.topic, each.partition)
                    found = left.pop(key, None)
                    if found is not None:
                        error = broker_error(each.error_code, subject=f"partition {key}")
                        checked(*found, error or (each.leader_epoch, each.end_offset), now_ms)
            for found in left.values():
                checked(*found, ClientError("the broker's response lacks a partition"), now_ms)

        def failed(error: ClientError, now_ms: int) -> None:
            for found in asked.values():
                checked(*found, error, now_ms)

        return Ask(
            link,
            OffsetForLeaderEpochRequest(replica_id=-1, topics=list(topics.values())),
            OffsetForLeaderEpochResponse,
            answered,
            failed,
            timeout_ms=self._request_timeout_ms,
        )
