"""The state of records in flight: of a whole batch, or of each of its offsets.

A change that the share coordinator must store is a transition. It takes effect at once, so that the
records cannot be acquired or acknowledged again, and is completed or undone when the coordinator
has responded.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.core.share.locks import Lock, Locks
from odradek.core.share.states import NO_MEMBER, DeliveryLimit, RecordState


class _Before(NamedTuple):
    """The state before a transition."""

    state: RecordState
    delivery_count: int
    member_id: str
    limit: DeliveryLimit


class InFlightState:
    """The state of a batch or of one offset."""

    __slots__ = ("_before", "_is_archived", "delivery_count", "lock", "member_id", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str, lock: Lock | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self._before: _Before | None = None
        self._is_archived = False
        """Whether the records were archived. Then an undone transition leaves them archived."""

    @property
    def in_transition(self) -> bool:
        """Whether a change is being stored."""
        return self._before is not None

    @property
    def is_acquirable(self) -> bool:
        """Whether a member may acquire the records now."""
        return self.state is RecordState.AVAILABLE and self._before is None

    @property
    def is_complete(self) -> bool:
        """Whether the records are in a terminal state, and this state is stored."""
        return self._before is None and self.state.is_terminal

    def acquire(self, member_id: str, lock: Lock) -> None:
        """Deliver the records to a member. `is_acquirable` must be true."""
        assert self.is_acquirable
        self.drop_lock()
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.lock = lock

    def end_acquisition(self, state: RecordState, limit: DeliveryLimit) -> bool:
        """Change the state of acquired records. Return False if this is not possible.

        Records that were delivered too often do not become available; they are given up.
        """
        if self._before is not None:
            return False
        if state is RecordState.AVAILABLE and self.delivery_count >= limit.deliveries:
            state = limit.given_up
        if not self.state.may_become(state):
            return False
        self.state = state
        self.member_id = NO_MEMBER
        return True

    def give_up(self, given_up: RecordState) -> None:
        """End an acquisition of which the member never learns: it was no delivery."""
        assert self.state is RecordState.ACQUIRED
        assert not self.in_transition
        self.delivery_count -= 1
        self.state = given_up
        self.member_id = NO_MEMBER
        self.drop_lock()

    def begin_transition(self, state: RecordState, limit: DeliveryLimit) -> bool:
        """Do the same as `end_acquisition`. `complete` or `undo` must follow."""
        before = _Before(self.state, self.delivery_count, self.member_id, limit)
        if not self.end_acquisition(state, limit):
            return False
        self._before = before
        return True

    def complete(self) -> None:
        """Note that the change is stored."""
        self.drop_lock()
        self._before = None

    def undo(self) -> None:
        """Undo the transition, because the change could not be stored.

        If the lock has expired in the meantime, the records are released.
        """
        before = self._before
        assert before is not None
        self._before = None
        if self._is_archived:
            self.drop_lock()
        elif self.lock is not None and self.lock.has_expired:
            too_often = before.delivery_count >= before.limit.deliveries
            self.state = before.limit.given_up if too_often else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.drop_lock()
        else:
            self.state = before.state
            self.member_id = before.member_id

    def archive(self) -> None:
        """Archive the records, whatever their state is."""
        self._is_archived = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.drop_lock()

    def drop_lock(self) -> None:
        """Cancel the lock, if there is one."""
        if self.lock is not None:
            self.lock.cancel()
            self.lock = None

    def renew(self, lock: Lock) -> None:
        """Replace the lock."""
        self.drop_lock()
        self.lock = lock


class InFlightBatch:
    """Consecutive offsets that were acquired together.

    The batch has one state (`whole`) until its offsets have different states. After that, it has
    the state of each offset (`offsets`), in ascending order.
    """

    __slots__ = ("first_offset", "last_offset", "offsets", "whole")

    def __init__(self, first_offset: int, last_offset: int, whole: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.whole: InFlightState | None = whole
        """The state of the batch; None if each offset has its own state."""
        self.offsets: list[InFlightState] | None = None

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self, locks: Locks) -> list[InFlightState]:
        """Give each offset its own state. Return the states; do nothing if this was done before."""
        if self.offsets is not None:
            return self.offsets
        whole = self.whole
        assert whole is not None
        states = []
        for offset in range(self.first_offset, self.last_offset + 1):
            lock = None
            if whole.lock is not None:
                lock = locks.add(offset, offset, whole.lock.expiration_ms)
            states.append(InFlightState(whole.state, whole.delivery_count, whole.member_id, lock))
        whole.drop_lock()
        self.offsets = states
        self.whole = None
        return states

    def acquire_part(self, last_offset: int, locks: Locks, expiration_ms: int) -> None:
        """Split a batch that was just acquired: offsets after `last_offset` become available."""
        whole = self.whole
        assert whole is not None
        self.offsets = [
            InFlightState(
                whole.state,
                whole.delivery_count,
                whole.member_id,
                locks.add(offset, offset, expiration_ms),
            )
            if offset <= last_offset
            else InFlightState(RecordState.AVAILABLE, whole.delivery_count - 1, NO_MEMBER)
            for offset in range(self.first_offset, self.last_offset + 1)
        ]
        self.whole = None

    def parts(self) -> list[tuple[int, int, InFlightState]]:
        """Return the parts with their own state: first offset, last offset and state.

        Another thread may split the batch meanwhile.
        """
        whole = self.whole
        if whole is not None:
            return [(self.first_offset, self.last_offset, whole)]
        assert self.offsets is not None, "`split` sets the offsets before it removes the whole"
        return [
            (offset, offset, each) for offset, each in enumerate(self.offsets, self.first_offset)
        ]

    def state_at(self, offset: int) -> InFlightState:
        """Return the state of an offset in the batch."""
        if self.offsets is None:
            assert self.whole is not None
            return self.whole
        return self.offsets[offset - self.first_offset]
