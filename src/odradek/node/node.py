"""The composition of a node: broker and controller in one process.

Start, in this order, so that nothing is seen before it is ready:

1. lock the log directories, and reserve the addresses of the listeners: a node that cannot have
   them has changed nothing;
2. format the directories if they are empty;
3. open the metadata log and become its leader; the image is complete now;
4. load the partition logs, and recover them after a crash;
5. register the broker with its addresses, unfence it, and accept connections.

Stop, the other way round: wait for open requests, give up leadership, close the logs and mark
them as shut down cleanly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.broker.broker import Broker
from odradek.broker.client_telemetry import ClientTelemetry
from odradek.broker.cold_reads import ColdReads
from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.dynamic_config import DynamicConfig
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.topic_creation import TopicCreation
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata import registrations
from odradek.core.metadata.versions import SUPPORTED_FEATURES
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.core.session.fetch import FetchSessionCache
from odradek.env.clock import Clock, SystemClock
from odradek.env.event_loop import MeasuredSelector
from odradek.env.executor import Executor, ThreadExecutor, call
from odradek.env.file_system import FileSystem, OsFileSystem
from odradek.env.network import Network, SocketNetwork, StreamOptions
from odradek.env.randomness import RandomBytes, system_random_bytes
from odradek.handlers.dispatch import Dispatcher
from odradek.log import DiskFull, LogDirectory, LogDirectoryOffline, LogManager, PartitionLog
from odradek.log.startup import open_directory
from odradek.model import uuids
from odradek.model.errors import ApiError
from odradek.network.listeners import Endpoint, bind
from odradek.network.server import Limits, Server
from odradek.node.coordinators import compose
from odradek.node.format import Formatter, Identity
from odradek.node.metrics_server import MetricsServer
from odradek.node.serving import broker_table, controller_table, served_versions
from odradek.node.settings import CoordinatorPublisher, SettingsPublisher, TopicConfigs

log = logging.getLogger("odradek.node")


class Node:
    """See the module. `start` and `stop` run on the loop that serves."""

    broker: Broker
    server: Server
    dispatcher: Dispatcher
    controller: QuorumController
    identity: Identity

    def __init__(
        self,
        config: BrokerConfig,
        selector: MeasuredSelector,
        *,
        clock: Clock | None = None,
        random_bytes: RandomBytes = system_random_bytes,
        file_system: FileSystem | None = None,
        network: Network | None = None,
        executor: Executor | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.config = config
        self.selector = selector
        self._clock = clock or SystemClock()
        self._random_bytes = random_bytes
        self._file_system = file_system or OsFileSystem()
        self._network = network or SocketNetwork()
        self._executor = executor
        self._cluster_id = cluster_id
        self.failed: asyncio.Event = asyncio.Event()
        """Set when the node cannot go on: its metadata log or all its log directories failed."""
        self.on_loaded: Callable[[int], None] = lambda records: None
        """Called with the number of records of each partition that a coordinator has loaded."""
        self._metadata_directory: LogDirectory | None = None
        self._endpoints: list[Endpoint] = []
        self._controller_endpoints: list[Endpoint] = []
        self._controller_server: Server | None = None
        self._metrics: MetricsServer | None = None
        self._tick: asyncio.TimerHandle | None = None

    # -- start ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; clients are served when this returns.

        Raises:
            DirectoryInUse, FormatError, ListenError: with what to do about it.
            LogDirectoryOffline, DamagedFile, QuorumError, MetadataError: the disk failed, or
                does not hold what it should.
        """
        loop = asyncio.get_running_loop()
        executor = self._executor = self._executor or ThreadExecutor(loop)
        try:
            await self._start(loop, executor)
        except BaseException:
            self._release_ports()
            raise

    async def _start(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._topic_configs = TopicConfigs(self.config)
        self._logs = LogManager(
            self.config,
            self._file_system,
            self._clock,
            self._random_bytes,
            topic_configs=self._topic_configs,
            executor=executor,
            on_directory_failure=self._on_directory_failure,
        )
        formatter = Formatter(
            self.config, self._file_system, self._random_bytes, self._clock.now_ms()
        )
        try:
            self._logs.open()
            self._bind()
            self.identity = formatter.ensure(self._cluster_id)
        except Exception:
            self._logs.release()  # nothing works in them yet, and this process may live on
            raise
        for directory in self._logs.directories:
            directory.id = self.identity.directory_ids.get(directory.path)
        self._metadata = MetadataCache()
        await self._start_metadata(formatter, executor, loop)
        await call(executor, self._logs.load)
        self._compose(loop, executor)
        await self._join()
        self.server.start()
        if self._controller_server is not None:
            self._controller_server.start()
        self._run_chores()
        if self._metrics is not None:
            self._metrics.start(executor)

    async def _start_metadata(
        self, formatter: Formatter, executor: Executor, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Open the metadata log and become its leader; everything in it is published then."""
        path = self.config.metadata_log_dir
        directory = next((d for d in self._logs.directories if d.path == path), None)
        if directory is None:
            directory = self._metadata_directory = open_directory(self._file_system, path)
        directory_id = self.identity.directory_ids[path]
        local = formatter.local_voter(directory_id)
        metadata_log = MetadataLog.open(self._logs.storage, directory, self.config)
        try:
            raft = self._raft = RaftClient(
                self.config,
                metadata_log,
                VoterSet(self._static_voters()),
                local,
                self._clock,
                executor,
                lambda failure: self.failed.set(),
            )
        except BaseException:
            metadata_log.close()
            raise
        self._publishers = Publishers(loop)
        loader = self._loader = MetadataLoader(self._publishers, lambda: raft.high_watermark)
        self._snapshots = SnapshotGenerator(self.config, raft, loader)
        self.controller = QuorumController(
            config=self.config,
            cluster_id=self.identity.cluster_id,
            raft=raft,
            loader=loader,
            bootstrap=self.identity.bootstrap,
            clock=self._clock,
            random_bytes=self._random_bytes,
            supported_features=SUPPORTED_FEATURES,
        )
        for listener in (loader, self._snapshots, self.controller):
            raft.register(listener)
        raft.start()
        try:
            await self.controller.wait_active()
        except BaseException:
            await self._close_metadata()
            raise
        loader.install(self._metadata)
        loader.install(self._topic_configs)

    def _static_voters(self) -> list[Voter]:
        name = next(iter(self.config.controller_listener_names), "CONTROLLER")
        return [
            Voter(ReplicaKey(node_id, uuids.ZERO), (VoterEndpoint(name, host, port),))
            for node_id, (host, port) in self.config.quorum_voters.items()
        ]

    def _compose(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        config = self.config
        replicas = ReplicaManager(config.node_id, self._logs, loop)
        channel = LocalControllerChannel(self.controller, replicas.opened)
        coordinators = compose(
            config,
            lambda: self.broker.config,
            self._clock,
            self._random_bytes,
            replicas,
            channel,
            lambda: self._lifecycle.epoch,
            loop,
            executor,
            self._report_loaded,
        )
        broker = self.broker = Broker(
            node_id=config.node_id,
            cluster_id=self.identity.cluster_id,
            loop=loop,
            executor=executor,
            clock=self._clock,
            random_bytes=self._random_bytes,
            config=config,
            metadata=self._metadata,
            controller=channel,
            topic_creation=TopicCreation(channel, lambda: self.broker.config),
            logs=self._logs,
            replicas=replicas,
            fetch_sessions=FetchSessionCache(
                config.max_incremental_fetch_session_cache_slots, self._draw_session_id
            ),
            cold_reads=ColdReads(self._logs.storage, loop),
            **coordinators._asdict(),
            client_telemetry=ClientTelemetry(config.telemetry_max_bytes, self._random_bytes),
            supported_features=SUPPORTED_FEATURES,
            kraft_version=lambda: self.controller.kraft_version,
        )
        table = broker_table(broker)
        broker.served_versions = served_versions(table)
        self.dispatcher = Dispatcher(table, self._clock)
        limits = self._limits(config)
        self.server = Server(self.dispatcher, limits, self._endpoints, replicas.run_woken)
        if config.controller_listeners:
            served = controller_table(broker, self.controller)
            controller_dispatcher = Dispatcher(served, self._clock)
            self._controller_server = Server(
                controller_dispatcher, limits, self._controller_endpoints
            )
        settings = SettingsPublisher(
            broker, DynamicConfig(config), self._topic_configs, self._on_broker_config
        )
        coordinators.listen(replicas)
        self._loader.install(settings)
        self._loader.install(CoordinatorPublisher(broker.groups, broker.transactions))
        self._loader.install(replicas)
        coordinators.startup()

    def _report_loaded(self, records: int) -> None:
        self.on_loaded(records)

    def _draw_session_id(self) -> int:
        return int.from_bytes(self._random_bytes(4), "big") >> 1

    @staticmethod
    def _limits(config: BrokerConfig) -> Limits:
        return Limits(
            request_bytes_max=config.socket_request_max_bytes,
            connections_max=config.max_connections,
            connections_per_ip_max=config.max_connections_per_ip,
            connections_per_ip_overrides=config.max_connections_per_ip_overrides,
            idle_ms=config.connections_max_idle_ms,
            listen_backlog=config.socket_listen_backlog_size,
        )

    def _bind(self) -> None:
        config = self.config
        if config.odradek_metrics_port >= 0:
            self._metrics = MetricsServer(
                self, self._network, config.odradek_metrics_host, config.odradek_metrics_port
            )
        options = StreamOptions(
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        for listeners, endpoints in (
            (config.broker_listeners, self._endpoints),
            (config.controller_listeners, self._controller_endpoints),
        ):
            for each in listeners:
                endpoints.append(
                    bind(self._network, each.name, each.host, each.port, options=options)
                )

    def _release_ports(self) -> None:
        for endpoint in (*self._endpoints, *self._controller_endpoints):
            endpoint.listener.close()
        if self._metrics is not None:
            self._metrics.close()

    async def _join(self) -> None:
        """Register the broker and let clients be sent to it."""
        self._lifecycle = BrokerLifecycle(
            self.broker.controller,
            node_id=self.config.node_id,
            cluster_id=self.identity.cluster_id,
            random_bytes=self._random_bytes,
            supported_features=SUPPORTED_FEATURES,
        )
        directories = [d.id for d in self._logs.online_directories if d.id is not None]
        await self._lifecycle.register(
            self._advertised(),
            directories,
            self.config.broker_rack,
            self._logs.broker_epoch,
        )
        await self._lifecycle.unfence(self._metadata.image.offset)

    def _advertised(self) -> list[registrations.Endpoint]:
        """Advertised addresses; a port of 0 is the one that was bound."""
        bound = {endpoint.name: endpoint.port for endpoint in self._endpoints}
        return [
            registrations.Endpoint(
                each.name, each.host, each.port or bound[each.name], each.security_protocol_id
            )
            for each in self.config.advertised_listeners
        ]

    # -- running ----------------------------------------------------------------------------

    @property
    def is_active_controller(self) -> bool:
        """Whether this node's controller decides."""
        return self.controller.is_active

    def metrics_port(self) -> int:
        """The port that metrics are served at; -1 if they are not."""
        return -1 if self._metrics is None else self._metrics.port

    def _run_chores(self) -> None:
        delay_ms = self._logs.tick()
        self._tick = asyncio.get_running_loop().call_later(delay_ms / 1000, self._run_chores)

    def _on_broker_config(self, config: BrokerConfig) -> None:
        limits = self._limits(config)
        for server in (self.server, self._controller_server):
            if server is not None:
                server.use_limits(limits)

    def _on_directory_failure(self, directory: LogDirectory, logs: list[PartitionLog]) -> None:
        self.broker.replicas.go_offline(logs)
        is_metadata = directory.path == self.config.metadata_log_dir
        if is_metadata or not self._logs.online_directories:
            why = "it has the metadata log" if is_metadata else "no other one is left"
            log.error("the node stops: %s has failed, and %s", directory.path, why)
            self.failed.set()

    # -- stop -------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop in good order."""
        if self._metrics is not None:
            self._metrics.close()
        if self._tick is not None:
            self._tick.cancel()
        self.broker.replicas.expire_all()
        timeout_ms = self.config.odradek_shutdown_timeout_ms
        await self.server.drain(timeout_ms)
        await self.dispatcher.drain()
        if self._controller_server is not None:
            await self._controller_server.drain(timeout_ms)
        self.broker.transactions.shutdown()
        self.broker.groups.shutdown()
        await self.broker.producer_ids.close()
        await self.broker.topic_creation.close()
        await self._leave()
        await self._close_disks()

    async def _leave(self) -> None:
        """Tell the controller that this broker goes, if it can still take that down."""
        if not self.controller.is_active:
            return
        try:
            await self._lifecycle.shut_down(self._metadata.image.offset)
        except ApiError as error:
            log.error("the cluster is not told that this broker stops: %s", error.message)

    async def _close_metadata(self) -> None:
        """Commit what is decided, then resign and close the metadata log."""
        self._publishers.close()
        await self._snapshots.close()
        try:
            await self._raft.close()
        except (DiskFull, LogDirectoryOffline) as error:
            log.error("the metadata log is not closed cleanly: %s", error.message)

    async def _close_disks(self) -> None:
        await self._close_metadata()
        assert self._executor is not None
        await self._executor.close()
        self._logs.shutdown(self._lifecycle.epoch)
        directory = self._metadata_directory
        if directory is not None and directory.lock is not None:
            self._file_system.close(directory.lock)
