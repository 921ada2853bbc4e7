"""Ends the acquisition of records: by an acknowledgement, a closed session or a timeout.

Each function returns a `Change`: the states that have changed, and the state batches that the share
coordinator must store. When the coordinator has responded, the change is completed or undone
(`SharePartition.complete`, `SharePartition.undo`). A timeout cannot be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.core.share.dead_letters import Cause, DeadLetters, joined
from odradek.core.share.in_flight import InFlightBatch, InFlightState
from odradek.core.share.states import (
    REJECT,
    RENEW,
    STATE_AFTER,
    DeliveryLimit,
    RecordState,
    ShareSettings,
    StateBatch,
)
from odradek.core.share.window import Window
from odradek.model.errors import ApiError, ErrorCode


class AcknowledgementBatch(NamedTuple):
    """Acknowledgements of consecutive offsets: one type for all, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]

    def type_of(self, offset: int) -> int:
        """Return the type of the acknowledgement of an offset."""
        types = self.types
        return types[offset - self.first_offset] if len(types) > 1 else types[0]

    def part(self, first_offset: int, last_offset: int) -> AcknowledgementBatch:
        """Return the acknowledgements of a part of the batch."""
        types = self.types
        if len(types) > 1:
            begin = self.first_offset
            types = types[first_offset - begin : last_offset - begin + 1]
        return AcknowledgementBatch(first_offset, last_offset, types)


class Change:
    """Records whose acquisition ends."""

    __slots__ = ("_dead_letters", "transitions")

    def __init__(self) -> None:
        self.transitions: list[tuple[InFlightState, StateBatch]] = []
        self._dead_letters: list[DeadLetters] = []

    def add(
        self,
        state: InFlightState,
        first_offset: int,
        last_offset: int,
        cause: Cause = Cause.DELIVERED_TOO_OFTEN,
    ) -> None:
        """Add the new state of a range; `cause` is why the records are given up, if they are."""
        batch = StateBatch(first_offset, last_offset, state.state, state.delivery_count)
        self.transitions.append((state, batch))
        if state.state is RecordState.ARCHIVING:
            letters = DeadLetters(first_offset, last_offset, state.delivery_count, cause)
            self._dead_letters.append(letters)

    @property
    def dead_letters(self) -> list[DeadLetters]:
        """The records to write to the dead letter queue when the change is stored."""
        return joined(self._dead_letters)

    @property
    def batches(self) -> list[StateBatch]:
        """The new states."""
        return [batch for _, batch in self.transitions]


def complete(window: Window, change: Change) -> bool:
    """Note that a change is stored. Return whether the start offset may have moved."""
    deferred = window.deferred
    for state, batch in change.transitions:
        state.complete()
        if state.state is RecordState.AVAILABLE:
            window.on_available()
        if deferred.acquired:
            deferred.settle(batch.first_offset, state)
    return window.advance()


def undo(window: Window, change: Change) -> list[DeadLetters]:
    """Undo a change, because it is invalid or could not be stored.

    Return the records that are dead letters now, because their locks have expired meanwhile.
    """
    letters = []
    for state, batch in change.transitions:
        state.undo()
        if state.state is RecordState.AVAILABLE:
            window.on_available()
        elif state.state is RecordState.ARCHIVING:
            letters.append(
                DeadLetters(
                    batch.first_offset,
                    batch.last_offset,
                    state.delivery_count,
                    Cause.DELIVERED_TOO_OFTEN,
                )
            )
        if batch.first_offset in window.deferred.acquired:
            window.deferred.settle(batch.first_offset, state)
        elif batch.state.is_terminal and not state.state.is_terminal:
            window.count_complete(-window.count_from_start(batch.first_offset, batch.last_offset))
    return joined(letters)


def _invalid_state(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD_STATE, message)


