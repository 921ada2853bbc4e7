"""Share sessions: epochs, changes of partitions, the limit, and lost connections."""

from __future__ import annotations

import pytest

from odradek.core.share.session import EPOCH_MAX, FINAL_EPOCH, SessionKey, ShareSessions
from odradek.model.errors import ApiError, ErrorCode

TOPIC = b"t" * 16
KEY, OTHER = SessionKey("g", "m"), SessionKey("g", "other")
A, B, C = ((TOPIC, index) for index in range(3))


def refused(sessions: ShareSessions, key: SessionKey, epoch: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.use(key, epoch)
    return caught.value.code


def test_each_request_has_the_next_epoch() -> None:
    sessions = ShareSessions(2)
    session = sessions.open(KEY, [A], "connection")
    assert refused(sessions, KEY, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert refused(sessions, OTHER, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.use(KEY, 1, [B, C], [A]) is session
    assert list(session.partitions) == [B, C]
    assert sessions.partition_count == 2
    assert refused(sessions, KEY, 1) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.use(KEY, FINAL_EPOCH).epoch == 2
    session.epoch = EPOCH_MAX
    sessions.use(KEY, EPOCH_MAX)
    assert session.epoch == 1


def test_a_response_has_added_partitions_and_those_with_records_or_errors() -> None:
    session = ShareSessions(1).open(KEY, [A, B], "connection")
    assert not session.has_news(A, has_records=False, has_error=False)
    session.update([C], [])
    assert session.has_news(C, has_records=False, has_error=False)
    assert not session.has_news(C, has_records=False, has_error=False)
    assert session.has_news(A, has_records=True, has_error=False)
    assert list(session.partitions) == [B, C, A]
    assert session.has_news(B, has_records=False, has_error=True)
    assert session.has_news(B, has_records=False, has_error=False)  # the error is over


def test_the_number_of_sessions_is_limited() -> None:
    sessions = ShareSessions(1)
    sessions.open(KEY, [A], "connection")
    sessions.open(KEY, [A, B], "connection")  # replaces the first
    assert (len(sessions), sessions.partition_count, sessions.group_size("g")) == (1, 2, 1)
    with pytest.raises(ApiError) as caught:
        sessions.open(OTHER, [A], "connection")
    assert caught.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.remove(KEY) is not None
    assert sessions.group_size("g") == 0
    sessions.open(OTHER, [A], "connection")


def test_a_lost_connection_closes_only_its_own_session() -> None:
    sessions = ShareSessions(2)
    sessions.open(KEY, [A], "first")
    session = sessions.open(KEY, [A], "second")
    assert sessions.find_disconnected(KEY, "first") is None
    assert sessions.find_disconnected(KEY, "second") is session
    assert sessions.evictions == 1
