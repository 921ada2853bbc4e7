"""Creates the broker of a node, registers it, serves its listeners, and shuts it down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.authorizer import Authorizer
from odradek.broker.broker import Broker, BrokerStorage
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.clients.telemetry import ClientTelemetry
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator.coordinators import CoordinatorParts, Coordinators
from odradek.broker.partitions.cold_reads import ColdReads
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.replication.directory_moves import DirectoryMoves
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.registrations import Endpoint
from odradek.core.metadata.versions import SUPPORTED_FEATURES
from odradek.core.session.fetch import FetchSessionCache
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.entry import Inject
from odradek.handlers.gate_context import GateContext
from odradek.log import LogDirectory, PartitionLog
from odradek.model.errors import ApiError
from odradek.network.listeners import Endpoint as BoundEndpoint
from odradek.node.channels import Channels
from odradek.node.coordinators import channels_to_brokers
from odradek.node.listeners import Service
from odradek.node.metadata import NodeMetadata
from odradek.node.replication import BrokerReplication
from odradek.node.serving import broker_table, served_versions
from odradek.node.settings import CoordinatorPublisher, SettingsPublisher, TopicConfigs
from odradek.node.storage import NodeStorage

log = logging.getLogger("odradek.node")


class BrokerRole:
    """The broker and its listeners. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        clock: Clock,
        random_bytes: RandomBytes,
        executor: Executor,
        storage: NodeStorage,
        metadata: NodeMetadata,
        topic_configs: TopicConfigs,
        replicas: ReplicaManager,
        network: Network,
        channels: Channels,
        endpoints: Sequence[BoundEndpoint],
        access_tokens: AccessTokens,
        authorizer: Authorizer | None,
        on_loaded: Callable[[int], None],
        inject: Inject | None,
    ) -> None:
        """Create the broker. Logs and metadata must be loaded, and `replicas` must be empty."""
        loop = asyncio.get_running_loop()
        self._metadata, self._storage, self._channels = metadata, storage, channels
        dynamic = DynamicConfig(config)
        lifecycle = self._lifecycle = self._new_lifecycle(config, cluster_id, random_bytes)
        self.replication = BrokerReplication(
            config, clock, network, random_bytes, replicas, channels, lambda: lifecycle.epoch
        )
        self._brokers = channels_to_brokers(config, network, random_bytes)
        topic_creation = TopicCreation(channels.requests, lambda: dynamic.newest)
        cold_reads = ColdReads(storage.logs.storage, loop)
        parts = CoordinatorParts(
            dynamic,
            clock,
            random_bytes,
            loop,
            executor,
            replicas,
            metadata.cache,
            cold_reads,
            channels.requests,
            topic_creation,
            self._brokers,
            authorizer,
            lambda: lifecycle.epoch,
            on_loaded,
        )
        self._moves = DirectoryMoves(config, replicas, executor, loop, clock.monotonic_ms)
        self.broker = broker = Broker(
            cluster_id=cluster_id,
            loop=loop,
            executor=executor,
            clock=clock,
            config=config,
            metadata=metadata.cache,
            tokens=metadata.tokens,
            versions=metadata.supported_versions(served_versions(config)),
            controller=channels.requests,
            topic_creation=topic_creation,
            replicas=replicas,
            fetch_sessions=_fetch_sessions(config, random_bytes),
            cold_reads=cold_reads,
            coordinators=Coordinators(parts),
            storage=BrokerStorage(storage.logs, self._moves),
            client_telemetry=ClientTelemetry(config.telemetry_max_bytes, random_bytes),
            authorizer=authorizer,
        )
        self.service = self._new_service(broker, endpoints, random_bytes, access_tokens, inject)
        self._install_publishers(SettingsPublisher(broker, dynamic, topic_configs))

    def use_quotas(self, quotas: QuotaManagers) -> None:
        """Measure clients while there are limits."""
        charge = self.service.dispatcher.use_charge
        quotas.listen(self.broker.use_quotas)
        quotas.listen(lambda active: charge(None if active is None else active.charge))
        quotas.limit_connections(self.service.rates)

    def _new_lifecycle(
        self, config: BrokerConfig, cluster_id: str, random_bytes: RandomBytes
    ) -> BrokerLifecycle:
        return BrokerLifecycle(
            self._channels.lifecycle,
            node_id=config.node_id,
            cluster_id=cluster_id,
            random_bytes=random_bytes,
            supported_features=SUPPORTED_FEATURES,
            offline_directories=self._storage.offline_directory_ids,
        )

    @staticmethod
    def _new_service(
        broker: Broker,
        endpoints: Sequence[BoundEndpoint],
        random_bytes: RandomBytes,
        access_tokens: AccessTokens,
        inject: Inject | None,
    ) -> Service:
        gate_context = GateContext(
            broker.config,
            broker.clock,
            broker.loop,
            broker.executor,
            random_bytes,
            broker.metadata,
            broker.tokens,
            access_tokens,
        )
        dispatcher = Dispatcher(broker_table(broker), broker.clock, inject, broker.executor)
        service = Service(broker.config, dispatcher, endpoints, gate_context)
        broker.use_certificate_names(service.certificate_names)
        return service

    def _install_publishers(self, settings: SettingsPublisher) -> None:
        """Install the publishers. The coordinators get each metadata change before the replicas."""
        self._settings = settings
        settings.listen(self.service.update_config)
        settings.listen(self.replication.throttles.update_config)
        settings.listen(self._moves.update_config)
        broker, coordinators = self.broker, self.broker.coordinators
        coordinators.listen(broker.replicas)
        broker.replicas.continue_moves(self._moves.resume)
        self._storage.listen(self._on_directory_failure)
        loader = self._metadata.loader
        loader.install(settings)
        loader.install(self.replication.throttles)
        for each in self._brokers:
            loader.install(each)
        loader.install(CoordinatorPublisher(coordinators))
        loader.install(broker.replicas)
        coordinators.startup()

    def _on_directory_failure(
        self, directory: LogDirectory, logs: Iterable[PartitionLog], is_fatal: bool
    ) -> None:
        self.broker.replicas.go_offline(logs)
        if is_fatal or directory.id is None:
            return
        self._lifecycle.report_failed_directory(
            directory.id,
            self.broker.config.log_dir_failure_timeout_ms,
            lambda: self._storage.stop_node(
                f"{directory.path} has failed, and no controller knows"
            ),
        )

    def listen(self, on_config: Callable[[BrokerConfig], None]) -> None:
        """Call `on_config` whenever dynamic settings of the broker have changed."""
        self._settings.listen(on_config)

    async def register(self, advertised: Sequence[Endpoint], rack: str | None) -> None:
        """Register the broker and unfence it, so that clients use it. Begin to send heartbeats.

        Raises:
            ApiError: the controller in this process rejected the registration.
            JoinError: the broker cannot join the cluster of another controller.
        """
        config, lifecycle = self.broker.config, self._lifecycle
        directories = self._storage.directory_ids()
        previous_epoch = self._storage.logs.broker_epoch
        if self._channels.is_remote:
            await lifecycle.join(
                advertised,
                directories,
                rack,
                previous_epoch,
                self._metadata_offset,
                config.initial_broker_registration_timeout_ms,
            )
        else:
            await lifecycle.register(advertised, directories, rack, previous_epoch)
            await lifecycle.unfence(self._metadata_offset())
        lifecycle.start_heartbeats(config.broker_heartbeat_interval_ms, self._metadata_offset)

    def _metadata_offset(self) -> int:
        return self._metadata.loader.image.offset

    @property
    def epoch(self) -> int:
        """The broker epoch; -1 until the broker is registered."""
        return self._lifecycle.epoch

    async def set_fenced(self, is_fenced: bool) -> None:
        """Let the controller fence the broker, or unfence it again.

        Raises:
            ApiError: the controller rejects the request.
        """
        change = self._lifecycle.fence if is_fenced else self._lifecycle.unfence
        await change(self._metadata_offset())

    async def leave(self) -> None:
        """Move the leaders of this broker's partitions to other brokers, if there are any.

        Call this method before `drain`, while the broker serves its clients.
        """
        config = self.broker.config
        is_only_broker = len(self.broker.metadata.image.cluster.brokers) == 1
        if is_only_broker or not config.controlled_shutdown_enable:
            return
        try:
            async with asyncio.timeout(config.broker_session_timeout_ms / 1000):
                await self._lifecycle.leave(self._metadata_offset)
        except ApiError as error:
            log.error("the broker stops before its leaders have moved: %s", error.message)
        except TimeoutError:
            log.error("the broker stops before its leaders have moved: they have not moved in time")

    async def drain(self) -> None:
        """Respond to waiting requests, stop accepting connections, and stop the coordinators."""
        self.broker.replicas.expire_all()
        await self.service.drain()
        await self.stop_coordinators()

    async def stop_coordinators(self) -> None:
        """Fail the requests that wait for a coordinator, and stop the coordinators' tasks."""
        broker = self.broker
        await self._moves.close()
        self.replication.close()
        broker.coordinators.shutdown()
        self._brokers.close()
        await broker.coordinators.close()
        self._channels.close()
        await broker.topic_creation.close()

    def stop_heartbeats(self) -> None:
        """Send no more heartbeats to the controller."""
        self._lifecycle.stop_heartbeats()

    async def shut_down(self) -> None:
        """Notify the controller in this process that this broker stops."""
        try:
            await self._lifecycle.shut_down(self._metadata.loader.image.offset)
        except ApiError as error:
            log.error("the controller is not told that this broker stops: %s", error.message)


def _fetch_sessions(config: BrokerConfig, random_bytes: RandomBytes) -> FetchSessionCache:
    slots = config.max_incremental_fetch_session_cache_slots
    return FetchSessionCache(slots, partial(_draw_session_id, random_bytes))


def _draw_session_id(random_bytes: RandomBytes) -> int:
    return int.from_bytes(random_bytes(4), "big") >> 1
