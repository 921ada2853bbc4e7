"""Bugs that are planted into the nodes of a simulated cluster, to show that the checks find them.

Each bug is a function that patches the nodes with pytest's `MonkeyPatch`. `BUGS` has the number of
seeds (1, 2, ...) within which a run must fail, and a part of the violation that is found.

The simulations of `tests.raft` and `tests.replica` find other bugs, which need more elections or changes
of the ISR than a run of a whole cluster has: a voter that votes twice, or a new leader that ignores the
start of its epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.replica.planted import (
    AdmitsLagging,
    AdvancesEarly,
    CountsOthers,
    IgnoresPending,
    ShrinksAtOnce,
    TruncatesToHighWatermark,
    TruncatesTooLittle,
)
from tests.sim import client_bugs, share_bugs

from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.coordinator import runtime
from odradek.broker.coordinator.loading import Loaded
from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.coordinator.replicas import ReplicaPartition
from odradek.broker.metadata import snapshot_generator
from odradek.broker.partitions import leading, reading
from odradek.broker.partitions.partition import Partition
from odradek.broker.raft.delivery import Delivery
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.replication import fetchers
from odradek.core.controller import alter_partition, periodic
from odradek.core.controller.heartbeats import BrokerHeartbeats
from odradek.core.controller.partition_change import PartitionChange
from odradek.core.group.classic.group import ClassicGroup
from odradek.core.group.coordinator.machine import GroupMachine
from odradek.core.group.offsets.commit import Commit
from odradek.core.group.offsets.fetch import Fetch
from odradek.core.replica.follower import ReplicaFetcher
from odradek.log.partition_log import PartitionLog
from odradek.log.producer_state import ProducerAppendInfo, ProducerState
from odradek.model.errors import ErrorCode
from odradek.wire.generated.producer_ids_record import ProducerIdsRecord

Plant = Callable[[pytest.MonkeyPatch], None]


class PlantedBug(NamedTuple):
    """A bug. A run of one of the seeds 1 to `seeds` must have a violation with `found`."""

    plant: Plant
    seeds: int
    found: str


# -- leaders and followers ----------------------------------------------------------------------


def _leader(planted: type) -> Plant:
    return lambda patch: patch.setattr(leading, "PartitionLeader", planted)


def _fetcher(planted: type) -> Plant:
    return lambda patch: patch.setattr(fetchers, "ReplicaFetcher", planted)


class TruncatesNothing(ReplicaFetcher):
    """A follower whose log diverges keeps its records."""

    def _truncation_offset(self, state, data):
        return state.log.log_end_offset


def ignore_epochs_on_fetch(patch):
    """Fetch requests are served in any leader epoch, and are compared by their offset alone."""
    patch.setattr(Partition, "check_epoch", lambda partition, epoch: None)
    patch.setattr(reading, "diverging_epoch", lambda log, epoch, offset: None)


def acknowledge_before_the_isr(patch):
    """A producer gets the response when the leader has the records."""
    patch.setattr(Partition, "is_acknowledged", lambda partition, offset, acks: True)


def read_above_the_high_watermark(patch):
    """Consumers read all that the replica has."""
    read = PartitionLog.read

    def read_more(log, offset, max_bytes, limit, *rest):
        end = log.log_end_offset if limit == log.high_watermark else limit
        return read(log, offset, max_bytes, end, *rest)

    patch.setattr(PartitionLog, "read", read_more)


# -- the controller -----------------------------------------------------------------------------


def never_fence(patch):
    """The sessions of brokers do not expire."""
    patch.setattr(BrokerHeartbeats, "expired", lambda heartbeats, now_ms: None)
    patch.setattr(BrokerHeartbeats, "deadline_ms", None)


def fence_without_elections(patch):
    """A broker is fenced, and leads on."""
    fence = periodic.fence_broker
    patch.setattr(periodic, "fence_broker", lambda state, broker: fence(state, broker)[-1:])


def elect_outside_the_isr(patch):
    """Any live replica may become the leader."""
    patch.setattr(
        PartitionChange, "_is_valid", lambda change, replica: change._is_acceptable(replica)
    )


def accept_old_alter_partition(patch):
    """AlterPartition is accepted from any replica, in any leader epoch and partition epoch."""

    def problem(state, broker_id, topic, partition, wanted, isr):
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if isr is None or broker_id not in isr or not set(isr) <= set(partition.replicas):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    patch.setattr(alter_partition, "_problem", problem)


def decide_without_the_quorum(patch):
    """The controller responds before its records are committed, so a stale one responds too."""

    def at_once(controller):
        future = controller._loop.create_future()
        future.set_result(None)
        return future

    patch.setattr(QuorumController, "_wait_for_commit", at_once)


# -- the quorum and its snapshots ---------------------------------------------------------------


def do_not_persist_the_vote(patch):
    """The file of the election state has the epoch, but not the vote."""
    write = MetadataLog.write_election

    def write_epoch(log, election, kraft_version, voters):
        write(log, election._replace(voted=None), kraft_version, voters)

    patch.setattr(MetadataLog, "write_election", write_epoch)


def forget_the_snapshot(patch):
    """A node that starts reads only the records after the snapshot."""

    def skip(delivery):
        latest = delivery._log.latest_snapshot
        delivery._delivered = delivery._log.start_offset if latest is None else latest.offset

    patch.setattr(Delivery, "_deliver_snapshot", skip)


def leave_out_of_the_snapshot(patch):
    """A snapshot does not have the next producer id."""
    records = snapshot_generator.image_records

    def some(image):
        return (each for each in records(image) if not isinstance(each, ProducerIdsRecord))

    patch.setattr(snapshot_generator, "image_records", some)


# -- producers and transactions -----------------------------------------------------------------


def forget_sequences_after_failover(patch):
    """A new leader does not know the sequence numbers of the idempotent producers."""
    lead = Partition.lead_followers

    def forgetful(partition, context):
        if partition.leading is None:
            entries = partition.log.producers.entries
            for producer_id, entry in list(entries.items()):
                if entry.transaction_first_offset < 0:
                    del entries[producer_id]
        lead(partition, context)

    patch.setattr(Partition, "lead_followers", forgetful)


def accept_fenced_producers(patch):
    """A log accepts batches of earlier epochs of a producer that has a transaction open."""
    check_sequence = ProducerAppendInfo._check_sequence
    start_verification = ProducerState.start_verification

    def verify_new_epochs(producers, now_ms, producer_id, sequence, epoch, *rest):
        if producers.has_ongoing(producer_id, epoch):
            return 0
        return start_verification(producers, now_ms, producer_id, sequence, epoch, *rest)

    def has_ongoing(producers, producer_id, epoch):
        entry = producers.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0

    def check_new_epochs(info, entry, batch, first_offset):
        if batch.producer_epoch >= entry.epoch:
            check_sequence(info, entry, batch, first_offset)

    patch.setattr(ProducerState, "has_ongoing", has_ongoing)
    patch.setattr(ProducerState, "start_verification", verify_new_epochs)
    patch.setattr(ProducerAppendInfo, "_check_epoch", lambda info, entry, epoch, version: None)
    patch.setattr(ProducerAppendInfo, "_check_sequence", check_new_epochs)


def write_one_marker(patch):
    """Of all partitions of a transaction on a broker, only the first one gets the marker."""
    write = MarkerWriter.write

    def write_first(writer, marker):
        written = dict.fromkeys(marker.partitions[1:], ErrorCode.NONE)
        results = write(writer, marker._replace(partitions=marker.partitions[:1]))
        if isinstance(results, dict):
            return {**written, **results}

        async def wait():
            return {**written, **await results}

        return writer._loop.create_task(wait())

    patch.setattr(MarkerWriter, "write", write_first)


def ignore_the_last_stable_offset(patch):
    """Consumers with read_committed get the records of open transactions."""
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def wait_for_the_newest_transaction(patch):
    """Of several open transactions, the one that began last determines the last stable offset."""

    def last_stable_offset(log):
        newest = max((*log.producers.ongoing, *log.producers.unreplicated), default=-1)
        return newest if 0 <= newest < log.high_watermark else log.high_watermark

    patch.setattr(PartitionLog, "last_stable_offset", property(last_stable_offset))


# -- coordinators -------------------------------------------------------------------------------


def acknowledge_unreplicated_commits(patch):
    """A coordinator responds when its own log has the records."""
    patch.setattr(ReplicaPartition, "high_watermark", ReplicaPartition.end_offset)
    patch.setattr(
        ReplicaPartition, "when_committed", lambda partition, offset, committed: committed(None)
    )


def do_not_reload_coordinators(patch):
    """A new coordinator begins without the records of the coordinator before it."""

    async def load(loader):
        return Loaded(loader._partition.end_offset, 0, 0, 0)

    patch.setattr(runtime.Loader, "load", load)


def ignore_the_generation(patch):
    """A member may commit in an earlier generation."""
    validate = ClassicGroup.validate_offset_commit

    def any_generation(group, committer):
        if committer.generation_or_epoch >= 0:
            committer = committer._replace(generation_or_epoch=group.generation_id)
        return validate(group, committer)

    patch.setattr(ClassicGroup, "validate_offset_commit", any_generation)


def keep_aborted_offsets(patch):
    """The offsets of an aborted transaction are committed."""
    replay = GroupMachine.replay_end_of_transaction

    def commit(machine, producer_id, producer_epoch, committed):
        replay(machine, producer_id, producer_epoch, True)

    patch.setattr(GroupMachine, "replay_end_of_transaction", commit)


def forget_offsets_of_transactions(patch):
    """The offsets of a committed transaction are not committed."""
    replay = GroupMachine.replay_end_of_transaction

    def abort(machine, producer_id, producer_epoch, committed):
        replay(machine, producer_id, producer_epoch, False)

    patch.setattr(GroupMachine, "replay_end_of_transaction", abort)


def ignore_require_stable(patch):
    """OffsetFetch returns offsets that a transaction is about to replace."""
    fetch = Fetch.fetch

    def fetch_unstable(offsets, request, require_stable):
        return fetch(offsets, request, False)

    patch.setattr(Fetch, "fetch", fetch_unstable)


def accept_offsets_from_any_member(patch):
    """TxnOffsetCommit is accepted from a member that the group has removed (KIP-447)."""
    patch.setattr(Commit, "_validate_in_transaction", lambda commit, request, version: None)


BUGS: dict[str, PlantedBug] = {
    "the high watermark advances early": PlantedBug(_leader(AdvancesEarly), 20, "is in the ISR"),
    "replicas outside the ISR count": PlantedBug(_leader(CountsOthers), 20, "is in the ISR"),
    "a pending expansion of the ISR is ignored": PlantedBug(_leader(IgnoresPending), 60, ""),
    "the ISR shrinks before the controller agrees": PlantedBug(_leader(ShrinksAtOnce), 60, ""),
    "a lagging follower joins the ISR": PlantedBug(_leader(AdmitsLagging), 60, "is in the ISR"),
    "a follower truncates to its high watermark": PlantedBug(
        _fetcher(TruncatesToHighWatermark), 20, ""
    ),
    "a follower does not truncate": PlantedBug(_fetcher(TruncatesNothing), 60, ""),
    "a follower truncates too little": PlantedBug(_fetcher(TruncatesTooLittle), 60, ""),
    "epochs are ignored on Fetch": PlantedBug(ignore_epochs_on_fetch, 60, ""),
    "producers are acknowledged before the ISR has the records": PlantedBug(
        acknowledge_before_the_isr, 20, ""
    ),
    "consumers read above the high watermark": PlantedBug(read_above_the_high_watermark, 20, ""),
    "dead brokers are not fenced": PlantedBug(never_fence, 100, "is not fenced"),
    "fencing moves no leaders": PlantedBug(fence_without_elections, 20, "which is fenced"),
    "leaders are elected outside the ISR": PlantedBug(elect_outside_the_isr, 20, "is in sync"),
    "AlterPartition of an old epoch is accepted": PlantedBug(accept_old_alter_partition, 60, ""),
    "a stale controller's decisions are reported": PlantedBug(decide_without_the_quorum, 60, ""),
    "votes are not persisted": PlantedBug(do_not_persist_the_vote, 100, "forgotten"),
    "the snapshot is forgotten at a start": PlantedBug(forget_the_snapshot, 20, ""),
    "a snapshot lacks the producer ids": PlantedBug(leave_out_of_the_snapshot, 20, "image"),
    "sequence numbers are forgotten after a failover": PlantedBug(
        forget_sequences_after_failover, 60, ""
    ),
    "a log accepts the epoch of a fenced producer": PlantedBug(accept_fenced_producers, 20, ""),
    "a marker is written to one partition only": PlantedBug(write_one_marker, 20, ""),
    "the last stable offset is ignored": PlantedBug(ignore_the_last_stable_offset, 60, "G1c-wr"),
    "the last stable offset follows the newest transaction": PlantedBug(
        wait_for_the_newest_transaction, 20, "G1a"
    ),
    "commits are acknowledged before they are replicated": PlantedBug(
        acknowledge_unreplicated_commits, 60, ""
    ),
    "a new coordinator does not load its log": PlantedBug(do_not_reload_coordinators, 20, ""),
    "the generation of a group is ignored": PlantedBug(ignore_the_generation, 20, "committed in"),
    "offsets of aborted transactions are committed": PlantedBug(keep_aborted_offsets, 20, ""),
    "offsets of committed transactions are not committed": PlantedBug(
        forget_offsets_of_transactions, 20, "nonmonotonic-poll"
    ),
    "OffsetFetch ignores require_stable": PlantedBug(
        ignore_require_stable, 20, "processed 2 times"
    ),
    "offsets of a transaction are accepted from any member": PlantedBug(
        accept_offsets_from_any_member, 20, "processed 2 times"
    ),
    "a new leader does not read the state of share groups": PlantedBug(
        share_bugs.do_not_read_the_state, 20, "had been accepted"
    ),
    "the state of share groups is not stored": PlantedBug(
        share_bugs.do_not_store_the_state, 20, "had been accepted"
    ),
    "an answer is given before the state of a share group is stored": PlantedBug(
        share_bugs.answer_before_the_state_is_stored, 60, "had been accepted"
    ),
    "locks of records do not expire": PlantedBug(
        share_bugs.never_expire_locks, 20, "its lock has expired"
    ),
    "locks of records are ignored": PlantedBug(share_bugs.ignore_locks, 20, "has the lock"),
    "deliveries of records are not counted": PlantedBug(
        share_bugs.count_no_deliveries, 20, "the delivery count is 1 after 1"
    ),
    "released records are not delivered again": PlantedBug(
        share_bugs.archive_released_records, 20, "never settled"
    ),
    **{name: PlantedBug(*bug) for name, bug in client_bugs.BUGS.items()},
}
"""The bugs by name."""
