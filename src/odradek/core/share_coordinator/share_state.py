"""The state of one share partition (Kafka's `ShareGroupOffset`). States are immutable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.core.share_coordinator.state_batches import StateBatch, combine
from odradek.wire.generated.share_snapshot_value import ShareSnapshotValue
from odradek.wire.generated.share_update_value import ShareUpdateValue

NO_OFFSET: Final = -1
"""As a state's start offset: `share.auto.offset.reset` determines it. In a change: no change."""
NO_EPOCH: Final = -1
NO_COUNT: Final = -1
UNINITIALIZED_EPOCH: Final = 0


class ShareState(NamedTuple):
    """The state of a share partition after its last record."""

    snapshot_epoch: int
    """The number of the last snapshot."""
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    """Number of records after the start offset whose delivery is complete; -1 if unknown."""
    batches: Sequence[StateBatch]
    create_timestamp_ms: int = 0
    """When a change was last written as a snapshot."""
    write_timestamp_ms: int = 0
    """When the last snapshot was written, including snapshots that only repeat an idle state."""
    leader_epoch_max: int = 0
    """The highest leader epoch of all records. Lower epochs are fenced."""
    state_epoch_max: int = 0
    """The highest state epoch of all records. Lower epochs are fenced."""
    update_count: int = 0
    """Number of updates since the last snapshot that contained a change."""

    @property
    def is_repeated(self) -> bool:
        """Whether the last snapshot only repeats an idle state."""
        return self.create_timestamp_ms != self.write_timestamp_ms

    def changed(
        self,
        start_offset: int,
        delivery_complete_count: int,
        leader_epoch: int,
        changes: Iterable[StateBatch],
    ) -> ShareState:
        """Return the state after a change."""
        if start_offset == NO_OFFSET:
            start_offset = self.start_offset
        return self._replace(
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            leader_epoch=self.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch,
            batches=combine(self.batches, changes, start_offset),
        )


def after_snapshot(
    before: ShareState | None, value: ShareSnapshotValue, updates_max: int
) -> ShareState:
    """Return the state after the replay of a snapshot.

    The number of updates is reset if it has reached `updates_max`. So a snapshot of an idle state
    does not reset it.
    """
    state = ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value),
        value.create_timestamp,
        value.write_timestamp,
        value.leader_epoch,
        value.state_epoch,
    )
    if before is None:
        return state
    return state._replace(
        leader_epoch_max=max(before.leader_epoch_max, value.leader_epoch),
        state_epoch_max=max(before.state_epoch_max, value.state_epoch),
        update_count=0 if before.update_count >= updates_max else before.update_count,
    )


def after_update(before: ShareState | None, value: ShareUpdateValue) -> ShareState:
    """Return the state after the replay of an update.

    There is no state before if the snapshot was deleted from the log. Then a newer snapshot
    follows.
    """
    if before is None:
        return ShareState(
            value.snapshot_epoch,
            UNINITIALIZED_EPOCH,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            _batches(value),
            leader_epoch_max=value.leader_epoch,
            state_epoch_max=NO_EPOCH,
            update_count=1,
        )
    after = before.changed(
        value.start_offset, value.delivery_complete_count, value.leader_epoch, _batches(value)
    )
    return after._replace(
        leader_epoch_max=max(before.leader_epoch_max, value.leader_epoch),
        update_count=before.update_count + 1,
    )


def _batches(value: ShareSnapshotValue | ShareUpdateValue) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state)
        for each in value.state_batches
    ]
