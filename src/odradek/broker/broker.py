"""The broker as handlers use it: one object with references to its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.authorizer import Authorizer
from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.telemetry import ClientTelemetry
from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.broker.coordinator.share_coordinator import ShareCoordinator
from odradek.broker.coordinator.share_groups import ShareGroups
from odradek.broker.coordinator.share_persister import SharePersister
from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.broker.coordinator.verification import Verification
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.broker.share.manager import SharePartitionManager
from odradek.config.broker_config import BrokerConfig
from odradek.core.session.fetch import FetchSessionCache
from odradek.env.certificate_names import CertificateNames
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes
from odradek.log import LogManager


@dataclass(slots=True)
class Broker:
    """The parts of a broker. `odradek.node` creates it, and every handler gets it."""

    node_id: int
    cluster_id: str
    loop: asyncio.AbstractEventLoop
    executor: Executor
    clock: Clock
    random_bytes: RandomBytes
    config: BrokerConfig
    """The newest configuration. The object is replaced when a dynamic setting changes."""
    metadata: MetadataCache
    tokens: DelegationTokens
    access_tokens: AccessTokens
    controller: ControllerChannel
    topic_creation: TopicCreation
    logs: LogManager
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    cold_reads: ColdReads
    groups: GroupCoordinator
    producer_ids: ProducerIds
    markers: MarkerWriter
    transactions: TransactionCoordinator
    verification: Verification
    shares: ShareCoordinator
    share_persister: SharePersister
    share_groups: ShareGroups
    share_partitions: SharePartitionManager
    client_telemetry: ClientTelemetry
    supported_features: Mapping[str, tuple[int, int]]
    """The lowest and the highest level of each feature that this software supports."""
    kraft_version: Callable[[], int]
    """Returns the finalized level of kraft.version."""
    served_versions: list[tuple[int, int, int]] = field(default_factory=list)
    """The APIs of broker listeners (API key, lowest version, highest version), ordered by key."""
    directory_moves: DirectoryMoves | None = None
    authorizer: Authorizer | None = None
    """Checks what clients may do. None if `authorizer.class.name` is empty."""
    quotas: QuotaManagers | None = None
    """The quotas of clients. None while no client has a limit."""
    certificate_names: Callable[[str], CertificateNames | None] = lambda _: None
    """Returns the names in the certificate that a listener uses; None if they are not known."""

    def use_certificate_names(self, names: Callable[[str], CertificateNames | None]) -> None:
        """Set the function that returns the names in a listener's certificate."""
        self.certificate_names = names

    def use_directory_moves(self, moves: DirectoryMoves) -> None:
        """Set the object that moves replicas between log directories."""
        self.directory_moves = moves

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        self.config = config

    def use_quotas(self, quotas: QuotaManagers | None) -> None:
        """Set the quotas of clients. None means that no client has a limit."""
        self.quotas = quotas
