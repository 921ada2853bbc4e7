"""States of records, types of acknowledgements, and the settings of a share group."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

NO_MEMBER: Final = ""
"""The member id of records that no member has acquired."""


class RecordState(IntEnum):
    """The state of a record. The values are those of `delivery_state` in KIP-932's messages."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """The record is given up, and is written to the dead letter queue (KIP-1191)."""
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED

    def may_become(self, state: RecordState) -> bool:
        """Return whether a record in this state may change to `state`."""
        if self is state or self.is_terminal:
            return False
        if self is RecordState.ARCHIVING:
            return state is RecordState.ARCHIVED
        return self is not RecordState.AVAILABLE or state is RecordState.ACQUIRED


GAP: Final = 0
"""The acknowledgement of an offset that has no record."""
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

STATE_AFTER: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
"""The state of a record after an acknowledgement of this type. RENEW does not change the state.
With a dead letter queue, a rejected record is ARCHIVING."""


class DeliveryLimit(NamedTuple):
    """How often a record is delivered, and what becomes of it after the last delivery."""

    deliveries: int
    given_up: RecordState
    """ARCHIVING if the group has a dead letter queue, else ARCHIVED."""


class ShareSettings(NamedTuple):
    """The settings of a share group that a share partition uses."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    renew_enabled: bool
    has_dead_letters: bool = False
    """Whether records that are given up are written to a dead letter queue (KIP-1191)."""
    delays: bool = False
    """Whether records are delivered when their header says (see `schedule`)."""
    backoff_ms: int = 0
    """How long a record waits after its first delivery. Doubled after each further delivery."""
    backoff_max_ms: int = 0
    ttl_ms: int = -1
    """For how long a record may be delivered; -1 means for ever."""

    @property
    def defers(self) -> bool:
        """Whether records may be deferred (see `deferred`)."""
        return self.delays or self.backoff_ms > 0

    @property
    def reads_times(self) -> bool:
        """Whether an acquisition needs the times of the records (see `schedule`)."""
        return self.delays or self.ttl_ms >= 0

    @property
    def limit(self) -> DeliveryLimit:
        """The limit of deliveries."""
        given_up = RecordState.ARCHIVING if self.has_dead_letters else RecordState.ARCHIVED
        return DeliveryLimit(self.delivery_count_limit, given_up)


class StateBatch(NamedTuple):
    """A range of records with the same state, as the share coordinator stores it."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


def combined(batches: list[StateBatch]) -> list[StateBatch]:
    """Join adjacent batches with the same state and delivery count. `batches` is in any order."""
    result: list[StateBatch] = []
    for batch in sorted(batches):
        if result:
            last = result[-1]
            if last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
                result[-1] = last._replace(last_offset=batch.last_offset)
                continue
        result.append(batch)
    return result
