"""Commits and fetches offsets of one group, one request after the other (KIP-447, KIP-320).

Commits are sent in the order in which they were asked for, so that an earlier one does not overwrite a
later one. The identity of the member is read when a request is built. An operation that may succeed later
is tried again after a pause until its deadline; a commit without a deadline is tried once, as Java's
asynchronous commits are. A member whose epoch has changed since it committed commits again with the new one
(STALE_MEMBER_EPOCH, KIP-848).

Offsets are fetched only when no transaction that may change them is open (`require_stable`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from odradek.client.core.asks import Ask, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.coordinator_asks import OF_COORDINATOR, CoordinatorAsks
from odradek.client.core.operation import Operation
from odradek.client.core.routes import Routes
from odradek.client.errors import (
    BrokerError,
    ClientError,
    CommitFailedError,
    RequestTimeoutError,
    broker_error,
)
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition, by_topic
from odradek.wire.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.generated.offset_commit_response import OffsetCommitResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse

_VERSION_MAX = 9
"""Later versions name topics by id only."""
_NOT_A_MEMBER = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class Committer(Protocol):
    """Who commits: a member, or a client that is none."""

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity now."""
        ...

    @property
    def may_commit(self) -> bool:
        """Whether it is in the group. A member that is not must not commit as a client that is none."""
        ...

    @property
    def loss(self) -> str:
        """Why the member is not in the group any more, if its user is the reason."""
        ...


class Outsider:
    """Commits without being a member, which is possible while the group has none."""

    loss = ""
    may_commit = True

    def __init__(self, group_id: str) -> None:
        self.group_metadata = GroupMetadata(group_id)


class CommitOperation(Operation):
    """A commit. Without an error all offsets are committed."""

    __slots__ = ("deadline_ms", "offsets")

    def __init__(
        self, offsets: Mapping[TopicPartition, CommittedOffset], deadline_ms: int | None
    ) -> None:
        super().__init__("OffsetCommit")
        self.offsets = dict(offsets)
        self.deadline_ms = deadline_ms


