"""The calls of both consumers, blocking and asyncio, that wait for nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from odradek.client.consuming.state import Callback, Callbacks, ConsumerState
from odradek.client.core.fetch_state import FetchState
from odradek.client.core.offset_lookups import EARLIEST, LATEST
from odradek.client.deadline import Deadline
from odradek.client.group_metadata import CommittedOffset
from odradek.model.topic_partition import TopicPartition


class DirectCalls(ConsumerState):
    """What a consumer has besides calls that wait."""

    def _direct_call(self) -> AbstractContextManager[None]:
        """Return what surrounds a call. It raises if the consumer cannot be used now."""
        raise NotImplementedError

    # -- what is read ---------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Read topics as a member of the group, instead of those that were subscribed to before.

        `pattern` is an alternative to topics: a `re.Pattern`, which this client matches with the whole
        names of all topics, or a string in the syntax of RE2, which the broker matches (only with
        `group.protocol=consumer`).

        The callbacks get lists of partitions. They are called in `poll`, `unsubscribe` and `close`:
        `on_assigned` before records of new partitions are returned; `on_revoked` before partitions are
        given up, when their offsets can still be committed; `on_lost` when others may have them
        already. Without `on_lost`, `on_revoked` is called instead. In `odradek.client.aio` they may be
        coroutine functions, which are awaited.

        Raises:
            ConsumerStateError: the consumer has no group, or partitions are assigned by `assign`.
            ValueError: the topics are malformed, or both topics and a pattern are given.
        """
        with self._direct_call():
            callbacks = Callbacks(on_assigned, on_revoked, on_lost)
            self._change_subscription(topics, pattern, callbacks)

    def assign(self, partitions: Iterable[tuple[Any, ...]]) -> None:
        """Read exactly these partitions, without the group's assignment.

        Each is (topic, index), or (topic, index, offset). Without an offset, reading begins at the
        committed offset, if there is a group, and otherwise where `auto.offset.reset` says. Partitions
        that were assigned before keep their positions.

        Raises:
            ConsumerStateError: the consumer is subscribed.
            ValueError: a partition is malformed, or an offset is negative.
        """
        with self._direct_call():
            self._read_exactly(partitions)

    # -- positions ------------------------------------------------------------------------------

    def _has_position(self, partition: TopicPartition, state: FetchState) -> bool:
        """Whether the position is known, or cannot be."""
        return self._machine.position(partition) is not None or state.error is not None

    def _found_position(
        self, partition: TopicPartition, state: FetchState, deadline: Deadline
    ) -> int:
        """Return the position.

        Raises:
            ClientError: it is not known.
        """
        if state.error is not None:
            raise state.error
        found = self._machine.position(partition)
        if found is None:
            raise self._too_late(f"the position of partition {partition}", deadline)
        return found.offset

    def seek(self, partition: tuple[str, int], offset: int | CommittedOffset) -> None:
        """Set the position of an assigned partition. What was fetched from it is dropped.

        Raises:
            ConsumerStateError: the partition is not assigned.
            ValueError: the offset is negative.
        """
        with self._direct_call():
            self._go_to(partition, offset)

    def seek_to_beginning(self, *partitions: Any) -> None:
        """Go to the first record of partitions, by default of all that are assigned.

        Raises:
            ConsumerStateError: a partition is not assigned.
        """
        with self._direct_call():
            self._go_to_end_of(partitions, EARLIEST)

    def seek_to_end(self, *partitions: Any) -> None:
        """Go behind the last record of partitions, by default of all that are assigned.

        Raises:
            ConsumerStateError: a partition is not assigned.
        """
        with self._direct_call():
            self._go_to_end_of(partitions, LATEST)

    def pause(self, *partitions: Any) -> None:
        """Return no records of these partitions until `resume`. They stay assigned.

        Raises:
            ConsumerStateError: a partition is not assigned.
        """
        with self._direct_call():
            self._set_paused(partitions, is_paused=True)

    def resume(self, *partitions: Any) -> None:
        """Return records of paused partitions again, from where they were.

        Raises:
            ConsumerStateError: a partition is not assigned.
        """
        with self._direct_call():
            self._set_paused(partitions, is_paused=False)
