"""The coordinators of a broker, as the handlers of their APIs use them."""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.coordinator.group_coordinator import GroupCoordinator
from odradek.broker.coordinator.markers import MarkerWriter
from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.broker.coordinator.share_coordinator import ShareCoordinator
from odradek.broker.coordinator.share_groups import ShareGroups
from odradek.broker.coordinator.share_persister import SharePersister
from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.broker.coordinator.verification import Verification
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.config.broker_config import BrokerConfig
from odradek.model.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC


class Coordinators(NamedTuple):
    """The coordinators and their helpers."""

    groups: GroupCoordinator
    producer_ids: ProducerIds
    markers: MarkerWriter
    transactions: TransactionCoordinator
    verification: Verification
    shares: ShareCoordinator
    share_persister: SharePersister
    share_groups: ShareGroups

    def listen(self, replicas: ReplicaManager) -> None:
        """Register the coordinators as listeners of leader elections."""
        replicas.leadership_listeners[OFFSETS_TOPIC] = self.groups
        replicas.leadership_listeners[TRANSACTION_TOPIC] = self.transactions
        replicas.leadership_listeners[SHARE_STATE_TOPIC] = self.shares

    def startup(self) -> None:
        """Begin to accept requests."""
        self.groups.startup()
        self.transactions.startup()
        self.shares.startup()

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        self.groups.update_config(config)
        self.transactions.update_config(config)
        self.shares.update_config(config)

    def shutdown(self) -> None:
        """Fail the requests that wait. `close` must follow."""
        self.transactions.shutdown()
        self.groups.shutdown()
        self.share_groups.close()
        self.shares.shutdown()

    async def close(self) -> None:
        """Stop the tasks that send requests to other nodes."""
        await self.share_persister.close()
        await self.producer_ids.close()
