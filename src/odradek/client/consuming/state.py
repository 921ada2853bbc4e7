"""The machine of a consumer, and the parts of its methods that do not wait."""

from __future__ import annotations

import logging
import random
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.consuming.options import consumer_settings, given_settings
from odradek.client.core.client_metrics import ConsumerMeter
from odradek.client.core.commits import CommitOperation, Commits
from odradek.client.core.consumed_batch import Batch, Record
from odradek.client.core.consumer import ConsumerMachine
from odradek.client.core.consumer_settings import CONSUMER
from odradek.client.core.fetch_state import FetchState
from odradek.client.core.member_events import Assigned, Lost, MemberEvent, Revoked
from odradek.client.core.member_settings import PollInterval
from odradek.client.core.offset_lookups import FoundOffset, LookupOperation
from odradek.client.core.routes import Routes
from odradek.client.deadline import Deadline
from odradek.client.errors import (
    ClientError,
    CommitFailedError,
    ConsumerStateError,
    RequestTimeoutError,
)
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.client.shell.driver import Driver, Machine, in_thread
from odradek.client.shell.settings import connection_of
from odradek.client.shell.telemetry import telemetry_of
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

Callback = Callable[[list[TopicPartition]], Any]
Offsets = Mapping[Any, int | CommittedOffset]
"""Offsets by partition, which is a pair of a topic and an index."""
CLOSE_SECONDS = 30.0


class Callbacks(NamedTuple):
    """What a user wants to be told of."""

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    on_lost: Callback | None = None


class CommitCall(NamedTuple):
    """A commit in the background, and whom to tell."""

    operation: CommitOperation
    callback: Callable[[ClientError | None], Any] | None


