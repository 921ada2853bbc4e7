"""The metadata image: the state of the cluster after the metadata log up to one offset.

An image is immutable. Its mappings are plain dictionaries, which are never changed after the image
was created. An image and the next image share all parts that have not changed. A change copies
only the dictionary that contains the changed item (36 µs for 10 000 topics).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.core.metadata.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    PartitionRegistration,
    Uuid,
    VersionRange,
)
from odradek.core.metadata.versions import METADATA_VERSION

__all__ = [
    "EMPTY_IMAGE",
    "AccessControlEntry",
    "BrokerRegistration",
    "ClientQuotaEntity",
    "ClusterImage",
    "ConfigResource",
    "ConfigsImage",
    "ControllerRegistration",
    "DelegationToken",
    "Endpoint",
    "FeaturesImage",
    "MetadataImage",
    "PartitionRegistration",
    "ScramCredential",
    "TopicImage",
    "TopicsImage",
    "Uuid",
    "VersionRange",
]


class ConfigResource(NamedTuple):
    """A resource with settings. `type` is an `odradek.model.config_resource.ResourceType`.

    The broker resource with an empty name has the settings for all brokers.
    """

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """The finalized features, including metadata.version.

    kraft.version is not included, because control records of the quorum contain it (KIP-853).
    """

    finalized: Mapping[str, int] = field(default_factory=dict)
    """Levels by feature name. A feature at level 0 has no entry."""

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 if the log contains no level."""
        return self.finalized.get(METADATA_VERSION, 0)

    def level(self, name: str) -> int:
        """Return the finalized level of a feature; 0 if the feature is disabled."""
        return self.finalized.get(name, 0)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The registered brokers and controllers, by node id."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)

    def is_alive(self, broker_id: int) -> bool:
        """Return whether the broker is registered and not fenced."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic. `partitions` has its partitions by index."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics. Both mappings contain the same topics."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict)

    def partition(self, topic: str, index: int) -> PartitionRegistration | None:
        """Return a partition of the topic with this name; None if it does not exist."""
        image = self.by_name.get(topic)
        return None if image is None else image.partitions.get(index)


_NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Dynamic settings, which are set by requests. Resources without settings have no entry."""

    by_resource: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the settings of a resource; empty if the resource has no settings."""
        return self.by_resource.get(ConfigResource(resource_type, name), _NO_SETTINGS)


ClientQuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and entity name, sorted by type. The name is None for the default entity."""


class ScramCredential(NamedTuple):
    """The stored credential of a user for one mechanism (1: SHA-256, 2: SHA-512)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class AccessControlEntry(NamedTuple):
    """One ACL. Its types and operation are the protocol's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    """One delegation token. Timestamps are milliseconds since 1970."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The metadata up to and including one record.

    `offset` and `epoch` are the offset and the leader epoch of this record.
    """

    offset: int = -1
    epoch: int = -1
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigsImage = field(default_factory=ConfigsImage)
    client_quotas: Mapping[ClientQuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: int = -1
    """The next unused producer id; -1 if no producer id was ever allocated."""
    acls: Mapping[Uuid, AccessControlEntry] = field(default_factory=dict)
    scram: Mapping[tuple[int, str], ScramCredential] = field(default_factory=dict)
    """Credentials by mechanism and user name."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    """Delegation tokens by token id."""


EMPTY_IMAGE = MetadataImage()
