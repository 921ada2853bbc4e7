"""The leader's side of replication: responses to Fetch and FetchSnapshot, and the high watermark.

If the leader has nothing new for a fetch, the fetch waits for records, for a newer high watermark,
or until its time is over. A fetch acknowledges its fetch offset only if the replica's log is equal
to this log up to this offset.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.core.raft.events import RequestReceived
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import NeedsSnapshot, compare
from odradek.core.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from odradek.core.raft.quorum import Quorum
from odradek.model.errors import ErrorCode


class _Waiting(NamedTuple):
    """A fetch that waits for something new."""

    token: Any
    request: FetchRequest
    deadline_ms: int


class Serving:
    """Responds to the fetches of the other replicas while this node leads."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._waiting: list[_Waiting] = []

    def on_fetch(self, now_ms: int, event: RequestReceived) -> None:
        """Process a Fetch request."""
        request = event.request
        assert isinstance(request, FetchRequest)
        error = self._problem(request.epoch)
        if min(request.epoch, request.offset, request.last_fetched_epoch) < 0:
            error = ErrorCode.INVALID_REQUEST
        if error:
            self._respond(event.token, error=error)
            return
        self._acknowledge(now_ms, request)
        waiting = _Waiting(event.token, request, now_ms + request.max_wait_ms)
        if not self._answer(now_ms, waiting):
            self._waiting.append(waiting)

    def _problem(self, epoch: int) -> ErrorCode:
        quorum = self._quorum
        if epoch < quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(quorum.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _acknowledge(self, now_ms: int, request: FetchRequest) -> None:
        """Apply the fetch to the replica's progress, unless the logs differ."""
        quorum = self._quorum
        leader = quorum.role
        assert isinstance(leader, Leader)
        progress = leader.progress_of(request.replica, now_ms)
        progress.postpone_begin_epoch(now_ms + quorum.settings.fetch_timeout_ms // 2)
        if compare(quorum.log, request.offset, request.last_fetched_epoch) is None:
            progress.on_fetch(now_ms, request.offset, quorum.log.end_offset)

    def _answer(self, now_ms: int, waiting: _Waiting) -> bool:
        """Respond to a fetch, unless the fetch must wait longer."""
        quorum, request = self._quorum, waiting.request
        leader = quorum.role
        assert isinstance(leader, Leader)
        difference = compare(quorum.log, request.offset, request.last_fetched_epoch)
        if isinstance(difference, NeedsSnapshot):
            self._respond(waiting.token, snapshot=difference.snapshot)
        elif difference is not None:
            self._respond(waiting.token, diverging=difference.end)
        elif request.offset < quorum.log.end_offset:
            self._respond(waiting.token, read_offset=request.offset)
        elif now_ms >= waiting.deadline_ms or request.high_watermark < leader.high_watermark:
            self._respond(waiting.token)
        else:
            return False
        return True

    def _respond(self, token: Any, **fields: Any) -> None:
        quorum = self._quorum
        leader = quorum.role
        response = FetchResponse(
            epoch=quorum.epoch,
            leader_id=quorum.leader_id,
            leader=quorum.leader_destination(),
            high_watermark=leader.high_watermark if isinstance(leader, Leader) else -1,
            log_start_offset=quorum.log.start_offset,
            **fields,
        )
        quorum.outbox.respond(token, response)

    def on_fetch_snapshot(self, now_ms: int, event: RequestReceived) -> None:
        """Process a FetchSnapshot request."""
        quorum, request = self._quorum, event.request
        assert isinstance(request, FetchSnapshotRequest)
        error = self._problem(request.epoch)
        leader = quorum.role
        if not error and isinstance(leader, Leader):
            progress = leader.progress_of(request.replica, now_ms)
            progress.postpone_begin_epoch(now_ms + quorum.settings.fetch_timeout_ms // 2)
            progress.is_alive(now_ms)
        response = FetchSnapshotResponse(
            error=error,
            epoch=quorum.epoch,
            leader_id=quorum.leader_id,
            leader=quorum.leader_destination(),
            snapshot=request.snapshot,
            position=request.position,
        )
        quorum.outbox.respond(event.token, response)

    def poll(self, now_ms: int) -> None:
        """Advance the high watermark, and respond to the fetches that need not wait any longer."""
        quorum = self._quorum
        leader = quorum.role
        waiting, self._waiting = self._waiting, []
        if not isinstance(leader, Leader):
            for each in waiting:
                error = self._problem(each.request.epoch) or ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._respond(each.token, error=error)
            return
        voters = quorum.log.voters
        if leader.advance(voters, quorum.log.flushed_offset, now_ms):
            quorum.commit(leader.high_watermark)
        leader.forget_observers(voters, now_ms - quorum.settings.observer_session_ms)
        self._waiting = [each for each in waiting if not self._answer(now_ms, each)]

    def next_deadline_ms(self) -> int | None:
        """Return when the first waiting fetch must get a response."""
        return min((each.deadline_ms for each in self._waiting), default=None)