class ConsumerState:
    """What a consumer has besides its connections and its way to wait."""

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None,
        settings: Mapping[str, object] | None,
        keywords: Mapping[str, object],
    ) -> None:
        """Raise a ValueError if a setting is wrong."""
        if isinstance(cluster, Cluster):
            given = given_settings(settings or {}, keywords)
            options = consumer_settings(given, cluster.timeout_ms)
            self._connection = connection_of(cluster)
        else:
            given = given_settings({**(cluster or {}), **(settings or {})}, keywords)
            options = consumer_settings(given)
            self._connection = given.connection()
        self._options = options
        self._callbacks = Callbacks()
        self._commit_calls: list[CommitCall] = []
        self._rest: Iterator[Record] = iter(())
        """The records that iteration has not returned yet."""
        self._last: Record | None = None
        """The record that iteration has returned last."""
        fetch = options.fetch
        self._routes = Routes(
            random_number,
            request_timeout_ms=fetch.request_timeout_ms,
            retry_backoff_ms=fetch.retry_backoff_ms,
            retry_backoff_max_ms=fetch.retry_backoff_ms_max,
            metadata_max_age_ms=fetch.metadata_max_age_ms,
            creates_topics=given.flag("allow.auto.create.topics", default=True),
            recovery=self._connection.recovery,
        )
        self._machine = ConsumerMachine(
            options,
            self._routes,
            random_number,
            _time_of_day,
            uuids.to_text(uuid.uuid4().bytes),
        )
        member = options.member
        self._meter = ConsumerMeter(
            lambda: self._machine.member,
            lambda: len(self._machine.fetcher.states),
            [
                ("client_rack", fetch.rack),
                ("group_id", None if member is None else member.group_id),
                ("group_instance_id", None if member is None else member.instance_id),
            ],
        )
        self._telemetry = telemetry_of(given, self._routes, self._meter)

    def _make_driver(self, run_aside: Callable[[Callable[[], None]], None] = in_thread) -> Driver:
        machines: list[Machine] = [self._machine, self._telemetry]
        return Driver(self._connection, self._routes, machines, run_aside, self._meter)

    @property
    def _works_alone(self) -> bool:
        """Whether something is to be done although the user is in no call."""
        machine = self._machine
        is_member = machine.member is not None and not machine.member.is_at_rest
        is_committing = machine.commits is not None and not machine.commits.is_idle
        return is_member or is_committing or self._telemetry.is_active

    # -- subscriptions --------------------------------------------------------------------------

    def _change_subscription(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        pattern: str | re.Pattern[str] | None,
        callbacks: Callbacks,
    ) -> None:
        machine = self._machine
        names: list[str] = []
        if isinstance(topics, re.Pattern):
            pattern = topics
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
        if self._options.member is None:
            raise ConsumerStateError(
                "a consumer without a group has no subscription", "Set group.id, or call assign."
            )
        if machine.fetcher.states and not machine.is_subscribed:
            raise ConsumerStateError(
                "partitions are assigned by assign", "Call unsubscribe before subscribe."
            )
        if not all(names):
            raise ValueError("the name of a topic is empty")
        if names and pattern is not None:
            raise ValueError("subscribe to topics or to a pattern, not to both")
        if isinstance(pattern, str) and self._options.protocol != CONSUMER:
            raise ValueError(
                "a pattern of the broker needs group.protocol=consumer; give a re.Pattern instead"
            )
        self._callbacks = callbacks
        if isinstance(pattern, re.Pattern):
            expression = pattern
            machine.subscribe((), matches=lambda name: expression.fullmatch(name) is not None)
        else:
            machine.subscribe(names, pattern=pattern)

    def _check_assign(self) -> None:
        if self._machine.is_subscribed:
            raise ConsumerStateError(
                "the consumer is subscribed: its group assigns the partitions",
                "Call unsubscribe before assign.",
            )

    # -- what users give ------------------------------------------------------------------------

    def _assigned(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Check that partitions are assigned."""
        found = list(partitions)
        for each in found:
            if each not in self._machine.fetcher.states:
                raise ConsumerStateError(f"partition {each} is not assigned to this consumer")
        return found

    def _state(self, partition: TopicPartition) -> FetchState:
        (found,) = self._assigned([partition])
        return self._machine.fetcher.states[found]

    def _needed_commits(self) -> Commits:
        if self._machine.commits is None:
            raise ConsumerStateError("a consumer without a group has no commits", "Set group.id.")
        return self._machine.commits

    def _to_commit(
        self, offsets: Offsets | Record | Batch | None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return what to commit: by default the positions, behind a record or batch, or offsets."""
        if offsets is None:
            return self._machine.consumed()
        if isinstance(offsets, Record):
            batch = offsets.batch
            return {batch.topic_partition: CommittedOffset(offsets.offset + 1, batch.leader_epoch)}
        if isinstance(offsets, Batch):
            return {
                offsets.topic_partition: CommittedOffset(offsets.next_offset, offsets.leader_epoch)
            }
        return {partition_of(each): _committed(offset) for each, offset in offsets.items()}

    # -- iteration ------------------------------------------------------------------------------

    def _next_rest(self, records: Iterator[Record]) -> None:
        """Let iteration go on with other records. Those before count as read."""
        self._last = None
        self._rest = records

    def _returns(self, record: Record) -> None:
        """Note which record iteration returns."""
        self._last = record

    def _note_part(self) -> None:
        """Let the position be behind the record that iteration has returned last."""
        if self._last is not None:
            self._machine.read_part(self._last.batch, self._last.offset + 1)

    def _drop_rest(self, partitions: Collection[TopicPartition]) -> None:
        """Do not return the other records of a batch whose partition is given up."""
        last = self._last
        if last is not None and last.batch.topic_partition in partitions:
            self._rest = iter(())

    # -- positions ------------------------------------------------------------------------------

    def _read_exactly(self, partitions: Iterable[tuple[Any, ...]]) -> None:
        """See `Consumer.assign`."""
        wanted: dict[TopicPartition, int | None] = {}
        for each in partitions:
            offset = each[2] if len(each) == 3 else None
            if offset is not None and (not isinstance(offset, int) or offset < 0):
                raise ValueError(f"an offset is a number from 0 on, not {offset!r}")
            wanted[partition_of(tuple(each[:2]))] = offset
        self._check_assign()
        self._machine.assign(wanted)
        for partition, offset in wanted.items():
            if offset is not None:
                self._machine.fetcher.seek(partition, offset)

    def _go_to(self, partition: tuple[str, int], offset: int | CommittedOffset) -> None:
        """See `Consumer.seek`."""
        key = partition_of(partition)
        at = offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
        if at.offset < 0:
            raise ValueError(f"an offset is a number from 0 on, not {at.offset}")
        self._assigned([key])
        self._machine.fetcher.seek(key, at.offset, at.leader_epoch)
        self._drop_rest([key])

    def _go_to_end_of(self, partitions: Iterable[Any], at: int) -> None:
        """See `Consumer.seek_to_beginning` and `seek_to_end`."""
        for each in self._assigned(partitions_of(partitions)) or self.assignment:
            self._machine.fetcher.reset(each, at)
            self._drop_rest([each])

    def _set_paused(self, partitions: Iterable[Any], *, is_paused: bool) -> None:
        """See `Consumer.pause` and `resume`."""
        for each in self._assigned(partitions_of(partitions)):
            self._machine.fetcher.pause(each, is_paused=is_paused)

    # -- what the user hears ----------------------------------------------------------------------

    def _callback_of(self, event: MemberEvent) -> tuple[Callback | None, list[TopicPartition]]:
        """Return the callback of an event, and its partitions, whose records are not returned any more."""
        if isinstance(event, Assigned):
            return self._callbacks.on_assigned, list(event.partitions)
        if isinstance(event, Revoked):
            self._drop_rest(event.partitions)
            return self._callbacks.on_revoked, list(event.partitions)
        assert isinstance(event, Lost), "there is no other event"
        self._drop_rest(event.partitions)
        self._explain_loss()
        callback = self._callbacks.on_lost or self._callbacks.on_revoked
        return callback, list(event.partitions)

    def _explain_loss(self) -> None:
        member = self._machine.member
        if member is not None and member.loss:
            log.warning(
                "group %s: %s. %s", member.settings.group_id, member.loss, PollInterval.advice
            )

    def _warn(self, error: ClientError) -> None:
        member = self._machine.member
        is_late = isinstance(error, CommitFailedError) and member is not None and member.loss
        log.warning(
            "offsets were not committed: %s. %s", error, PollInterval.advice if is_late else ""
        )

    def _deadline(self, timeout: float | None) -> Deadline:
        default_ms = self._options.api_timeout_ms
        return Deadline(default_ms if timeout is None else round(timeout * 1000))

    def _too_late(self, what: str, deadline: Deadline) -> RequestTimeoutError:
        reason = self._routes.last_error
        return RequestTimeoutError(
            f"{what} is not known after {deadline.timeout_ms} ms"
            f"{'' if reason is None else f'; the last failure was: {reason}'}"
        )

    # -- what users ask -------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the consumer reads. It changes only in calls of the consumer."""
        return frozenset(self._machine.fetcher.states)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics of the subscription; with a `re.Pattern` those that match."""
        return self._machine.topics

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        states = self._machine.fetcher.states
        return frozenset(each for each, state in states.items() if state.is_paused)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition where it is known."""
        return {each: at.offset for each, at in self.consumed_offsets.items()}

    @property
    def consumed_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """The positions with the leader epochs of the records before, as a commit has them."""
        self._note_part()
        return self._machine.consumed()

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity with which the member got its partitions, for transactions (KIP-447).

        Raises:
            ConsumerStateError: the consumer has no group.
        """
        self._needed_commits()
        return self._machine.identity

    @property
    def last_error(self) -> ClientError | None:
        """Why the last request for metadata or a coordinator has failed; None after a success."""
        return self._routes.last_error

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets are behind the position of a partition; None if it is not known.

        The end is that of the last fetch: of the log, or of the committed records with
        `isolation.level=read_committed`.
        """
        key = partition_of(partition)
        state = self._state(key)
        self._note_part()
        position = self._machine.position(key)
        is_committed = self._options.fetch.isolation != 0
        end = state.last_stable_offset if is_committed else state.high_watermark
        if position is None or end < 0:
            return None
        return max(0, end - position.offset)


def partition_of(given: Any) -> TopicPartition:
    """Return a partition that is given as a pair of a topic and an index.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(given, TopicPartition):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        topic, index = given
        if isinstance(topic, str) and isinstance(index, int):
            return TopicPartition(topic, index)
    raise ValueError(f"a partition is (topic, index), not {given!r}")


def partitions_of(given: Iterable[Any]) -> list[TopicPartition]:
    """Return partitions that are given one by one, or as one iterable of them."""
    found: list[TopicPartition] = []
    for each in given:
        if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str):
            found.append(partition_of(each))
        elif isinstance(each, Iterable) and not isinstance(each, str | bytes):
            found += [partition_of(one) for one in each]
        else:
            found.append(partition_of(each))
    return list(dict.fromkeys(found))


def found_offsets(operation: LookupOperation) -> dict[TopicPartition, FoundOffset]:
    """Return what a look-up has found.

    Raises:
        ClientError: that of the first partition that failed.
    """
    found: dict[TopicPartition, FoundOffset] = {}
    for partition, outcome in operation.found.items():
        if isinstance(outcome, ClientError):
            raise outcome
        found[partition] = outcome
    return found


def _committed(offset: int | CommittedOffset) -> CommittedOffset:
    return offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)


def random_number() -> int:
    """Return a number of 31 bits, for back-offs."""
    return random.getrandbits(31)


def _time_of_day() -> int:
    return time.time_ns() // 1_000_000
