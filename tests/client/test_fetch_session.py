"""The client's side of fetch sessions."""

from __future__ import annotations

from odradek.client.core.fetch_session import FetchFrom, FetchSession
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.fetch_request import FetchRequest

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def at(offset):
    return FetchFrom(offset, 0, 100)


def filled(session, wanted):
    request = FetchRequest()
    session.fill(request, wanted)
    asked = {
        TopicPartition(t.topic, p.partition): p.fetch_offset
        for t in request.topics
        for p in t.partitions
    }
    forgotten = {
        TopicPartition(t.topic, index)
        for t in request.forgotten_topics_data
        for index in t.partitions
    }
    return request.session_id, request.session_epoch, asked, forgotten


def test_only_changes_are_sent():
    session = FetchSession()
    assert filled(session, {A: at(0), B: at(0)}) == (0, 0, {A: 0, B: 0}, set())
    session.accepted(99)
    assert filled(session, {A: at(5), B: at(0)}) == (99, 1, {A: 5}, set())
    session.accepted(99)
    assert filled(session, {A: at(5)}) == (99, 2, {}, {B})
    session.accepted(99)
    assert filled(session, {A: at(5), B: at(0)}) == (99, 3, {B: 0}, set())


def test_a_reset_asks_for_everything():
    session = FetchSession()
    filled(session, {A: at(0)})
    session.accepted(99)
    session.reset()
    assert filled(session, {A: at(0)}) == (0, 0, {A: 0}, set())


def test_a_broker_may_keep_no_session():
    session = FetchSession()
    filled(session, {A: at(0)})
    session.accepted(0)
    assert filled(session, {A: at(0)}) == (0, 0, {A: 0}, set())


def test_without_sessions_each_request_stands_alone():
    session = FetchSession(enabled=False)
    for _ in range(2):
        assert filled(session, {A: at(0)}) == (0, -1, {A: 0}, set())
        session.accepted(0)


def test_the_epoch_wraps_to_one():
    session = FetchSession()
    filled(session, {A: at(0)})
    session.accepted(99)
    session._epoch = 2**31 - 1
    session.accepted(99)
    assert filled(session, {A: at(0)})[:2] == (99, 1)
