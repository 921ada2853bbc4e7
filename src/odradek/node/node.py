"""A node: creates the parts of the process, and starts and stops them in order.

The steps of a start:

1. Lock the log directories, and bind the addresses of the listeners. If this step fails, nothing
   has been changed.
2. Format the log directories that are empty.
3. Open the metadata log, serve the controller's listeners, join the quorum, and load all committed
   metadata. A node that is the only voter becomes the leader. A node without the role controller is
   an observer of the quorum.
4. Load the partition logs. After a crash, recover them.
5. Register the broker with its addresses, unfence it, send heartbeats, and accept connections.

Therefore clients reach the broker listeners only when all parts are ready. A node that is only a
controller has no partition logs and no broker, and omits steps 4 and 5.

The steps of a stop:

1. Close the metrics server, and stop the periodic work on the logs.
2. If the cluster has other brokers and `controlled.shutdown.enable` is set, request a controlled
   shutdown: the controller moves the leadership of this broker's partitions to other brokers.
3. Stop accepting connections of clients, wait until the responses to open requests are sent, and
   stop the coordinators.
4. Stop accepting connections on the controller's listeners, and wait until the responses to their
   open requests are sent.
5. If this node is the only voter, request that the controller fences this broker.
6. Commit the appended records of the metadata log, resign, and close the metadata log.
7. Stop the threads of the executor.
8. Close the partition logs, mark the log directories as cleanly shut down, and unlock them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.authorizer import Authorizer
from odradek.broker.access.kerberos_keys import check_keys
from odradek.broker.broker import Broker
from odradek.broker.clients.quotas import QuotaManagers
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.partitions.replica_manager import ReplicaManager
from odradek.broker.peers.network import peer_networks
from odradek.broker.peers.tokens import PeerTokens
from odradek.config.broker_config import BrokerConfig
from odradek.env.clock import Clock, SystemClock
from odradek.env.event_loop import NodeSelector
from odradek.env.executor import Executor, ThreadExecutor
from odradek.env.file_system import FileSystem, OsFileSystem
from odradek.env.network import Network, SocketNetwork
from odradek.env.randomness import RandomBytes, system_random_bytes
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.entry import Inject
from odradek.network.server import Server
from odradek.node.broker_role import BrokerRole
from odradek.node.channels import Channels, local_channels, member_channels, remote_channels
from odradek.node.controller_role import ControllerRole
from odradek.node.format import Identity, local_voter
from odradek.node.listeners import BoundListeners
from odradek.node.metadata import NodeMetadata
from odradek.node.metrics.sources import BrokerSources, ControllerSources, MetricSources
from odradek.node.metrics_server import MetricsServer, writer
from odradek.node.settings import ControllerSettings, TopicConfigs
from odradek.node.storage import NodeStorage
from odradek.telemetry.registry import Registry, Section

log = logging.getLogger("odradek.node")


class Node:
    """A broker, a controller, or both in one process (`process.roles`).

    Call `start` and `stop` on the event loop's thread.
    """

    broker: Broker
    """A node that is only a controller does not have this attribute."""
    controller: QuorumController
    """A node that is only a broker does not have this attribute."""
    server: Server
    """The server of the broker's listeners. On a node that is only a controller, the server of the
    controller's listeners."""
    dispatcher: Dispatcher
    identity: Identity

    def __init__(
        self,
        config: BrokerConfig,
        selector: NodeSelector | None = None,
        *,
        clock: Clock | None = None,
        random_bytes: RandomBytes = system_random_bytes,
        file_system: FileSystem | None = None,
        network: Network | None = None,
        executor: Executor | None = None,
        cluster_id: str | None = None,
        on_loaded: Callable[[int], None] = lambda records: None,
        inject: Inject | None = None,
    ) -> None:
        """Create a node. By default the node uses the operating system's clock, disk and network.

        `selector` is the selector of the event loop. It measures the duration of the loop's
        iterations. Without a selector, the node has no metrics of the event loop. If `cluster_id`
        is given, formatted directories must have this cluster id, and empty directories are
        formatted with it. Otherwise empty directories get the cluster id of the formatted
        directories, or a random id if there are none. `on_loaded` is called with the number of
        records when a coordinator has loaded a partition. `inject` injects faults into requests for
        tests (see `Inject` in `odradek.handlers.entry`).
        """
        self.config = config
        self.selector = selector
        self._clock = clock or SystemClock()
        self._random_bytes = random_bytes
        self._file_system = file_system or OsFileSystem()
        self._network = network or SocketNetwork()
        self._executor = executor
        self._cluster_id = cluster_id
        self._on_loaded = on_loaded
        self._inject = inject
        self._to_brokers = self._to_controllers = self._network
        """The networks for connections to other nodes, which may use TLS and SASL."""
        self.failed: asyncio.Event = asyncio.Event()
        """Set when the node must stop because its metadata log or all log directories failed."""
        self._authorizer = Authorizer(config) if config.authorizer_class_name else None
        self._quotas = QuotaManagers(config, self._clock)
        self._access_tokens: AccessTokens | None = None
        self._listeners: BoundListeners | None = None
        self._metadata: NodeMetadata | None = None
        self._controller: ControllerRole | None = None
        self._broker: BrokerRole | None = None
        self.metrics = Registry(self._metric_sections, self._clock.monotonic_ns)
        """All metrics of the node, by Apache Kafka's MBeans."""
        self._metrics: MetricsServer | None = None
        self._tick: asyncio.TimerHandle | None = None

    # -- start ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all parts. The node serves clients when this method returns.

        Raises:
            ConfigurationError, DirectoryInUse, FormatError, ListenError: the message tells the user
                what to do.
            JoinError: the controller of the cluster rejects the broker.
            LogDirectoryOffline, DamagedFile, QuorumError, MetadataError: the disk has failed, or
                its files are corrupt or inconsistent.
        """
        executor = self._executor = self._executor or ThreadExecutor(asyncio.get_running_loop())
        try:
            await self._start(executor)
        except BaseException:
            if self._listeners is not None:
                self._listeners.release()
            if self._metrics is not None:
                self._metrics.close()
            if self._broker is not None:
                self._broker.stop_heartbeats()
                await self._broker.stop_coordinators()
            if self._controller is not None:
                await self._controller.drain()
            if self._metadata is not None:
                await self._metadata.close()
            if self._access_tokens is not None:
                self._access_tokens.close()
            await executor.close()
            raise

    async def _start(self, executor: Executor) -> None:
        access_tokens = self._access_tokens = AccessTokens(executor, self._clock)
        await access_tokens.start(self.config)
        await check_keys(self.config, executor)
        topic_configs = TopicConfigs(self.config)
        self._to_brokers, self._to_controllers = peer_networks(
            self._network,
            lambda: topic_configs.config,
            self._random_bytes,
            PeerTokens(executor, self._clock, self._random_bytes),
        )
        storage = self._storage = NodeStorage(
            self.config,
            clock=self._clock,
            random_bytes=self._random_bytes,
            file_system=self._file_system,
            executor=executor,
            topic_configs=topic_configs,
            on_failure=self.failed.set,
        )
        try:
            storage.open()
            listeners = self._bind()
            self.identity = storage.format(self._cluster_id)
        except Exception:
            storage.release()  # unlock the directories, because this process may continue to run
            raise
        metadata = await self._start_metadata(executor, listeners, access_tokens)
        if self._authorizer is not None:
            metadata.loader.install(self._authorizer)
        metadata.loader.install(self._quotas)
        metadata.loader.install(metadata.tokens)
        metadata.loader.install(metadata.cache)
        if not self.config.is_broker:
            assert self._controller is not None
            metadata.loader.install(
                ControllerSettings(
                    self.config, topic_configs.update_config, self._controller.update_config
                )
            )
            self._serve_metrics(executor)
            return
        metadata.loader.install(topic_configs)
        await storage.load()
        broker = self._make_broker(executor, metadata, topic_configs, listeners, access_tokens)
        endpoints = listeners.advertised(self.config)
        await broker.register(endpoints, self.config.broker_rack)
        broker.service.start()
        self._run_periodic_tasks()
        self._serve_metrics(executor)

    def _serve_metrics(self, executor: Executor) -> None:
        if self._metrics is not None:
            if self._broker is not None:  # a thread reads them
                self._broker.broker.coordinators.create_all()
            write = writer(self.metrics, self.config.odradek_metrics_names)
            self._metrics.start(executor, write)

    def _bind(self) -> BoundListeners:
        """Bind all addresses."""
        config = self.config
        if config.odradek_metrics_port >= 0:
            self._metrics = MetricsServer(
                self._network, config.odradek_metrics_host, config.odradek_metrics_port
            )
        self._listeners = BoundListeners(config, self._network)
        return self._listeners

    async def _start_metadata(
        self, executor: Executor, listeners: BoundListeners, access_tokens: AccessTokens
    ) -> NodeMetadata:
        """Open the metadata log, join the quorum, and load the committed records."""
        directory_id = self.identity.directory_ids[self.config.metadata_log_dir]
        metadata = self._metadata = NodeMetadata(
            self.config,
            self._storage.open_metadata_log(),
            local_voter(self.config, directory_id, listeners.advertised_controllers(self.config)),
            clock=self._clock,
            executor=executor,
            random_bytes=self._random_bytes,
            network=self._to_controllers,
            cluster_id=self.identity.cluster_id,
            on_failure=self.failed.set,
        )
        if not self.config.is_controller:
            metadata.start()
            await metadata.wait_caught_up()
            return metadata
        role = self._controller = ControllerRole(
            self.config,
            identity=self.identity,
            clock=self._clock,
            executor=executor,
            random_bytes=self._random_bytes,
            metadata=metadata,
            network=self._to_controllers,
            endpoints=listeners.advertised_controllers(self.config),
            access_tokens=access_tokens,
            authorizer=self._authorizer,
            quotas=self._quotas,
        )
        self.controller = role.controller
        metadata.start()
        role.serve(listeners.controller)
        if not self.config.is_broker:
            assert role.service is not None
            self.server, self.dispatcher = role.service.server, role.service.dispatcher
        if metadata.is_only_voter:
            await self.controller.wait_active()
        else:
            await metadata.wait_caught_up()
        role.register(metadata.loader)
        return metadata

    def _make_broker(
        self,
        executor: Executor,
        metadata: NodeMetadata,
        topic_configs: TopicConfigs,
        listeners: BoundListeners,
        access_tokens: AccessTokens,
    ) -> BrokerRole:
        replicas = ReplicaManager(
            self.config.node_id, self._storage.logs, asyncio.get_running_loop()
        )
        channels = self._channels(metadata, replicas)
        role = self._broker = BrokerRole(
            self.config,
            cluster_id=self.identity.cluster_id,
            clock=self._clock,
            random_bytes=self._random_bytes,
            executor=executor,
            storage=self._storage,
            metadata=metadata,
            topic_configs=topic_configs,
            replicas=replicas,
            network=self._to_brokers,
            channels=channels,
            endpoints=listeners.broker,
            access_tokens=access_tokens,
            authorizer=self._authorizer,
            on_loaded=self._on_loaded,
            inject=self._inject,
        )
        role.use_quotas(self._quotas)
        if self._controller is not None:
            role.listen(self._controller.update_config)
        self.broker = role.broker
        self.server = role.service.server
        self.dispatcher = role.service.dispatcher
        return role

    def _channels(self, metadata: NodeMetadata, replicas: ReplicaManager) -> Channels:
        if self.config.is_alone:
            return local_channels(self.controller, replicas)
        common = (self.config, metadata.raft, self._to_controllers, self._random_bytes)
        if self.config.is_controller:
            return member_channels(*common, self.controller, replicas)
        return remote_channels(*common)

    # -- running ----------------------------------------------------------------------------

    def metrics_port(self) -> int:
        """Return the port of the metrics server; -1 if there is no metrics server."""
        return -1 if self._metrics is None else self._metrics.port

    def _metric_sections(self) -> Iterable[Section]:
        from odradek.node.metrics.sections import sections  # when metrics are first read

        return sections(self.metric_sources())

    def metric_sources(self) -> MetricSources:
        """Return the parts of the node that metrics are read from."""
        assert self._metadata is not None
        broker, controller = self._broker, self._controller
        return MetricSources(
            self.config.node_id,
            self._metadata.sources(),
            None if broker is None else BrokerSources(broker.broker, broker.replication.sources()),
            None
            if controller is None
            else ControllerSources(controller.controller, controller.elections),
            self.server,
            self.dispatcher,
            self.selector,
            self._quotas,
            self._clock.now_ms,
            self._clock.monotonic_ms,
        )

    def _run_periodic_tasks(self) -> None:
        delay_ms = self._storage.logs.tick()
        self._tick = asyncio.get_running_loop().call_later(
            delay_ms / 1000, self._run_periodic_tasks
        )

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of this node's broker; -1 until it is registered."""
        return -1 if self._broker is None else self._broker.epoch

    async def set_fenced(self, is_fenced: bool) -> None:
        """Let the controller fence this node's broker, or unfence it again.

        A fenced broker leads no partition that has another replica. It stays fenced until this
        method or the next start unfences it.

        Raises:
            ApiError: the controller rejects the request.
        """
        assert self._broker is not None, "the node is a broker"
        await self._broker.set_fenced(is_fenced)

    # -- stop -------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Close all listeners and accepted connections at once, without responses.

        The caller ends the event loop. Then the node has ended as a process that is killed: its
        files have what was written, and nothing else happens.
        """
        if self._listeners is not None:
            self._listeners.release()
        for role in (self._broker, self._controller):
            if role is not None and role.service is not None:
                for connection in list(role.service.server.connections):
                    connection.close()
        if self._metrics is not None:
            self._metrics.close()

    async def stop(self) -> None:
        """Stop all parts: send open responses, shut the broker down, resign, and close the logs."""
        broker, controller = self._broker, self._controller
        metadata, executor = self._metadata, self._executor
        assert metadata is not None
        assert executor is not None
        if self._metrics is not None:
            self._metrics.close()
        if self._tick is not None:
            self._tick.cancel()
        if self._access_tokens is not None:
            self._access_tokens.close()
        if broker is not None:
            await broker.leave()
            await broker.drain()
        if controller is not None:
            await controller.drain()
        if broker is not None:
            if metadata.is_only_voter and controller is not None and self.controller.is_active:
                await broker.shut_down()
            broker.stop_heartbeats()
        await metadata.close()
        await executor.close()
        self._storage.close(-1 if broker is None else broker.epoch)