class FetchOperation(Operation):
    """A fetch of committed offsets. Partitions without one are missing in `offsets`."""

    __slots__ = ("deadline_ms", "offsets", "partitions")

    def __init__(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> None:
        super().__init__("OffsetFetch")
        self.partitions = tuple(partitions)
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.deadline_ms: int | None = deadline_ms

    def found(self, partition: TopicPartition, offset: CommittedOffset) -> None:
        """Note an offset."""
        self.offsets[partition] = offset


class Commits:
    """The committed offsets of one group, for one member."""

    def __init__(
        self,
        routes: Routes,
        committer: Committer,
        random: RandomNumber,
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_ms_max: int = 1_000,
    ) -> None:
        self.next_deadline_ms: int | None = None
        self._committer = committer
        self._group_id = committer.group_metadata.group_id
        self._asks = CoordinatorAsks(routes, self._group_id)
        self._request_timeout_ms = request_timeout_ms
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_ms_max, random)
        self._retry_at_ms = 0
        self._waiting: deque[CommitOperation | FetchOperation] = deque()
        self._is_asked = False

    @property
    def is_idle(self) -> bool:
        """Whether all operations have ended."""
        return not self._waiting

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset], deadline_ms: int | None = None
    ) -> CommitOperation:
        """Commit offsets; with a deadline, try again until then."""
        operation = CommitOperation(offsets, deadline_ms)
        if offsets:
            self._waiting.append(operation)
        else:
            operation.finish(None)
        return operation

    def fetch(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> FetchOperation:
        """Fetch the committed offsets of partitions."""
        operation = FetchOperation(partitions, deadline_ms)
        if operation.partitions:
            self._waiting.append(operation)
        else:
            operation.finish(None)
        return operation

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due."""
        self._expire(now_ms)
        asks: list[Ask] = []
        while self._waiting and not self._is_asked and now_ms >= self._retry_at_ms:
            first = self._waiting[0]
            try:
                asks = self._due(first)
            except BrokerError as error:  # the coordinator cannot be looked up
                self._end(first, error)
            if not first.done:
                break
        due = [each.deadline_ms for each in self._waiting if each.deadline_ms is not None]
        if self._waiting and not self._is_asked and now_ms < self._retry_at_ms:
            due.append(self._retry_at_ms)
        self.next_deadline_ms = min(due, default=None)
        return asks

    def _expire(self, now_ms: int) -> None:
        """End the operations whose deadline has passed. One that is in flight may still succeed."""
        for each in list(self._waiting):
            if each.deadline_ms is not None and now_ms >= each.deadline_ms:
                self._waiting.remove(each)
                reason = f": {each.last_error}" if each.last_error is not None else ""
                text = f"group {self._group_id}: {each.name} did not succeed in time{reason}"
                error = RequestTimeoutError(text)
                error.__cause__ = each.last_error
                each.finish(error)

    # -- requests -------------------------------------------------------------------------------

    def _due(self, operation: CommitOperation | FetchOperation) -> list[Ask]:
        if isinstance(operation, CommitOperation) and not self._committer.may_commit:
            self._end(operation, self._not_a_member(None))
            return []
        link = self._asks.link()
        if link is None:
            return []
        self._is_asked = True
        sender = self._committer.group_metadata

        def outcome(response: object, error: ClientError | None, now_ms: int) -> None:
            self._is_asked = False
            if operation.done:  # its deadline has passed
                return
            if error is None:
                if isinstance(operation, FetchOperation):
                    assert isinstance(response, OffsetFetchResponse)
                    _take(operation, response)
                self._end(operation, None)
            else:
                self._refused(operation, error, sender, now_ms)

        if isinstance(operation, CommitOperation):
            ask = self._asks.ask(
                link,
                _commit_request(operation, sender),
                OffsetCommitResponse,
                outcome,
                self._commit_error,
                self._request_timeout_ms,
                version_max=_VERSION_MAX,
            )
        else:
            ask = self._asks.ask(
                link,
                _fetch_request(operation, sender),
                OffsetFetchResponse,
                outcome,
                self._fetch_error,
                self._request_timeout_ms,
                version_max=_VERSION_MAX,
            )
        return [ask]

    def _end(self, operation: CommitOperation | FetchOperation, error: ClientError | None) -> None:
        self._waiting.remove(operation)
        self._backoff.succeeded()
        self._retry_at_ms = 0
        operation.finish(error)

    def _refused(
        self,
        operation: CommitOperation | FetchOperation,
        error: ClientError,
        sender: GroupMetadata,
        now_ms: int,
    ) -> None:
        operation.failed(error)
        code = error.code if isinstance(error, BrokerError) else None
        if code == ErrorCode.STALE_MEMBER_EPOCH and self._committer.group_metadata != sender:
            return  # at once, with the new epoch
        if code in _NOT_A_MEMBER:
            self._end(operation, self._not_a_member(error))
        elif operation.deadline_ms is not None and (may_pass(error) or code in OF_COORDINATOR):
            self._retry_at_ms = now_ms + self._backoff.failed()
        else:
            self._end(operation, error)

    def _not_a_member(self, error: ClientError | None) -> CommitFailedError:
        """Return the error of a commit by a member that is not in the group any more."""
        reason = self._committer.loss or "the member is not in the group's current generation"
        failed = CommitFailedError(f"group {self._group_id}: offsets are not committed: {reason}")
        failed.__cause__ = error
        return failed

    def _commit_error(self, response: OffsetCommitResponse) -> BrokerError | None:
        """Return the error that decides: a permanent one, if there is one."""
        return _worst(
            broker_error(each.error_code, subject=self._subject(topic.name, each.partition_index))
            for topic in response.topics
            for each in topic.partitions
        )

    def _fetch_error(self, response: OffsetFetchResponse) -> BrokerError | None:
        group = response.groups[0]
        error = broker_error(group.error_code, subject=f"group {self._group_id}")
        return error or _worst(
            broker_error(each.error_code, subject=self._subject(topic.name, each.partition_index))
            for topic in group.topics
            for each in topic.partitions
        )

    def _subject(self, topic: str, index: int) -> str:
        return f"group {self._group_id}, partition {topic}-{index}"


def _worst(errors: Iterable[BrokerError | None]) -> BrokerError | None:
    found = [each for each in errors if each is not None]
    return next((each for each in found if not each.retriable), found[0] if found else None)


def _take(operation: FetchOperation, response: OffsetFetchResponse) -> None:
    for topic in response.groups[0].topics:
        for each in topic.partitions:
            if each.committed_offset >= 0:
                operation.found(
                    TopicPartition(topic.name, each.partition_index),
                    CommittedOffset(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    ),
                )


def _commit_request(operation: CommitOperation, sender: GroupMetadata) -> OffsetCommitRequest:
    offsets = operation.offsets
    return OffsetCommitRequest(
        group_id=sender.group_id,
        generation_id_or_member_epoch=sender.generation_id,
        member_id=sender.member_id,
        group_instance_id=sender.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[TopicPartition(topic, index)].offset,
                        committed_leader_epoch=offsets[TopicPartition(topic, index)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, index)].metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )


def _fetch_request(operation: FetchOperation, sender: GroupMetadata) -> OffsetFetchRequest:
    topics = [
        OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic(operation.partitions).items()
    ]
    group = OffsetFetchRequestGroup(group_id=sender.group_id, topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=True)
