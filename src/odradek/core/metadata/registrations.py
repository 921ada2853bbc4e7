"""The registrations of brokers, controllers and partitions in a metadata image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.core.metadata.errors import ReplayError
from odradek.model.uuids import DIRECTORY_MIGRATING

if TYPE_CHECKING:
    from odradek.wire.generated.broker_registration_change_record import (
        BrokerRegistrationChangeRecord,
    )
    from odradek.wire.generated.partition_change_record import PartitionChangeRecord
    from odradek.wire.generated.partition_record import PartitionRecord
    from odradek.wire.generated.register_broker_record import RegisterBrokerRecord
    from odradek.wire.generated.register_controller_record import RegisterControllerRecord

NO_LEADER = -1
NO_LEADER_CHANGE = -2
"""In a PartitionChangeRecord: the leader and the leader epoch do not change."""
RECOVERED = 0
RECOVERING = 1
"""The leader was elected in an unclean election and has not recovered yet (KIP-704)."""
NO_RECOVERY_CHANGE = -1

Uuid = bytes


class PartitionRegistration(NamedTuple):
    """One partition: its replicas, ISR and leader.

    Invariants:

    - `directories` has one entry per replica, in the order of `replicas`.
    - `isr` and `elr` are disjoint subsets of `replicas`.
    - `leader` is in `isr`, or -1.
    - `leader_epoch` increases with each record that sets the leader.
    - `partition_epoch` increases with each change of the partition.
    """

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    """The id of each replica's log directory; a reserved id if the directory is unknown."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    """Eligible leader replicas (KIP-966): they left the ISR but have all committed records."""
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        """Return the registration that a PartitionRecord contains.

        Raises:
            ReplayError: the number of directories differs from the number of replicas.
        """
        replicas = tuple(record.replicas)
        return cls(
            replicas,
            _directories(record.directories, len(replicas)),
            tuple(record.isr),
            tuple(record.removing_replicas),
            tuple(record.adding_replicas),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
            record.leader,
            record.leader_recovery_state,
            record.leader_epoch,
            record.partition_epoch,
        )

    def changed_by(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Return the registration after a PartitionChangeRecord.

        Raises:
            ReplayError: the number of directories differs from the number of replicas.
        """
        replicas = _changed(self.replicas, record.replicas)
        directories = self.directories if record.directories is None else record.directories
        leader_stays = record.leader == NO_LEADER_CHANGE
        recovery_stays = record.leader_recovery_state == NO_RECOVERY_CHANGE
        return PartitionRegistration(
            replicas,
            _directories(directories, len(replicas)),
            _changed(self.isr, record.isr),
            _changed(self.removing_replicas, record.removing_replicas),
            _changed(self.adding_replicas, record.adding_replicas),
            _changed(self.elr, record.eligible_leader_replicas),
            _changed(self.last_known_elr, record.last_known_elr),
            self.leader if leader_stays else record.leader,
            self.leader_recovery_state if recovery_stays else record.leader_recovery_state,
            self.leader_epoch if leader_stays else self.leader_epoch + 1,
            self.partition_epoch + 1,
        )

    def without_elr(self) -> PartitionRegistration:
        """Return the registration after a ClearElrRecord."""
        if not self.elr and not self.last_known_elr:
            return self
        return self._replace(elr=(), last_known_elr=(), partition_epoch=self.partition_epoch + 1)

    def directory(self, replica: int) -> Uuid:
        """Return the log directory of a replica. The partition must have this replica."""
        return self.directories[self.replicas.index(replica)]

    @property
    def preferred_leader(self) -> int:
        """The first replica; -1 if there are no replicas."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.removing_replicas or self.adding_replicas)


def _changed(before: tuple[int, ...], after: list[int] | None) -> tuple[int, ...]:
    return before if after is None else tuple(after)


def _directories(given: Sequence[Uuid], replica_count: int) -> tuple[Uuid, ...]:
    """Return one directory per replica.

    Records from before KIP-858 contain no directories. Then the result is DIRECTORY_MIGRATING for
    each replica. A wrong number of directories is accepted if all are DIRECTORY_MIGRATING.
    """
    if not given:
        return (DIRECTORY_MIGRATING,) * replica_count
    if len(given) != replica_count:
        if any(directory != DIRECTORY_MIGRATING for directory in given):
            raise ReplayError(f"{len(given)} directories for {replica_count} replicas")
        return (DIRECTORY_MIGRATING,) * replica_count
    return tuple(given)


class Endpoint(NamedTuple):
    """The address of a node's listener. `security_protocol` is the number of the protocol."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The lowest and the highest level of a feature that a node supports."""

    min: int
    max: int


class BrokerRegistration(NamedTuple):
    """One registered broker, fenced or not."""

    id: int
    epoch: int
    """The broker epoch: the offset of the first record of the decision that registered the broker.
    """
    incarnation_id: Uuid
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    directories: tuple[Uuid, ...]
    """The ids of the online log directories, sorted; empty in records from before KIP-858."""
    cordoned_directories: tuple[Uuid, ...] | None
    """The directories that get no new replicas; None if the broker has not reported any list."""

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        """Return the registration that a RegisterBrokerRecord contains."""
        cordoned = record.cordoned_log_dirs
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            {each.name: _endpoint(each) for each in record.end_points},
            {each.name: _version_range(each) for each in record.features},
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            record.is_migrating_zk_broker,
            tuple(sorted(record.log_dirs)),
            None if cordoned is None else tuple(cordoned),
        )

    def changed_by(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """Return the registration after a BrokerRegistrationChangeRecord.

        Raises:
            ReplayError: the record contains an unknown kind of change.
        """
        if record.fenced not in {-1, 0, 1} or record.in_controlled_shutdown not in {0, 1}:
            raise ReplayError(f"unknown change of broker {self.id}: {record!r}")
        cordoned = record.cordoned_log_dirs
        return self._replace(
            fenced=self.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=self.in_controlled_shutdown
            or record.in_controlled_shutdown == 1,
            directories=tuple(sorted(record.log_dirs)) or self.directories,
            cordoned_directories=self.cordoned_directories if cordoned is None else tuple(cordoned),
        )

    @property
    def has_uncordoned_directory(self) -> bool:
        """Whether new replicas may be placed on the broker: not all directories are cordoned."""
        cordoned = self.cordoned_directories
        return not self.directories or not cordoned or not set(self.directories) <= set(cordoned)


class ControllerRegistration(NamedTuple):
    """One controller (KIP-919)."""

    id: int
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        """Return the registration that a RegisterControllerRecord contains."""
        return cls(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            {each.name: _endpoint(each) for each in record.end_points},
            {each.name: _version_range(each) for each in record.features},
        )


def _endpoint(data: object) -> Endpoint:
    return Endpoint(data.name, data.host, data.port, data.security_protocol)  # type: ignore[attr-defined]


def _version_range(data: object) -> VersionRange:
    return VersionRange(data.min_supported_version, data.max_supported_version)  # type: ignore[attr-defined]
