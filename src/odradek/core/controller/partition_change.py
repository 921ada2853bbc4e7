"""Changes of one partition: its ISR, its replicas, and its leader.

`PartitionChange` is used for all causes: a broker is fenced or unfenced, a broker restarts after an
unclean shutdown, or a client requests an election or a reassignment. The rules are the same as in
Kafka's PartitionChangeBuilder:

- In a preferred election, the first replica becomes the leader if it is in the ISR and may lead.
- Otherwise the leader stays the leader if it may still lead. If not, the new leader is the first of
  the following replicas that may lead:

  1. a replica in the ISR;
  2. if the ISR is empty: an eligible leader replica (ELR, KIP-966);
  3. if the ELR is also empty: the last known leader (only if ELR is enabled);
  4. if unclean elections are allowed: any replica.

- If ELR is disabled, the ISR never becomes empty: when the broker of the last replica in the ISR
  is fenced, this replica stays in the ISR. If ELR is enabled, this replica leaves the ISR and
  becomes an eligible leader replica.
- After an unclean election the ISR contains only the new leader, which is marked as recovering.
- A leader is recovering until it reports that it has recovered. During this time its ISR contains
  only the leader.
- A reassignment can be completed only when the ISR contains all added replicas. See
  `reassignment.completed` for the other conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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

NO_DIRECTORIES: Mapping[int, bytes] = {}


class Election(Enum):
    """The requested kind of election."""

    ONLINE = "keep the leader if it may lead"
    PREFERRED = "elect the first replica"
    UNCLEAN = "as ONLINE, but elect any replica if no other leader is possible"


class PartitionChange:
    """A requested change of a partition. `record()` returns the record of the change.

    The attributes are the values after the change. A value that the caller did not pass is the
    current value.
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
        recovery_state: int | None = None,
        directories: Mapping[int, bytes] = NO_DIRECTORIES,
    ) -> None:
        """Prepare the change.

        `may_lead` returns whether a broker may lead; the default is the state's `is_active`.
        Callers pass `may_lead` if a broker is being fenced or unfenced, because the state does not
        contain this change yet. `unclean_shutdown` has the replicas that may have lost records.
        These replicas are removed from the ELR. `recovery_state` is the leader's recovery state
        (KIP-704). `directories` has the new log directories of replicas.
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
        self.directories.update(directories)
        self.election = election
        self.unclean_shutdown = unclean_shutdown
        self.recovery_state = (
            partition.leader_recovery_state if recovery_state is None else recovery_state
        )
        self._elr: Sequence[int] = partition.elr

    def record(self) -> PartitionChangeRecord | None:
        """Return the record that makes the change; None if nothing changes."""
        record = PartitionChangeRecord(topic_id=self._topic_id, partition_id=self._index)
        self._complete_reassignment()
        self._set_eligible()
        self._elect(record)
        self._bump_epoch_for_lost_replicas(record)
        self._write_elr(record)
        self._write_isr(record)
        self._write_last_known_leader(record)
        self._write_assignment(record)
        if self.recovery_state != self._before.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        if _is_empty(record):
            return None
        self._check(record)
        return record

    def _check(self, record: PartitionChangeRecord) -> None:
        """State the invariants of `PartitionRegistration` for the partition after the change."""
        before, replicas = self._before, {*self.replicas}
        isr = {*(before.isr if record.isr is None else record.isr)}
        leader = before.leader if record.leader == NO_LEADER_CHANGE else record.leader
        assert len(replicas) == len(self.replicas), "a broker has one replica of a partition"
        assert isr <= replicas, "in-sync replicas are replicas"
        assert replicas >= {*self._elr}, "eligible leaders are replicas"
        assert isr.isdisjoint(self._elr), "the ELR is outside the ISR"
        assert replicas >= {*self.removing, *self.adding}, "a reassignment names replicas"
        assert leader == NO_LEADER or leader in isr, "the leader is in sync"

    def _complete_reassignment(self) -> None:
        done = reassignment.completed(self.replicas, self.isr, self.removing, self.adding)
        if done is not None:
            self.replicas, self.isr = done
            self.removing = self.adding = ()

    def _set_eligible(self) -> None:
        """Set the new ELR.

        While the ISR is smaller than min.insync.replicas, replicas that leave the ISR become
        eligible leader replicas. Otherwise the ELR is empty.
        """
        if not self._state.elr_enabled:
            return
        if len(self.isr) >= min(self._min_isr, len(self.replicas)):
            self._elr = ()
            return
        candidates = sorted({*self._elr, *self._before.isr})
        self._elr = [
            replica
            for replica in candidates
            if replica in self.replicas
            and replica not in self.isr
            and replica not in self.unclean_shutdown
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
        """Return whether the last known leader may be elected: the ISR and the ELR are empty."""
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
        """Raise the leader epoch if a replica is removed, so that the removed replica is fenced.

        A record with a leader raises the leader epoch, even if the leader is the same.
        """
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
            record.leader = self._before.leader  # brokers before 3.6 need a new epoch (KAFKA-15021)

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
    """Return the replicas except those in `gone`."""
    return tuple(replica for replica in replicas if replica not in gone)
