"""Bugs that are planted into the share groups of a simulated cluster (see `planted_bugs`)."""

from __future__ import annotations

import asyncio

from odradek.broker.share.local import UNINITIALIZED, LocalSharePartition, _Write
from odradek.core.share.acknowledgement import Change
from odradek.core.share.in_flight import InFlightState
from odradek.core.share.partition import SharePartition
from odradek.core.share.states import RecordState
from odradek.wire.generated.write_share_group_state_response import PartitionResult


def do_not_read_the_state(patch):
    """A new leader begins as if the group had not consumed the partition before."""
    read = LocalSharePartition._read

    async def read_nothing(local):
        result = await read(local)
        result.start_offset, result.state_batches = UNINITIALIZED, []
        return result

    patch.setattr(LocalSharePartition, "_read", read_nothing)


def do_not_store_the_state(patch):
    """Acknowledgements are confirmed, and the share coordinator does not get them."""

    def store_nothing(local, batches):
        return _Write(local.machine.passed(), PartitionResult())

    patch.setattr(LocalSharePartition, "_begin_write", store_nothing)


def answer_before_the_state_is_stored(patch):
    """An acknowledgement is confirmed when it is sent to the share coordinator, which may refuse it."""
    store = LocalSharePartition._store

    def answer(local, change):
        result = store(local, change)
        return None if isinstance(result, asyncio.Future) else result

    patch.setattr(LocalSharePartition, "_store", answer)


def never_expire_locks(patch):
    """A member may acknowledge a record at any time."""
    patch.setattr(SharePartition, "expire", lambda partition, now_ms: Change())


def ignore_locks(patch):
    """Records that a member has acquired are delivered to other members."""
    patch.setattr(
        InFlightState,
        "is_acquirable",
        property(
            lambda state: (
                state.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)
                and not state.in_transition
            )
        ),
    )


def count_no_deliveries(patch):
    """The delivery count stays 1."""
    acquire = InFlightState.acquire

    def acquire_again(state, member_id, lock):
        acquire(state, member_id, lock)
        state.delivery_count = 1

    patch.setattr(InFlightState, "acquire", acquire_again)


def archive_released_records(patch):
    """A record that a member releases is not delivered again."""
    begin = InFlightState.begin_transition

    def begin_archived(state, after, limit):
        is_released = after is RecordState.AVAILABLE
        return begin(state, RecordState.ARCHIVED if is_released else after, limit)

    patch.setattr(InFlightState, "begin_transition", begin_archived)
