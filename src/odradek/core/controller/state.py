"""The input and the result of the controller's decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from odradek.config.broker_config import BrokerConfig
from odradek.config.topic_config import topic_value
from odradek.core.controller.acl_ids import AclIds
from odradek.core.controller.heartbeats import BrokerHeartbeats, Heard
from odradek.core.controller.partition_index import PartitionIndex
from odradek.core.controller.token_ids import TokenIds
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import BrokerRegistration
from odradek.core.metadata.versions import ELIGIBLE_LEADER_REPLICAS_VERSION
from odradek.model import uuids
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.primitives import Message

ResponseT = TypeVar("ResponseT", covariant=True)
RandomBytes = Callable[[int], bytes]

CountPartitions = Callable[[int], None]
"""Counts partitions that a request creates or deletes.

Raises `ApiError` (THROTTLING_QUOTA_EXCEEDED) if the client has created or deleted too many.
"""


def unlimited(partitions: int) -> None:
    """Allow any number of partitions, for requests that have no quota."""


RECORDS_MAX = 100_000
"""Maximum number of records of one decision (Apache Kafka: 10 000).

A request that needs more records gets the error POLICY_VIOLATION.
"""


RECORDS_PER_BATCH_MAX = 10_000
"""Maximum number of records in one batch of a decision that is not atomic, as in Apache Kafka."""


class Decision(NamedTuple, Generic[ResponseT]):
    """Records to append, and the response to send when they are committed."""

    records: list[Message]
    response: ResponseT
    is_atomic: bool = True
    """Whether the records must be one batch, so that all or none of them are committed.

    The records of other decisions may be appended as several batches. After a crash any beginning
    of them may be in the log. So each beginning must be a valid change of the metadata.
    """
    heard: Heard | None = None
    """What a heartbeat changes besides the metadata, after the records were appended."""
    raises_kraft_version: bool = False
    """Whether the quorum raises kraft.version to 1 before the records are appended."""


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The input of a decision. `image` contains all earlier decisions, committed or not."""

    image: MetadataImage
    config: BrokerConfig
    """The configuration of this node, with the dynamic settings of the image."""
    cluster_id: str
    next_offset: int
    """The offset of the first record of the decision."""
    random_bytes: RandomBytes
    supported_features: Mapping[str, tuple[int, int]]
    """The lowest and the highest level of each feature that this software supports."""
    kraft_version: int
    kraft_upgrade_problem: str | None
    """Why kraft.version cannot be raised to 1; only set for UpdateFeatures."""
    index: PartitionIndex
    """The partitions of `image` by broker. A decision reads it, but does not change it."""
    acl_ids: AclIds
    """The ids of the ACLs of `image`. A decision reads it, but does not change it."""
    heartbeats: BrokerHeartbeats
    """A decision reads the heartbeats, but does not change them."""
    token_ids: TokenIds
    """The ids of the delegation tokens of `image`. A decision reads it, but does not change it."""
    now_ms: int
    """Monotonic time."""
    wall_ms: int
    """Milliseconds since 1970, for timestamps in records."""
    requester: str = ""
    """The principal of the client that sends the request; empty without a client."""
    count_partitions: CountPartitions = unlimited
    """Called with the number of partitions before a topic's partitions are created or deleted."""
    _topic_values: dict[tuple[str, str], object] = field(default_factory=dict)
    """The values of settings by topic and name, which a decision about many partitions looks up for
    each of them."""

    @property
    def level(self) -> int:
        """The finalized level of metadata.version."""
        return self.image.features.metadata_version

    @property
    def elr_enabled(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.image.features.level(ELIGIBLE_LEADER_REPLICAS_VERSION) > 0

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker may lead.

        It may lead if it is registered, unfenced, and not in controlled shutdown.
        """
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def default_directory(self, broker_id: int) -> bytes:
        """Return the directory id for a new replica.

        Return a reserved id if the broker is unknown, or if it has reported no directory ids. Also
        return a reserved id if the broker has several directories, because the broker will choose
        one of them.
        """
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            return uuids.DIRECTORY_UNASSIGNED
        if not broker.directories:
            return uuids.DIRECTORY_MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else uuids.DIRECTORY_UNASSIGNED

    def check_broker_epoch(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return the broker if it has this epoch.

        Raises:
            ApiError: STALE_BROKER_EPOCH: the broker has another epoch or is not registered.
        """
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "is not registered" if broker is None else f"is in epoch {broker.epoch}"
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} {known}, not in epoch {epoch}"
            )
        return broker

    def topic_settings(self, name: str) -> Mapping[str, str]:
        """Return the settings that override the defaults for a topic."""
        return self.image.configs.of(ResourceType.TOPIC, name)

    def _topic_value(self, topic: str, name: str) -> object:
        key = topic, name
        if key not in self._topic_values:
            settings = self.topic_settings(topic)
            self._topic_values[key] = topic_value(name, settings, self.config.layers)
        return self._topic_values[key]

    def min_insync_replicas(self, topic: str, replica_count: int) -> int:
        """Return min.insync.replicas of a topic, or `replica_count` if that is smaller."""
        value = self._topic_value(topic, "min.insync.replicas")
        assert isinstance(value, int)
        return min(value, replica_count)

    def unclean_election_enabled(self, topic: str) -> bool:
        """Return whether a replica outside of the ISR may become a leader of the topic."""
        return self._topic_value(topic, "unclean.leader.election.enable") is True


def has_online_directory(broker: BrokerRegistration | None, directory: bytes) -> bool:
    """Return whether the broker can serve a replica in this directory."""
    if broker is None or directory == uuids.DIRECTORY_LOST:
        return False
    if directory in (uuids.DIRECTORY_UNASSIGNED, uuids.DIRECTORY_MIGRATING):
        return True
    return not broker.directories or directory in broker.directories


def check_record_count(count: int) -> None:
    """Check that a decision is not too large.

    Raises:
        ApiError: POLICY_VIOLATION.
    """
    if count > RECORDS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request needs at least {count} metadata records; the maximum is {RECORDS_MAX}",
        )
