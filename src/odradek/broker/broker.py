"""The broker as handlers use it: references to its parts.

The fields of `Broker` are the parts that handlers of several kinds use, and those of the paths of
records, which are read for each request. The others are in groups of one kind of handlers each:
`coordinators` for the APIs of groups, transactions and share states, `storage` for those of log
directories, `versions` for ApiVersions. What authenticates clients is not here (see
`odradek.handlers.gate_context`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.access.authorizer import Authorizer
from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.telemetry import ClientTelemetry
from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator.coordinators import Coordinators
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.supported_versions import SupportedVersions
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.config.broker_config import BrokerConfig
from odradek.core.session.fetch import FetchSessionCache
from odradek.env.certificate_names import CertificateNames
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.log import LogManager

if TYPE_CHECKING:
    from odradek.broker.share.manager import SharePartitionManager


class BrokerStorage(NamedTuple):
    """The logs in their directories."""

    logs: LogManager
    moves: DirectoryMoves
    """Moves replicas between log directories."""


@dataclass(slots=True)
class Broker:
    """The parts of a broker. `odradek.node` creates it, and every handler gets it."""

    cluster_id: str
    loop: asyncio.AbstractEventLoop
    executor: Executor
    clock: Clock
    config: BrokerConfig
    """The newest configuration. The object is replaced when a dynamic setting changes."""
    metadata: MetadataCache
    tokens: DelegationTokens
    versions: SupportedVersions
    controller: ControllerChannel
    topic_creation: TopicCreation
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    cold_reads: ColdReads
    coordinators: Coordinators
    storage: BrokerStorage
    client_telemetry: ClientTelemetry
    authorizer: Authorizer | None
    """Checks what clients may do. None if `authorizer.class.name` is empty."""
    quotas: QuotaManagers | None = None
    """The quotas of clients. None while no client has a limit."""
    certificate_names: Callable[[str], CertificateNames | None] = lambda _: None
    """Returns the names in the certificate that a listener uses; None if they are not known."""

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions whose leader is this broker."""
        return self.coordinators.share_partitions

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self.config.node_id

    def use_certificate_names(self, names: Callable[[str], CertificateNames | None]) -> None:
        """Set the function that returns the names in a listener's certificate."""
        self.certificate_names = names

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        self.config = config

    def use_quotas(self, quotas: QuotaManagers | None) -> None:
        """Set the quotas of clients. None means that no client has a limit."""
        self.quotas = quotas
