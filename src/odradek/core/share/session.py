"""Share sessions: the partitions that each member of a share group fetches from this broker.

A member opens its session with a ShareFetch with epoch 0. Later requests have the epochs 1, 2, ...
and contain only the partitions that were added or removed, and acknowledgements. A request with
epoch -1 closes the session. A session belongs to the connection on which it was opened: when the
connection is closed, the session is closed, and the records that the member has acquired are
released.

The rules are those of Apache Kafka's `ShareSessionCache` and `SharePartitionManager.newContext`. In
contrast to fetch sessions, no session replaces another one: if the cache is full, the member gets
SHARE_SESSION_LIMIT_REACHED.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.model.errors import ApiError, ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1

PartitionKey = tuple[bytes, int]
"""A topic id and a partition index."""


class SessionKey(NamedTuple):
    """A member of a share group."""

    group_id: str
    member_id: str


class ShareSession:
    """The partitions of one member, in the order in which they are fetched."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(
        self, key: SessionKey, partitions: Iterable[PartitionKey], connection: object
    ) -> None:
        self.key = key
        self.connection = connection
        """The connection on which the session was opened."""
        self.epoch = 1
        """The epoch that the next request must have."""
        self.partitions: dict[PartitionKey, bool] = dict.fromkeys(partitions, False)
        """Each partition, and whether the next response must contain it."""

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> int:
        """Apply the changes of a request. Return by how many partitions the session has grown."""
        before = len(self.partitions)
        for key in added:
            if key not in self.partitions:
                self.partitions[key] = True
        for key in forgotten:
            self.partitions.pop(key, None)
        return len(self.partitions) - before

    def advance(self) -> None:
        """Expect the next epoch."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def has_news(self, key: PartitionKey, *, has_records: bool, has_error: bool) -> bool:
        """Return whether an incremental response must contain the partition.

        A partition with records is moved to the end, so that others are fetched first next time.
        """
        if key not in self.partitions:
            return True  # a later request has removed it
        is_awaited = self.partitions[key]
        self.partitions[key] = has_error
        if has_records:
            self.partitions[key] = self.partitions.pop(key)
        return has_records or has_error or is_awaited


class ShareSessions:
    """All sessions of a broker, at most `sessions_max`."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: dict[str, int] = {}
        self.partition_count = 0
        self.evictions = 0
        """Number of sessions that were closed because their connection was closed (a metric)."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: object) -> bool:
        return key in self._sessions

    def group_size(self, group_id: str) -> int:
        """Return how many members of the group have a session."""
        return self._by_group.get(group_id, 0)

    def open(
        self, key: SessionKey, partitions: Iterable[PartitionKey], connection: object
    ) -> ShareSession:
        """Open a session. It replaces an earlier session of the member.

        Raises:
            ApiError: SHARE_SESSION_LIMIT_REACHED.
        """
        self.remove(key)
        if len(self._sessions) >= self._sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, partitions, connection)
        self.partition_count += len(session.partitions)
        self._by_group[key.group_id] = self._by_group.get(key.group_id, 0) + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """Return the session of a member.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def use(
        self,
        key: SessionKey,
        epoch: int,
        added: Iterable[PartitionKey] = (),
        forgotten: Iterable[PartitionKey] = (),
    ) -> ShareSession:
        """Return the session of a request with this epoch, after the changes of the request.

        Raises:
            ApiError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self.find(key)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self.partition_count += session.update(added, forgotten)
        session.advance()
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """Remove the session of a member, and return it."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            left = self._by_group[key.group_id] - 1
            if left:
                self._by_group[key.group_id] = left
            else:
                del self._by_group[key.group_id]
        return session

    def find_disconnected(self, key: SessionKey, connection: object) -> ShareSession | None:
        """Return the session of a member if it belongs to this closed connection, and count it."""
        session = self._sessions.get(key)
        if session is None or session.connection is not connection:
            return None
        self.evictions += 1
        return session
