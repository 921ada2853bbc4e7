"""Membership in a share group: builds ShareGroupHeartbeat requests, and has the assignment.

    joining (epoch 0) --response--> member (epoch > 0) --leave--> left (epoch -1)
        ^                               |
        +------ fenced, unknown --------+

A member chooses its own id. It gives up its assignment when it is fenced or unknown, and joins
again at once with the same id. A request has the subscribed topics if the member joins, or if the
previous heartbeat has failed (Kafka's `ShareHeartbeatRequestManager`).
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.errors import BrokerError, ClientError
from odradek.client.errors import error_code as code_of
from odradek.model.errors import ErrorCode
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
FIRST_WAIT_MS = 200
"""The first wait of a new member without partitions for the next heartbeat. The wait doubles up to
the interval of heartbeats. So a member of a new group does not wait for its partitions for 5 s,
which the coordinator needs only a moment to initialize."""
RETRY_MS = 100
RETRY_MS_MAX = 1_000
OLD_BROKER_ADVICE = "Share groups need Apache Kafka 4.1 or newer, or Odradek."
SHARE_VERSION_ADVICE = (
    "Share groups need share.version 1: run odradek cluster feature share.version=1. "
    "See the level: odradek cluster describe"
)

_COORDINATOR_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class ShareMembership:
    """One member of a share group, with at most one heartbeat in flight."""

    def __init__(
        self, group: str, member_id: str, topics: Iterable[str], rack: str | None = None
    ) -> None:
        self.group = group
        self.member_id = member_id
        self.topics = tuple(sorted(set(topics)))
        self._rack = rack
        self._epoch = JOIN_EPOCH
        self._assigned: tuple[tuple[bytes, int], ...] = ()
        self._sends_all = True
        self._in_flight = False
        self._due_ms: int | None = None
        self._retry_ms = RETRY_MS
        self._first_wait_ms = FIRST_WAIT_MS

    @property
    def epoch(self) -> int:
        """The member epoch. 0: joining. -1: left."""
        return self._epoch

    @property
    def assigned(self) -> tuple[tuple[bytes, int], ...]:
        """The assigned partitions: topic id and partition index."""
        return self._assigned

    def wait_ms(self, now_ms: int) -> int | None:
        """Return how long the next heartbeat may wait; None if a response must come first."""
        if self._in_flight or self._epoch == LEAVE_EPOCH:
            return None
        return 0 if self._due_ms is None else max(0, self._due_ms - now_ms)

    def request(self, now_ms: int) -> ShareGroupHeartbeatRequest | None:
        """Return the heartbeat if one is due. Then call `answered` or `failed`."""
        if self.wait_ms(now_ms) != 0:
            return None
        self._in_flight = True
        return ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rack_id=self._rack if self._sends_all else None,
            subscribed_topic_names=list(self.topics) if self._sends_all else None,
        )

    def leave(self) -> ShareGroupHeartbeatRequest | None:
        """Leave the group. Return the request, or None if the member is not in the group."""
        epoch, self._epoch = self._epoch, LEAVE_EPOCH
        self._assigned = ()
        is_joining = epoch == JOIN_EPOCH and not self._in_flight
        if epoch == LEAVE_EPOCH or is_joining:
            return None
        return ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def answered(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> bool:
        """Process a response. Return whether the coordinator has moved.

        Raises:
            ClientError: the group does not accept the member.
        """
        self._in_flight = False
        if self._epoch == LEAVE_EPOCH:
            return False
        if not response.error_code:
            self._epoch = response.member_epoch
            self._sends_all = False
            self._retry_ms = RETRY_MS
            if response.assignment is not None:
                self._assigned = tuple(
                    (topic.topic_id, index)
                    for topic in response.assignment.topic_partitions
                    for index in topic.partitions
                )
            self._due_ms = now_ms + self._interval_ms(response.heartbeat_interval_ms)
            return False
        return self._refused(response, now_ms)

    def _interval_ms(self, usual_ms: int) -> int:
        """Return the time to the next heartbeat; a new member without partitions asks soon."""
        if self._assigned:
            return usual_ms
        wait_ms = min(self._first_wait_ms, usual_ms)
        self._first_wait_ms = 2 * wait_ms
        return wait_ms

    def _refused(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> bool:
        code = code_of(response.error_code)
        is_unknown = code in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID} or (
            code == ErrorCode.GROUP_ID_NOT_FOUND and self._epoch > JOIN_EPOCH
        )
        self._sends_all = True
        if is_unknown and self._epoch > JOIN_EPOCH:
            self._epoch = JOIN_EPOCH
            self._assigned = ()
            self._due_ms = None
            self._first_wait_ms = FIRST_WAIT_MS
            return False
        self._rest(now_ms)
        if code in _COORDINATOR_MOVED:
            return True
        if code.retriable or is_unknown:
            return False
        advice = SHARE_VERSION_ADVICE if code == ErrorCode.UNSUPPORTED_VERSION else ""
        raise BrokerError(code, response.error_message, f"group {self.group}", advice)

    def failed(self, now_ms: int, error: ClientError) -> None:
        """Retry later, because the coordinator could not be asked.

        Raises:
            ClientError: a retry cannot succeed.
        """
        self._in_flight = False
        self._sends_all = True
        self._rest(now_ms)
        if not error.retriable:
            raise error

    def _rest(self, now_ms: int) -> None:
        self._due_ms = now_ms + self._retry_ms
        self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
