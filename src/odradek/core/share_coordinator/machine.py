"""The state machine of one partition of `__share_group_state`.

An operation has the key of one share partition and, if it has any, the data of this partition in
the request. Its response is the result of the partition in the response. An invalid operation is
not an exception: the result has the error, because the other partitions of the request are
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.clock import Clock
from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.machine import Effects, QuickReplay
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NO_RECORDS, NOTHING, CoordinatorResult
from odradek.core.coordinator.timers import TimerTable
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.core.share_coordinator import records
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.core.share_coordinator.share_state import (
    NO_COUNT,
    NO_OFFSET,
    UNINITIALIZED_EPOCH,
    ShareState,
    after_snapshot,
    after_update,
)
from odradek.core.share_coordinator.share_states import ShareStates
from odradek.core.share_coordinator.state_batches import StateBatch, combine
from odradek.model.errors import ErrorCode
from odradek.wire.generated import (
    delete_share_group_state_request,
    delete_share_group_state_response,
    initialize_share_group_state_request,
    initialize_share_group_state_response,
    read_share_group_state_request,
    read_share_group_state_response,
    read_share_group_state_summary_request,
    read_share_group_state_summary_response,
    write_share_group_state_request,
    write_share_group_state_response,
)
from odradek.wire.generated.share_snapshot_key import ShareSnapshotKey
from odradek.wire.generated.share_snapshot_value import ShareSnapshotValue
from odradek.wire.generated.share_update_key import ShareUpdateKey
from odradek.wire.generated.share_update_value import ShareUpdateValue

Initialization = initialize_share_group_state_request.PartitionData
Initialized = initialize_share_group_state_response.PartitionResult
Reading = read_share_group_state_request.PartitionData
Read = read_share_group_state_response.PartitionResult
Writing = write_share_group_state_request.PartitionData
Written = write_share_group_state_response.PartitionResult
Deletion = delete_share_group_state_request.PartitionData
Deleted = delete_share_group_state_response.PartitionResult
Summarizing = read_share_group_state_summary_request.PartitionData
Summary = read_share_group_state_summary_response.PartitionResult

Note = Callable[[str, str], None]
"""Called with the text of a key and a message for the operator's log."""

_COLD_KEY: Final = "cold snapshots"
_NEGATIVE: Final = "The {} cannot be a negative number."
_NOT_INITIALIZED: Final = "{} operation on uninitialized share partition not allowed."

_Refusal = tuple[ErrorCode, str | None]
ResultT = TypeVar("ResultT", Initialized, Read, Written, Deleted, Summary)


def no_note(key: str, text: str) -> None:
    """Ignore the message."""