class Acknowledgement:
    """The acknowledgements of one member in one request."""

    def __init__(
        self, window: Window, settings: ShareSettings, member_id: str, now_ms: int
    ) -> None:
        self._window = window
        self._settings = settings
        self._member_id = member_id
        self._expiration_ms = now_ms + settings.record_lock_duration_ms
        self._limit = settings.limit
        self._change = Change()

    def run(self, batches: Sequence[AcknowledgementBatch]) -> Change:
        """Apply the acknowledgements.

        Raises:
            ApiError: INVALID_REQUEST or INVALID_RECORD_STATE. Nothing has changed then, except that
                locks may be renewed.
        """
        try:
            for each in batches:
                for batch in self._acknowledge_deferred(each):
                    if batch.last_offset >= self._window.start_offset:
                        self._acknowledge(batch)
        except ApiError:
            undo(self._window, self._change)
            raise
        return self._change

    def _acknowledge_deferred(self, batch: AcknowledgementBatch) -> list[AcknowledgementBatch]:
        """Acknowledge the deferred records of a batch. Return the rest of the batch."""
        deferred = self._window.deferred
        if not deferred.acquired:
            return [batch]
        rest = []
        first = batch.first_offset
        for offset in deferred.acquired_between(first, batch.last_offset):
            if first < offset:
                rest.append(batch.part(first, offset - 1))
            first = offset + 1
            self._acknowledge_one(deferred.acquired[offset], offset, batch.type_of(offset))
        if first <= batch.last_offset:
            rest.append(batch.part(first, batch.last_offset))
        return rest

    def _acknowledge_one(self, state: InFlightState, offset: int, kind: int) -> None:
        """Acknowledge a deferred record."""
        if state.state is not RecordState.ACQUIRED:
            raise _invalid_state("the offset is not acquired")
        if state.in_transition:
            raise _invalid_state("the offset is already being acknowledged")
        if state.member_id != self._member_id:
            raise _invalid_state("another member has acquired the offset")
        if kind == RENEW:
            if not self._settings.renew_enabled:
                raise _invalid_state("share.renew.acknowledge.enable is false")
            locks = self._window.deferred.locks
            state.renew(locks.add(offset, offset, self._expiration_ms))
            return
        if not state.begin_transition(self._state_after(kind), self._limit):
            raise _invalid_state("the offset cannot be acknowledged")
        self._change.add(state, offset, offset, _cause(kind))

    def _acknowledge(self, batch: AcknowledgementBatch) -> None:
        window = self._window
        for in_flight in self._find(batch):
            if in_flight.last_offset < window.start_offset:
                continue
            whole = in_flight.whole
            if whole is not None:
                self._check_owner(whole)
            is_covered = (
                in_flight.first_offset >= batch.first_offset
                and in_flight.last_offset <= batch.last_offset
            )
            if (
                whole is not None
                and is_covered
                and len(batch.types) == 1
                and not window.begins_in(in_flight)
            ):
                self._acknowledge_whole(in_flight, whole, batch.types[0])
                continue
            if whole is not None and whole.state is not RecordState.ACQUIRED:
                raise _invalid_state("the batch is not acquired")
            self._acknowledge_offsets(in_flight, batch)

    def _find(self, batch: AcknowledgementBatch) -> list[InFlightBatch]:
        """Return the batches in flight that the acknowledgement concerns."""
        window = self._window
        floor = window.batches.floor(batch.first_offset)
        if floor is None:
            if batch.first_offset < window.start_offset <= batch.last_offset:
                floor = window.batches.floor(window.start_offset)
            if floor is None:
                raise _invalid_state("the offsets of the batch are not in flight")
        found = window.batches.between(floor.first_offset, batch.last_offset)
        last = found[-1].last_offset if found else -1
        if last < batch.first_offset or last < batch.last_offset:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "the batch has offsets that are not in flight"
            )
        return found

    def _check_owner(self, whole: InFlightState) -> None:
        if not whole.member_id:
            raise _invalid_state("the batch is not acquired")
        if whole.member_id != self._member_id:
            raise _invalid_state("another member has acquired the batch")
        if whole.in_transition:
            raise _invalid_state("the batch is already being acknowledged")

    def _acknowledge_whole(self, in_flight: InFlightBatch, whole: InFlightState, kind: int) -> None:
        window = self._window
        first, last = in_flight.first_offset, in_flight.last_offset
        if whole.state is not RecordState.ACQUIRED:
            raise _invalid_state("the batch is not acquired")
        if kind == RENEW:
            self._renew(whole, first, last)
            return
        if not whole.begin_transition(self._state_after(kind), self._limit):
            raise _invalid_state("the batch cannot be acknowledged")
        self._change.add(whole, first, last, _cause(kind))
        if whole.state.is_terminal:
            window.count_complete(len(in_flight))

    def _acknowledge_offsets(self, in_flight: InFlightBatch, batch: AcknowledgementBatch) -> None:
        window = self._window
        states = in_flight.split(window.locks)
        first = max(batch.first_offset, window.start_offset, in_flight.first_offset)
        for offset in range(first, min(batch.last_offset, in_flight.last_offset) + 1):
            state = states[offset - in_flight.first_offset]
            if state.state is not RecordState.ACQUIRED:
                raise _invalid_state("the offset is not acquired")
            if state.in_transition:
                raise _invalid_state("the offset is already being acknowledged")
            if state.member_id != self._member_id:
                raise _invalid_state("another member has acquired the offset")
            kind = batch.type_of(offset)
            if kind == RENEW:
                self._renew(state, offset, offset)
                continue
            if not state.begin_transition(self._state_after(kind), self._limit):
                raise _invalid_state("the offset cannot be acknowledged")
            self._change.add(state, offset, offset, _cause(kind))
            if state.state.is_terminal:
                window.count_complete(1)

    def _state_after(self, kind: int) -> RecordState:
        """Return the state after an acknowledgement of this type."""
        return self._limit.given_up if kind == REJECT else STATE_AFTER[kind]

    def _renew(self, state: InFlightState, first_offset: int, last_offset: int) -> None:
        """Restart the time of the lock. Nothing is stored."""
        if not self._settings.renew_enabled:
            raise _invalid_state("share.renew.acknowledge.enable is false")
        state.renew(self._window.locks.add(first_offset, last_offset, self._expiration_ms))


