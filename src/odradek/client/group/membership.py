"""Membership in a classic consumer group: joins, assigns partitions, sends heartbeats, leaves.

    outside --join--> member of a generation --heartbeat says so--> join again
                          |
                          +--leave, fenced, or the session runs out--> outside

There is no thread. The owner calls `heartbeat` at least every few seconds. `heartbeat` sends a
request when one is due and does not wait for the response. A later call reads the response. `join`
waits for the whole group, up to the rebalance timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from odradek.client.cluster import Cluster
from odradek.client.commits import OUTSIDER, Identity
from odradek.client.connection import Connection, Pending
from odradek.client.core import group_protocol
from odradek.client.core.assignors import ASSIGNORS
from odradek.client.deadline import Backoff, Deadline, monotonic_ms
from odradek.client.errors import BrokerError, ClientError, check
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.heartbeat_request import HeartbeatRequest
from odradek.wire.generated.heartbeat_response import HeartbeatResponse
from odradek.wire.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.generated.join_group_response import JoinGroupResponse
from odradek.wire.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.generated.leave_group_response import LeaveGroupResponse
from odradek.wire.generated.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from odradek.wire.generated.sync_group_response import SyncGroupResponse

_ANSWER_EXTRA_MS = 5_000
"""Added to the rebalance timeout in the wait for a response, because the coordinator may respond to
a join as late as the end of the rebalance timeout."""

_EAGER = [name for name, each in ASSIGNORS.items() if not each.is_cooperative]
"""This member gives up all partitions before it joins again."""

_JOIN_AGAIN = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
)
_FORGOTTEN = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class Membership:
    """One member of a group. It commits offsets with its `identity`."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        *,
        assignors: Sequence[str] = ("range", "roundrobin"),
        instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 60_000,
        heartbeat_interval_ms: int = 3_000,
    ) -> None:
        """`assignors` are in order of preference. `instance_id` makes a static member (KIP-345).

        Raises:
            ValueError: there is no such assignor.
        """
        for name in assignors:
            if name not in _EAGER:
                raise ValueError(f"{name!r} is not an assignor; there are {', '.join(_EAGER)}")
        self._cluster = cluster
        self._group = group
        self._topics = sorted(set(topics))
        self._assignors = assignors
        self._instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._member_id = ""
        self._generation_id = -1
        self._owned: tuple[TopicPartition, ...] = ()
        self._heartbeat_due_ms = 0
        self._heartbeat: tuple[Connection, Pending[HeartbeatResponse]] | None = None

    @property
    def identity(self) -> Identity:
        """The identity of this member in the group; `OUTSIDER` before the first join."""
        if self._generation_id < 0:
            return OUTSIDER
        return Identity(self._generation_id, self._member_id, self._instance_id)

    # -- joining ----------------------------------------------------------------------------

    def join(self) -> tuple[TopicPartition, ...]:
        """Join, or join again, and get an assignment.

        Raises:
            BrokerError: the group rejects this member (another protocol, full, fenced).
            ClientError: the coordinator does not respond.
        """
        deadline = Deadline(self._rebalance_timeout_ms + self._cluster.timeout_ms)
        backoff = Backoff(50, 1000)
        self._heartbeat = None
        while True:
            try:
                joined = self._join_once()
                self._owned = self._sync(joined)
            except ClientError as error:
                self._cluster.forget_coordinator(self._group)
                if not self._joins_again(error):
                    raise
                if not self._is_prompt(error) and not backoff.pause(deadline):
                    raise
            else:
                self._heartbeat_due_ms = monotonic_ms() + self._heartbeat_interval_ms
                return self._owned

    def _joins_again(self, error: ClientError) -> bool:
        """Return whether joining again may succeed. Reset this member if its session has ended."""
        if isinstance(error, BrokerError) and error.code in _JOIN_AGAIN:
            if error.code in _FORGOTTEN:
                self._forget()
            return True
        return error.retriable

    @staticmethod
    def _is_prompt(error: ClientError) -> bool:
        return isinstance(error, BrokerError) and error.code in _JOIN_AGAIN

    def _join_once(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=group_protocol.PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._metadata(name))
                for name in self._assignors
            ],
        )
        connection = self._cluster.coordinator(self._group)
        response = connection.request(
            request, JoinGroupResponse, self._rebalance_timeout_ms + _ANSWER_EXTRA_MS
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        check(response.error_code, subject=f"group {self._group}")
        self._member_id = response.member_id
        self._generation_id = response.generation_id
        return response

    def _metadata(self, assignor: str) -> bytes:
        owned = self._owned if self._generation_id >= 0 else None
        return group_protocol.encode_subscription(
            self._topics,
            self._owned,
            self._generation_id,
            user_data=ASSIGNORS[assignor].user_data(owned, self._generation_id),
        )

    def _sync(self, joined: JoinGroupResponse) -> tuple[TopicPartition, ...]:
        """Send the assignment as the leader, or receive it as a follower."""
        assignments = []
        if joined.leader == self._member_id and not joined.skip_assignment:
            assignments = self._share_out(joined)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=group_protocol.PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        connection = self._cluster.coordinator(self._group)
        response = connection.request(
            request, SyncGroupResponse, self._rebalance_timeout_ms + _ANSWER_EXTRA_MS
        )
        check(response.error_code, subject=f"group {self._group}")
        return group_protocol.decode_assignment(response.assignment)

    def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = {
            each.member_id: group_protocol.decode_subscription(
                each.metadata, each.group_instance_id
            )
            for each in joined.members
        }
        wanted = {topic for each in members.values() for topic in each.topics}
        metadata = self._cluster.refresh(wanted)
        racks = {name: metadata.racks_of(name) for name in wanted if name in metadata.topics}
        assignor = ASSIGNORS[joined.protocol_name or self._assignors[0]]
        shares = assignor.assign(racks, members)
        return [
            SyncGroupRequestAssignment(
                member_id=member, assignment=group_protocol.encode_assignment(partitions)
            )
            for member, partitions in shares.items()
        ]

    # -- staying ----------------------------------------------------------------------------

    def heartbeat(self) -> bool:
        """Send a heartbeat if one is due. Return whether this member must join again.

        Raises:
            BrokerError: a permanent error. For example, another member has replaced this member
                (FENCED_INSTANCE_ID).
        """
        try:
            code = self._heartbeat_answer()
            if code is None and self._heartbeat is None:
                self._send_heartbeat()
        except ClientError as error:
            self._heartbeat = None
            self._cluster.forget_coordinator(self._group)
            if isinstance(error, BrokerError) and not error.retriable:
                raise
            return False
        return code is not None and code in _JOIN_AGAIN

    def _heartbeat_answer(self) -> ErrorCode | None:
        """Return the error of the last heartbeat; None without an error or without a response."""
        if self._heartbeat is None:
            return None
        response = self._heartbeat[0].poll(self._heartbeat[1])
        if response is None:
            if monotonic_ms() > self._heartbeat_due_ms + self._session_timeout_ms:
                self._heartbeat[0].close()
            return None
        self._heartbeat = None
        try:
            check(response.error_code, subject=f"group {self._group}")
        except BrokerError as error:
            if error.code not in _JOIN_AGAIN:
                raise
            if error.code in _FORGOTTEN:
                self._forget()
            return error.code
        return None

    def _send_heartbeat(self) -> None:
        now_ms = monotonic_ms()
        if now_ms < self._heartbeat_due_ms:
            return
        self._heartbeat_due_ms = now_ms + self._heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        connection = self._cluster.coordinator(self._group)
        self._heartbeat = connection, connection.send(request, HeartbeatResponse)

    def _forget(self) -> None:
        """Reset to the state of a non-member without partitions."""
        self._member_id = ""
        self._generation_id = -1
        self._owned = ()

    # -- leaving ----------------------------------------------------------------------------

    def leave(self) -> None:
        """Leave the group, so that its other members get the partitions before the session expires.

        A static member does not leave, because it may return before its session expires.

        Raises:
            ClientError: the coordinator does not respond.
        """
        member_id, self._heartbeat = self._member_id, None
        self._forget()
        if not member_id or self._instance_id is not None:
            return
        request = LeaveGroupRequest(
            group_id=self._group,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id, reason="the consumer is closed")],
        )
        self._cluster.ask_coordinator(self._group, request, LeaveGroupResponse)
