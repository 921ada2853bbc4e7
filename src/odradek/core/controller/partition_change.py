"""Changes of one partition: its ISR, its replicas, and its leader.

The same builder is used for all causes: a broker is fenced or unfenced, an election or a
reassignment is requested, an ISR shrinks. The rules are those of Kafka's PartitionChangeBuilder:

- The leader is kept if it may still lead. Otherwise the new leader is the first replica in the ISR
  that may lead; if the ISR is empty, one of the eligible leader replicas (KIP-966); then the last
  known leader; then, if unclean elections are allowed, any replica that may lead.
- The last replica of the ISR stays in it when its broker is fenced, unless ELR keeps it eligible.
- An unclean leader is the only replica in the ISR, and is marked as recovering.
- A reassignment is complete when the ISR has all added replicas and at least one that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from odradek.core.controller import reassignment
from odradek.core.controller.state import ControllerState, has_online_directory
from odradek.core.metadata.registrations import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionRegistration,
)
from odradek.core.metadata.versions import LEVEL_DIRECTORIES, LEVEL_ISR_SHRINK_KEEPS_EPOCH
from odradek.wire.generated.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """The requested kind of election."""

    ONLINE = "keep the leader if it may lead"
    PREFERRED = "the first replica"
    UNCLEAN = "as ONLINE, but at last any replica"


class PartitionChange:
    """A requested change of a partition; `record()` returns the record of the change.

    The attributes are the target values: those passed in, and the current ones for all others.
    """

    def __init__(
        self,
        state: ControllerState,
        topic: str,
        topic_id: bytes,
        index: int,
        partition: PartitionRegistration,
        *,
        may_lead: Callable[[int], bool] | None = None,
        election: Election = Election.ONLINE,
        isr: Sequence[int] | None = None,
        replicas: Sequence[int] | None = None,
        removing: Sequence[int] | None = None,
        adding: Sequence[int] | None = None,
        unclean_shutdown: Sequence[int] = (),
    ) -> None:
        """`may_lead` replaces the state's `is_active` while the state of a broker changes.

        `unclean_shutdown` names replicas that may have lost data: they are no longer eligible.
        """
        self._state = state
        self._topic_id = topic_id
        self._index = index
        self._before = partition
        self._may_lead = may_lead or state.is_active
        self._min_isr = state.min_insync_replicas(topic, len(partition.replicas))
        self.isr: Sequence[int] = partition.isr if isr is None else isr
        self.replicas: Sequence[int] = partition.replicas if replicas is None else replicas
        self.removing: Sequence[int] = partition.removing_replicas if removing is None else removing
        self.adding: Sequence[int] = partition.adding_replicas if adding is None else adding
        self.directories = dict(zip(partition.replicas, partition.directories, strict=True))
        self.election = election
        self.unclean_shutdown = unclean_shutdown
        self._elr: Sequence[int] = partition.elr

    def record(self) -> PartitionChangeRecord | None:
        """The record that makes the change; None if nothing changes."""
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)
        self._complete_reassignment()
        self._set_eligible()
        self._elect(record)
        self._bump_epoch_for_lost_replicas(record)
        self._write_elr(record)
        self._write_isr(record)
        self._write_last_known_leader(record)
        self._write_assignment(record)
        return None if _is_empty(record) else record

    def _complete_reassignment(self) -> None:
        done = reassignment.completed(self.replicas, self.isr, self.removing, self.adding)
        if done is not None:
            self.replicas, self.isr = done
            self.removing = self.adding = ()

    def _set_eligible(self) -> None:
        """Replicas that leave the ISR while it is smaller than min.insync.replicas stay
        eligible."""
        if not self._state.elr_enabled:
            return
        if len(self.isr) >= self._min_isr:
            self._elr = ()
            return
        candidates = sorted({*self._elr, *self._before.isr})
        self._elr = [
            replica
            for replica in candidates
            if replica not in self.isr and replica not in self.unclean_shutdown
        ]

    # -- the election ---------------------------------------------------------------------------

    def _is_acceptable(self, replica: int) -> bool:
        if not self._may_lead(replica) or replica not in self._before.replicas:
            return False
        broker = self._state.image.cluster.brokers.get(replica)
        return has_online_directory(broker, self._before.directory(replica))

    def _is_valid(self, replica: int) -> bool:
        in_sync = replica in self.isr or (not self.isr and replica in self._elr)
        return in_sync and self._is_acceptable(replica)

    def _choose(self) -> tuple[int, bool]:
        """Return the leader (-1 if none is possible), and whether the election is unclean."""
        leader = self._before.leader
        if self.election is Election.PREFERRED and self._is_valid(self.replicas[0]):
            return self.replicas[0], False
        if self._is_valid(leader):
            return leader, False
        online = next((each for each in self.replicas if self._is_valid(each)), None)
        if online is not None:
            return online, False
        if self._can_elect_last_known():
            return self._before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            unclean = next((each for each in self.replicas if self._is_acceptable(each)), None)
            if unclean is not None:
                return unclean, True
        return NO_LEADER, False

    def _can_elect_last_known(self) -> bool:
        """No replica is in sync or eligible: the last known leader is the best choice."""
        last_known = self._before.last_known_elr
        return (
            self._state.elr_enabled
            and not self.isr
            and not self._elr
            and len(last_known) == 1
            and self._is_acceptable(last_known[0])
        )

    def _elect(self, record: PartitionChangeRecord) -> None:
        leader, is_unclean = self._choose()
        if leader == self._before.leader:
            return
        record.leader = leader
        if leader in self._elr:
            self.isr = [leader]
            self._elr = [each for each in self._elr if each != leader]
        elif is_unclean:
            record.isr = [leader]
            if self._before.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING

    # -- the rest of the record -------------------------------------------------------------------

    def _bump_epoch_for_lost_replicas(self, record: PartitionChangeRecord) -> None:
        """Set the leader in the record: this raises the leader epoch, which fences removed
        replicas."""
        if record.leader == NO_LEADER_CHANGE and not set(self._before.replicas) <= set(
            self.replicas
        ):
            record.leader = self._before.leader

    def _write_elr(self, record: PartitionChangeRecord) -> None:
        if record.isr is not None or not self._state.elr_enabled:
            self._elr = ()
        if tuple(self._elr) != self._before.elr:
            record.eligible_leader_replicas = list(self._elr)

    def _write_isr(self, record: PartitionChangeRecord) -> None:
        may_be_written = bool(self.isr) or self._state.elr_enabled
        if record.isr is None and may_be_written and tuple(self.isr) != self._before.isr:
            record.isr = list(self.isr)
        if (
            self._state.level < LEVEL_ISR_SHRINK_KEEPS_EPOCH
            and record.leader == NO_LEADER_CHANGE
            and record.isr is not None
            and not set(self._before.isr) <= set(record.isr)
        ):
            record.leader = self._before.leader  # brokers before 3.6 need it (KAFKA-15021)

    def _write_last_known_leader(self, record: PartitionChangeRecord) -> None:
        if not self._state.elr_enabled:
            return
        if record.leader == NO_LEADER and not self._before.last_known_elr:
            record.last_known_elr = [self._before.leader]
        elif record.leader >= 0 and self._before.last_known_elr:
            record.last_known_elr = []

    def _write_assignment(self, record: PartitionChangeRecord) -> None:
        if self.replicas and self._state.level >= LEVEL_DIRECTORIES:
            directories = [
                self.directories.get(replica) or self._state.default_directory(replica)
                for replica in self.replicas
            ]
            if tuple(directories) != self._before.directories:
                record.directories = directories
        if self.replicas and tuple(self.replicas) != self._before.replicas:
            record.replicas = list(self.replicas)
        if tuple(self.removing) != self._before.removing_replicas:
            record.removing_replicas = list(self.removing)
        if tuple(self.adding) != self._before.adding_replicas:
            record.adding_replicas = list(self.adding)


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
    )


def without(replicas: Iterable[int], *gone: int) -> tuple[int, ...]:
    """The replicas without the given ones."""
    return tuple(replica for replica in replicas if replica not in gone)