def _cause(kind: int) -> Cause:
    """Return why a record is given up after an acknowledgement of this type."""
    return Cause.REJECTED if kind == REJECT else Cause.DELIVERED_TOO_OFTEN


def release_member(window: Window, settings: ShareSettings, member_id: str) -> Change:
    """Release all records that a member has acquired, because its session is closed.

    Raises:
        ApiError: INVALID_RECORD_STATE. Nothing has changed then.
    """
    change = Change()
    limit = settings.limit
    for batch in window.batches:
        whole = batch.whole
        if whole is not None:
            if whole.state is not RecordState.ACQUIRED or whole.member_id != member_id:
                continue
            if not window.begins_in(batch):
                _release(window, change, whole, batch.first_offset, batch.last_offset, limit)
                continue
        for offset, state in enumerate(batch.split(window.locks), batch.first_offset):
            if state.state is RecordState.ACQUIRED and state.member_id == member_id:
                _release(window, change, state, offset, offset, limit)
    for offset, state in window.deferred.acquired.items():
        if state.state is RecordState.ACQUIRED and state.member_id == member_id:
            if not state.begin_transition(RecordState.AVAILABLE, limit):
                undo(window, change)
                raise _invalid_state("the records cannot be released")
            change.add(state, offset, offset)
    return change


def _release(
    window: Window,
    change: Change,
    state: InFlightState,
    first_offset: int,
    last_offset: int,
    limit: DeliveryLimit,
) -> None:
    """Release records; archive them if they are before the start offset."""
    is_passed = last_offset < window.start_offset
    after = RecordState.ARCHIVED if is_passed else RecordState.AVAILABLE
    if not state.begin_transition(after, limit):
        undo(window, change)
        raise _invalid_state("the records cannot be released")
    change.add(state, first_offset, last_offset)
    if state.state.is_terminal:
        window.count_complete(window.count_from_start(first_offset, last_offset))


def expire(window: Window, settings: ShareSettings, now_ms: int) -> Change:
    """Release the records whose locks have expired."""
    change = Change()
    while (lock := window.locks.pop_expired(now_ms)) is not None:
        lock.expire()
        floor = window.batches.floor(lock.first_offset)
        if floor is None:
            continue
        for batch in window.batches.between(floor.first_offset, lock.last_offset):
            _expire_batch(window, settings, change, batch, lock.first_offset, lock.last_offset)
    _expire_deferred(window, settings, change, now_ms)
    return change


def _expire_deferred(window: Window, settings: ShareSettings, change: Change, now_ms: int) -> None:
    """Release the deferred records whose locks have expired."""
    deferred = window.deferred
    while (lock := deferred.locks.pop_expired(now_ms)) is not None:
        lock.expire()
        offset = lock.first_offset
        state = deferred.acquired.get(offset)
        if state is None or state.state is not RecordState.ACQUIRED:
            continue
        if state.end_acquisition(RecordState.AVAILABLE, settings.limit):
            change.add(state, offset, offset)
            state.drop_lock()
            deferred.settle(offset, state)


def _expire_batch(
    window: Window,
    settings: ShareSettings,
    change: Change,
    batch: InFlightBatch,
    first_offset: int,
    last_offset: int,
) -> None:
    whole = batch.whole
    if whole is not None:
        if whole.state is not RecordState.ACQUIRED:
            return
        if not window.begins_in(batch):
            _expire_state(window, settings, change, whole, batch.first_offset, batch.last_offset)
            return
    states = batch.split(window.locks)
    first = max(first_offset, batch.first_offset)
    for offset in range(first, min(last_offset, batch.last_offset) + 1):
        state = states[offset - batch.first_offset]
        if state.state is RecordState.ACQUIRED:
            _expire_state(window, settings, change, state, offset, offset)


def _expire_state(
    window: Window,
    settings: ShareSettings,
    change: Change,
    state: InFlightState,
    first_offset: int,
    last_offset: int,
) -> None:
    is_passed = last_offset < window.start_offset
    after = RecordState.ARCHIVED if is_passed else RecordState.AVAILABLE
    if not state.end_acquisition(after, settings.limit):
        return
    change.add(state, first_offset, last_offset)
    state.drop_lock()
    if state.state is RecordState.AVAILABLE:
        window.on_available()
    if state.state.is_terminal:
        window.count_complete(window.count_from_start(first_offset, last_offset))
