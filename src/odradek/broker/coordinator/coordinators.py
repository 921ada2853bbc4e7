"""The coordinators of a broker, as the handlers of their APIs use them.

Each is imported and created at its first use: a request of its APIs, or an election that makes this
broker the leader of a partition of its topic. A node without groups, transactions and share groups
has none of them. The imports inside of functions are here only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from odradek.broker.access.authorizer import Authorizer
from odradek.broker.controller.channel import ControllerChannel
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.channels import BrokerChannels
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes
from odradek.model.errors import ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC

if TYPE_CHECKING:
    from odradek.broker.coordinator.coordinator import Coordinator
    from odradek.broker.coordinator.group_coordinator import GroupCoordinator
    from odradek.broker.coordinator.markers import MarkerWriter
    from odradek.broker.coordinator.producer_ids import ProducerIds
    from odradek.broker.coordinator.share_coordinator import ShareCoordinator
    from odradek.broker.coordinator.share_groups import ShareGroups
    from odradek.broker.coordinator.share_persister import SharePersister
    from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
    from odradek.broker.coordinator.verification import Verification
    from odradek.broker.share.manager import SharePartitionManager

CoordinatorT = TypeVar("CoordinatorT", bound="Coordinator[Any]")


class CoordinatorChannels(NamedTuple):
    """The connections to other brokers. Those of each kind do not wait for the other kind."""

    markers: BrokerChannels
    membership: BrokerChannels
    share_state: BrokerChannels
    latest_offsets: BrokerChannels
    dead_letters: BrokerChannels

    def close(self) -> None:
        """Close the connections; requests that wait fail."""
        for each in self:
            each.close()


class CoordinatorParts(NamedTuple):
    """What the coordinators use."""

    dynamic: DynamicConfig
    clock: Clock
    random_bytes: RandomBytes
    loop: asyncio.AbstractEventLoop
    executor: Executor
    replicas: ReplicaManager
    metadata: MetadataCache
    cold_reads: ColdReads
    controller: ControllerChannel
    topic_creation: TopicCreation
    channels: CoordinatorChannels
    authorizer: Authorizer | None
    broker_epoch: Callable[[], int]
    """Returns the epoch of this broker's registration."""
    on_loaded: Callable[[int], None]
    """Is called with the number of records of each partition that a coordinator has loaded."""


