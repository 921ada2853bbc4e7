"""Which fetch sessions are replaced when the cache is full (Kafka's FetchSessionCacheShard), and what
they know about topics."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from odradek.core.session.fetch import EVICTION_MS, FetchSessionCache
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)


class Sessions:
    """A cache of two sessions."""

    def __init__(self) -> None:
        self.cache = FetchSessionCache(2, itertools.count(1).__next__)

    def open(self, now_ms: int, partitions: int, replica_id: int = -1) -> int | None:
        """Return the id of a new session; None if there is no room."""
        wanted = [FetchPartition(partition=index) for index in range(partitions)]
        request = FetchRequest(
            session_epoch=0,
            replica_state=ReplicaState(replica_id=replica_id),
            topics=[FetchTopic(topic_id=bytes(16), partitions=wanted)],
        )
        session = self.cache.plan(request, now_ms, uses_topic_ids=True).session
        return None if session is None else session.id

    def use(self, now_ms: int, session_id: int, epoch: int = 1) -> bool:
        """Use a session. Return whether it still exists."""
        request = FetchRequest(session_id=session_id, session_epoch=epoch)
        return self.cache.plan(request, now_ms, uses_topic_ids=True).session is not None


def test_a_follower_replaces_the_smallest_session_of_a_consumer_at_once():
    sessions = Sessions()
    large, small = sessions.open(0, 9), sessions.open(0, 5)
    assert sessions.open(1, 10) is None
    assert sessions.open(1, 1, replica_id=2) is not None
    assert not sessions.use(2, small)
    assert sessions.use(2, large)


def test_a_consumer_does_not_replace_a_follower():
    sessions = Sessions()
    followers = [sessions.open(0, 1, replica_id=each) for each in (2, 3)]
    later = EVICTION_MS + 1
    assert all(sessions.use(EVICTION_MS - 1, each) for each in followers)
    assert sessions.open(later, 9) is None
    assert sessions.open(later, 9, replica_id=4) is not None


def test_a_consumer_replaces_an_old_smaller_session_or_one_that_is_not_used():
    sessions = Sessions()
    small, smaller = sessions.open(0, 5), sessions.open(EVICTION_MS, 2)
    assert sessions.use(EVICTION_MS, small)
    later = EVICTION_MS + 1
    assert sessions.open(later, 5) is None
    third = sessions.open(later, 6)
    assert third is not None
    assert not sessions.use(later, small)
    assert sessions.use(later, smaller)
    assert sessions.open(3 * EVICTION_MS, 1) is not None
    assert not sessions.use(3 * EVICTION_MS, third)


class Known(NamedTuple):
    name: str


TOPIC_ID = bytes(range(16))


def test_a_session_may_be_opened_before_the_topic_is_known():
    """The name is found later, so the errors after a deletion are those of a known topic."""
    cache = FetchSessionCache(9, itertools.count(1).__next__)
    wanted = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0)])
    request = FetchRequest(session_epoch=0, topics=[wanted])
    plan = cache.plan(request, 0, uses_topic_ids=True)
    (partition,) = plan.partitions
    assert partition.topic is None
    assert plan.session is not None
    for epoch, topics, name in ((1, {}, None), (2, {TOPIC_ID: Known("t")}, "t"), (3, {}, "t")):
        later = FetchRequest(session_id=plan.session.id, session_epoch=epoch)
        cache.plan(later, 0, True, topics)
        assert partition.topic == name
