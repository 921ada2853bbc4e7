"""A consumer that is a member of a classic group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, commit_offsets, fetch_offsets
from odradek.client.consumer import Consumer
from odradek.client.errors import BrokerError, ClientError
from odradek.client.fetcher import FetchLimits
from odradek.client.group.membership import Membership
from odradek.client.group_metadata import GroupMetadata
from odradek.client.offsets import EARLIEST, READ_UNCOMMITTED, offsets_at
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record

_POLL_SLICE_MS = 1_000
"""The longest time that `poll` waits for records, so that heartbeats are sent in time."""

_COMMIT_TOO_LATE = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class GroupConsumer:
    """A consumer that joins its group in the first `poll`.

    Call `poll` at least every 45 s (the session timeout); otherwise the coordinator removes the
    member. `reset_to` (EARLIEST, LATEST or a time in ms) says where reading starts in a partition
    that has no committed offset, or whose offset is out of range. `on_revoked` is called before
    this member joins again. It can commit offsets. `on_assigned` is called after each rebalance
    with the assigned partitions and their first offsets.
    """

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Iterable[str],
        *,
        isolation: int = READ_UNCOMMITTED,
        limits: FetchLimits | None = None,
        reset_to: int = EARLIEST,
        assignors: Sequence[str] = ("range", "roundrobin"),
        instance_id: str | None = None,
        on_assigned: Callable[[Mapping[TopicPartition, int]], None] | None = None,
        on_revoked: Callable[[], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._isolation = isolation
        self._reset_to = reset_to
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._consumer = Consumer(cluster, isolation=isolation, limits=limits, reset_to=reset_to)
        self._membership = Membership(
            cluster, group, topics, assignors=assignors, instance_id=instance_id
        )
        self._joined = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next record that `poll` returns, by partition."""
        return self._consumer.positions

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for `Producer.send_offsets_to_transaction`."""
        identity = self._membership.identity
        return GroupMetadata(
            self._group, identity.generation_id, identity.member_id, identity.instance_id
        )

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Join the group if necessary, send a heartbeat if one is due, and return new records.

        `timeout_ms` limits the wait for records. The wait is never longer than 1 s. Joining the
        group may take longer.

        Raises:
            ClientError: see `Consumer.poll` and `Membership.join`.
        """
        if self._joined and self._membership.heartbeat():
            if self._on_revoked is not None:
                self._on_revoked()
            self._joined = False
        if not self._joined:
            self._join()
        return self._consumer.poll(min(timeout_ms, _POLL_SLICE_MS))

    def _join(self) -> None:
        held = self._membership.join()
        committed = fetch_offsets(self._cluster, self._group, held) if held else {}
        positions = {each: committed[each].offset for each in held if each in committed}
        fresh = [each for each in held if each not in committed]
        if fresh:
            positions |= offsets_at(self._cluster, fresh, self._reset_to, isolation=self._isolation)
        self._consumer.assign(positions)
        self._joined = True
        if self._on_assigned is not None:
            self._on_assigned(positions)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> bool:
        """Commit `offsets`, by default `positions`. Return False if the generation has ended.

        Raises:
            ClientError: the coordinator returns another error, or does not respond.
        """
        done = self.positions if offsets is None else offsets
        wanted = {each: CommittedOffset(offset) for each, offset in done.items()}
        if not wanted:
            return True
        results = commit_offsets(
            self._cluster, self._group, wanted, self._membership.identity
        ).values()
        errors = [error for error in results if error is not None]
        if not errors:
            return True
        if isinstance(errors[0], BrokerError) and errors[0].code in _COMMIT_TOO_LATE:
            return False
        raise errors[0]

    def close(self) -> None:
        """Leave the group if the coordinator can be reached. No offsets are committed."""
        self._joined = False
        try:
            self._membership.leave()
        except ClientError:
            # Without a LeaveGroup request the coordinator removes the member after the session
            # timeout.
            return
