"""The records of `__share_group_state`."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.coordinator.record import CoordinatorRecord, KeyMessages
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.core.share_coordinator.share_state import ShareState
from odradek.core.share_coordinator.state_batches import StateBatch
from odradek.wire.generated.share_snapshot_key import ShareSnapshotKey
from odradek.wire.generated.share_snapshot_value import ShareSnapshotValue
from odradek.wire.generated.share_snapshot_value import StateBatch as SnapshotBatch
from odradek.wire.generated.share_update_key import ShareUpdateKey
from odradek.wire.generated.share_update_value import ShareUpdateValue
from odradek.wire.generated.share_update_value import StateBatch as UpdateBatch

MESSAGES: KeyMessages = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
"""Key and value classes by record type."""


def snapshot(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """Return the record of the whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=[
            SnapshotBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in state.batches
        ],
    )
    return CoordinatorRecord(_snapshot_key(key), value)


def update(
    key: SharePartitionKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    changes: Iterable[StateBatch],
) -> CoordinatorRecord:
    """Return the record of a change."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[
            UpdateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in changes
        ],
    )
    group_id, topic_id, partition = key
    update_key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
    return CoordinatorRecord(update_key, value)


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """Return the tombstone of a share partition."""
    return CoordinatorRecord(_snapshot_key(key), None)


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
