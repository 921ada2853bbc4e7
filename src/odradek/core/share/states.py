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
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED

    def may_become(self, state: RecordState) -> bool:
        """Return whether a record in this state may change to `state`."""
        if self is state or self.is_terminal:
            return False
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
"""The state of a record after an acknowledgement of this type. RENEW does not change the state."""


class ShareSettings(NamedTuple):
    """The settings of a share group that a share partition uses."""

    record_lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    renew_enabled: bool


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