class ShareCoordinatorMachine:
    """Implements `CoordinatorMachine`."""

    def __init__(self, config: BrokerConfig, clock: Clock, note: Note = no_note) -> None:
        self.journal = Journal()
        self.timers = TimerTable(clock.monotonic_ms)
        self.effects = Effects()
        self.messages = records.MESSAGES
        self.quick_replay: QuickReplay | None = None
        self.states = ShareStates(self.journal)
        self._config = config
        self._clock = clock
        self._note = note
        self._image: MetadataImage = EMPTY_IMAGE

    # -- operations ---------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, asked: Initialization
    ) -> CoordinatorResult[Initialized]:
        """Begin the state of a share partition, or replace it (key 83)."""
        state = self.states.by_key.get(key)
        error = _negative(key, state_epoch=asked.state_epoch) or self._refusal(
            key, state, state_epoch=asked.state_epoch
        )
        if error is not None:
            return _failed(Initialized, key, *error)
        now_ms = self._clock.now_ms()
        begun = ShareState(
            0 if state is None else state.snapshot_epoch + 1,
            asked.state_epoch,
            UNINITIALIZED_EPOCH,
            asked.start_offset,
            NO_COUNT if asked.start_offset == NO_OFFSET else 0,
            (),
            now_ms,
            now_ms,
        )
        self._note(key.text, f"initialized in state epoch {asked.state_epoch}")
        result = Initialized(partition=key.partition)
        return CoordinatorResult((records.snapshot(key, begun),), result)

    def read(self, key: SharePartitionKey, asked: Reading) -> CoordinatorResult[Read]:
        """Return the state of a share partition to the leader of its partition (key 84).

        From now on, writes of earlier leaders are fenced.
        """
        state = self.states.by_key.get(key)
        leader_epoch = asked.leader_epoch
        error = _negative(key, leader_epoch)
        if error is None and state is None:
            error = ErrorCode.INVALID_REQUEST, _NOT_INITIALIZED.format("Read")
        error = error or self._refusal(key, state, leader_epoch)
        if error is not None:
            return _failed(Read, key, *error)
        assert state is not None
        result = Read(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                read_share_group_state_response.StateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in state.batches
            ],
        )
        if leader_epoch == state.leader_epoch_max:
            return CoordinatorResult(NO_RECORDS, result)
        self._note(key.text, f"read in leader epoch {leader_epoch}")
        record = self._change(
            key, state, leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        return CoordinatorResult((record,), result)

    def write(self, key: SharePartitionKey, asked: Writing) -> CoordinatorResult[Written]:
        """Change the state of a share partition (key 85).

        Writes may arrive late. So the start offset never decreases, nor does the number of
        completed records after one start offset. Otherwise records would be delivered again.
        """
        state = self.states.by_key.get(key)
        error = _negative(key, asked.leader_epoch, asked.state_epoch)
        if error is None and state is None:
            error = ErrorCode.INVALID_REQUEST, _NOT_INITIALIZED.format("Write")
        error = error or self._refusal(key, state, asked.leader_epoch, asked.state_epoch)
        if error is not None:
            return _failed(Written, key, *error)
        assert state is not None
        changes = [
            StateBatch(
                each.first_offset, each.last_offset, each.delivery_count, each.delivery_state
            )
            for each in asked.state_batches
        ]
        record = self._change(
            key,
            state,
            state.leader_epoch,
            max(asked.start_offset, state.start_offset),
            _complete_count(state, asked),
            changes,
        )
        return CoordinatorResult((record,), Written(partition=key.partition))

    def read_summary(
        self, key: SharePartitionKey, asked: Summarizing
    ) -> CoordinatorResult[Summary]:
        """Return the start offset and the epochs of a share partition (key 87)."""
        error = _negative(key) or self._refusal(key, None)
        if error is not None:
            return _failed(Summary, key, *error)
        state = self.states.by_key.get(key)
        if state is None:
            result = Summary(
                partition=key.partition,
                state_epoch=UNINITIALIZED_EPOCH,
                leader_epoch=UNINITIALIZED_EPOCH,
                start_offset=NO_OFFSET,
                delivery_complete_count=NO_COUNT,
            )
        else:
            result = Summary(
                partition=key.partition,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
            )
        return CoordinatorResult(NO_RECORDS, result)

    def delete(self, key: SharePartitionKey, asked: Deletion) -> CoordinatorResult[Deleted]:
        """Delete the state of a share partition, if it exists (key 86)."""
        error = _negative(key) or self._refusal(key, None)
        if error is not None:
            return _failed(Deleted, key, *error)
        result = Deleted(partition=key.partition)
        if key not in self.states.by_key:
            return CoordinatorResult(NO_RECORDS, result)
        self._note(key.text, "deleted")
        return CoordinatorResult((records.tombstone(key),), result)

    def on_topics_deleted(self, topic_ids: Collection[bytes]) -> CoordinatorResult[None]:
        """Delete the states of the partitions of deleted topics."""
        gone = [records.tombstone(key) for key in self.states.by_key if key.topic_id in topic_ids]
        return CoordinatorResult(gone, None, atomic=False)

    def _refusal(
        self,
        key: SharePartitionKey,
        state: ShareState | None,
        leader_epoch: int | None = None,
        state_epoch: int | None = None,
    ) -> _Refusal | None:
        """Return the error of an operation, and its message if it is not the error's own.

        `leader_epoch` and `state_epoch` are compared with the epochs of the state, except None.
        """
        if state is not None:
            if leader_epoch is not None and state.leader_epoch_max > leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH, None
            if state_epoch is not None and state.state_epoch_max > state_epoch:
                return ErrorCode.FENCED_STATE_EPOCH, None
        topic = self._image.topics.by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        return None

    def _change(
        self,
        key: SharePartitionKey,
        state: ShareState,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        changes: Collection[StateBatch],
    ) -> CoordinatorRecord:
        """Return the record of a change: an update, or a snapshot after many updates."""
        if state.update_count < self._updates_max:
            return records.update(
                key,
                state.snapshot_epoch,
                leader_epoch,
                start_offset,
                delivery_complete_count,
                combine((), changes, start_offset),
            )
        now_ms = self._clock.now_ms()
        after = state.changed(start_offset, delivery_complete_count, leader_epoch, changes)
        after = after._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return records.snapshot(key, after)

    @property
    def _updates_max(self) -> int:
        return self._config.share_coordinator_snapshot_update_records_per_snapshot

    # -- periodic work ------------------------------------------------------------------------

    def _schedule_cold_snapshots(self) -> None:
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        self.timers.schedule(
            _COLD_KEY, interval_ms, self._repeat_cold_snapshots, retry_ms=interval_ms
        )

    def _repeat_cold_snapshots(self) -> CoordinatorResult[None]:
        self._schedule_cold_snapshots()
        return self.snapshot_cold()

    def snapshot_cold(self) -> CoordinatorResult[None]:
        """Write new snapshots of share partitions whose last snapshot is old.

        Without new snapshots, idle share partitions prevent the deletion of redundant records. If
        all share partitions are idle, nothing is written.
        """
        states = self.states.by_key
        if all(each.is_repeated for each in states.values()):
            return NOTHING
        now_ms = self._clock.now_ms()
        age_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        repeated = [
            records.snapshot(
                key,
                state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now_ms),
            )
            for key, state in states.items()
            if now_ms - state.write_timestamp_ms >= age_ms
        ]
        return CoordinatorResult(repeated, None, atomic=False)

    # -- replay -------------------------------------------------------------------------------

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """See `CoordinatorMachine`."""
        message, value = record.key, record.value
        assert isinstance(message, ShareSnapshotKey | ShareUpdateKey)
        key = SharePartitionKey(message.group_id, message.topic_id, message.partition)
        before = self.states.by_key.get(key)
        if isinstance(value, ShareUpdateValue):
            self.states.put(key, after_update(before, value))
        elif isinstance(value, ShareSnapshotValue):
            after = after_snapshot(before, value, self._updates_max)
            self.states.put_snapshot(key, after, offset)
        elif isinstance(message, ShareSnapshotKey):  # updates are never deleted by a tombstone
            self.states.remove(key, offset)

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """See `CoordinatorMachine`. Records of this log are never part of a transaction."""

    # -- events of the runtime ----------------------------------------------------------------

    def on_loaded(self, image: MetadataImage) -> None:
        """See `CoordinatorMachine`."""
        self._image = image
        self._schedule_cold_snapshots()

    def on_unloaded(self) -> None:
        """See `CoordinatorMachine`. Each operation returns its response, so no request waits."""

    def update_config(self, config: BrokerConfig) -> None:
        """See `CoordinatorMachine`."""
        self._config = config

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorMachine`."""
        self._image = image


def _negative(
    key: SharePartitionKey, leader_epoch: int = 0, state_epoch: int = 0
) -> _Refusal | None:
    """Return the error of an operation whose partition or epoch is negative."""
    for name, number in (
        ("partition id", key.partition),
        ("leader epoch", leader_epoch),
        ("state epoch", state_epoch),
    ):
        if number < 0:
            return ErrorCode.INVALID_REQUEST, _NEGATIVE.format(name)
    return None


def _complete_count(state: ShareState, asked: Writing) -> int:
    """Return the number of completed records after a write, which may be older than the state."""
    if asked.start_offset > state.start_offset:
        return asked.delivery_complete_count
    if asked.start_offset < state.start_offset:
        return state.delivery_complete_count
    return max(asked.delivery_complete_count, state.delivery_complete_count)


def _failed(
    kind: type[ResultT], key: SharePartitionKey, code: ErrorCode, message: str | None
) -> CoordinatorResult[ResultT]:
    result = kind(partition=key.partition, error_code=code, error_message=message or code.message)
    return CoordinatorResult(NO_RECORDS, result)