class Coordinators:
    """The coordinators and their helpers. Use it only on the event loop's thread."""

    def __init__(self, parts: CoordinatorParts) -> None:
        self._parts = parts
        self._image = EMPTY_IMAGE
        self._is_running = False
        self._begun: list[Coordinator[Any]] = []

    # -- groups ---------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        from odradek.broker.coordinator.group_coordinator import GroupCoordinator
        from odradek.broker.coordinator.replicas import ReplicaTopic

        parts = self._parts
        groups = GroupCoordinator(
            parts.dynamic.newest,
            parts.clock,
            parts.random_bytes,
            ReplicaTopic(parts.replicas, OFFSETS_TOPIC),
            parts.loop,
            parts.executor,
            parts.on_loaded,
        )
        groups.use_authorizer(parts.authorizer)
        groups.delete_states_with(self._delete_states)
        return self._begin(groups)

    async def _delete_states(self, group_ids: Sequence[str]) -> Mapping[str, ErrorCode]:
        return await self.share_groups.delete_states(group_ids)

    # -- transactions ---------------------------------------------------------------------------

    @cached_property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that this broker gives to producers."""
        from odradek.broker.coordinator.producer_ids import ProducerIds

        parts = self._parts
        node_id = parts.dynamic.newest.node_id
        return ProducerIds(node_id, parts.broker_epoch, parts.controller, parts.clock, parts.loop)

    @cached_property
    def markers(self) -> MarkerWriter:
        """What writes the markers of transactions to the partitions of this broker."""
        from odradek.broker.coordinator.markers import MarkerWriter

        parts = self._parts
        timeout_ms = parts.dynamic.newest.request_timeout_ms
        return MarkerWriter(parts.replicas, self.groups, parts.clock, parts.loop, timeout_ms)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        from odradek.broker.coordinator.marker_sender import MarkerSender
        from odradek.broker.coordinator.replicas import ReplicaTopic
        from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator

        parts = self._parts
        config = parts.dynamic.newest
        transactions = TransactionCoordinator(
            config,
            parts.clock,
            ReplicaTopic(parts.replicas, TRANSACTION_TOPIC),
            self.producer_ids,
            MarkerSender(config.node_id, self.markers, parts.channels.markers, parts.loop),
            parts.loop,
            parts.executor,
            parts.on_loaded,
        )
        return self._begin(transactions)

    @cached_property
    def verification(self) -> Verification:
        """What asks the coordinators of transactions whether a partition belongs to one."""
        from odradek.broker.coordinator.membership import RemoteMembership
        from odradek.broker.coordinator.verification import Verification

        parts = self._parts
        dynamic = parts.dynamic
        remote = RemoteMembership(dynamic.newest.node_id, parts.channels.membership, parts.loop)
        return Verification(self.transactions, remote, lambda: dynamic.newest, parts.clock)

    # -- share groups ---------------------------------------------------------------------------

    @cached_property
    def shares(self) -> ShareCoordinator:
        """The coordinator that stores the states of share partitions."""
        from odradek.broker.coordinator.replicas import ReplicaTopic
        from odradek.broker.coordinator.share_coordinator import ShareCoordinator

        parts = self._parts
        shares = ShareCoordinator(
            parts.dynamic.newest,
            parts.clock,
            ReplicaTopic(parts.replicas, SHARE_STATE_TOPIC),
            parts.loop,
            parts.executor,
            parts.on_loaded,
        )
        return self._begin(shares)

    @cached_property
    def share_persister(self) -> SharePersister:
        """What sends the states of share partitions to their coordinators."""
        from odradek.broker.coordinator.share_persister import SharePersister

        parts = self._parts
        return SharePersister(
            parts.dynamic.newest.node_id,
            self.shares,
            parts.channels.share_state,
            parts.topic_creation,
            parts.random_bytes,
            parts.loop,
        )

    @cached_property
    def share_groups(self) -> ShareGroups:
        """The share groups that this broker coordinates."""
        from odradek.broker.coordinator.latest_offsets import LatestOffsets
        from odradek.broker.coordinator.share_groups import ShareGroups

        parts = self._parts
        channels = parts.channels
        latest = LatestOffsets(
            parts.dynamic.newest.node_id, parts.replicas, channels.latest_offsets
        )
        return ShareGroups(
            self.groups.shard_of,
            self.share_persister,
            latest.find,
            lambda: channels.share_state.image,
            parts.loop,
        )

    @cached_property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions whose leader is this broker."""
        from odradek.broker.share.dead_letters import DeadLetterWriter
        from odradek.broker.share.manager import SharePartitionManager
        from odradek.broker.share.originals import Originals

        parts = self._parts
        dynamic = parts.dynamic
        dead_letters = DeadLetterWriter(
            dynamic.newest.node_id,
            parts.replicas,
            parts.channels.dead_letters,
            parts.topic_creation,
            Originals(parts.cold_reads, parts.executor, parts.loop),
            lambda: dynamic.newest,
            parts.clock,
            parts.loop,
        )
        return SharePartitionManager(
            parts.replicas,
            self.share_persister,
            dead_letters,
            parts.metadata,
            lambda: dynamic.newest,
            parts.cold_reads,
            parts.clock,
            parts.loop,
        )

    # -- events ---------------------------------------------------------------------------------

    def _begin(self, coordinator: CoordinatorT) -> CoordinatorT:
        """Pass what has happened before the coordinator was created."""
        coordinator.on_metadata(MetadataDelta(self._image), self._image)
        if self._is_running:
            coordinator.startup()
        self._begun.append(coordinator)
        return coordinator

    def create_all(self) -> None:
        """Create all of them, for readers on other threads."""
        for name in _NAMES:
            getattr(self, name)

    def listen(self, replicas: ReplicaManager) -> None:
        """Register the coordinators as listeners of leader elections."""
        replicas.leadership_listeners[OFFSETS_TOPIC] = _Elections(self, "groups")
        replicas.leadership_listeners[TRANSACTION_TOPIC] = _Elections(self, "transactions")
        replicas.leadership_listeners[SHARE_STATE_TOPIC] = _Elections(self, "shares")

    def startup(self) -> None:
        """Begin to accept requests."""
        self._is_running = True
        for each in self._begun:
            each.startup()

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a metadata change. Called before the elections that result from the same change."""
        self._image = image
        for each in self._begun:
            each.on_metadata(delta, image)

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        for each in self._begun:
            each.update_config(config)

    def shutdown(self) -> None:
        """Fail the requests that wait. `close` must follow."""
        self._is_running = False
        created = vars(self)
        for name in ("transactions", "groups"):
            if name in created:
                created[name].shutdown()
        if "share_groups" in created:
            self.share_groups.close()
        if "shares" in created:
            self.shares.shutdown()

    async def close(self) -> None:
        """Stop the tasks that send requests to other nodes. Their connections must be closed."""
        created = vars(self)
        for name in ("share_partitions", "share_persister", "producer_ids"):
            if name in created:
                await created[name].close()


_NAMES = tuple(name for name, each in vars(Coordinators).items() if type(each) is cached_property)


class _Elections:
    """A `LeadershipListener` that creates a coordinator at the first election."""

    def __init__(self, coordinators: Coordinators, name: str) -> None:
        self._coordinators = coordinators
        self._name = name

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """See `LeadershipListener`."""
        getattr(self._coordinators, self._name).on_election(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        """See `LeadershipListener`. A coordinator that does not exist has loaded no partition."""
        created = vars(self._coordinators)
        if self._name in created:
            created[self._name].on_resignation(partition, leader_epoch)
