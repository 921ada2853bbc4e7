"""Three controllers in one process, which replicate over sockets."""

import asyncio
import contextlib
import os
import shutil

from compat.lab.toolchain import free_port

from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.controller import Controller as ControllerParts
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.broker.metadata.supported_versions import SupportedVersions
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.control import voters_messages
from odradek.broker.raft.metadata_log import METADATA_PARTITION, MetadataLog
from odradek.broker.raft.quorum_requests import QuorumRequests
from odradek.broker.raft.snapshots import STARTING, snapshot_batches, write_snapshot
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.load import load
from odradek.core.metadata.registrations import Endpoint
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.env.clock import SystemClock
from odradek.env.executor import ThreadExecutor
from odradek.env.file_system import OsFileSystem
from odradek.env.network import SocketNetwork
from odradek.env.randomness import system_random_bytes
from odradek.handlers.dispatch import Dispatcher
from odradek.log.startup import open_directory
from odradek.log.storage import Storage
from odradek.network.listeners import bind
from odradek.network.server import Server
from odradek.node.format import Formatter
from odradek.node.listeners import limits_of
from odradek.node.serving import controller_table, controller_versions

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
FEATURES = {"metadata.version": (7, 33), "kraft.version": (0, 1)}
TIMES = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.request.timeout.ms": "1000",
    "broker.session.timeout.ms": "600000",  # the brokers of these tests send no heartbeats
}


class Controller:
    """One controller: its log, its raft client, and its listener."""

    def __init__(self, quorum, node_id, voters=None):
        self.quorum = quorum
        self.voters = quorum.voters if voters is None else voters
        self.id = node_id
        self.path = quorum.path / str(node_id)
        self.is_running = False
        self.settings = {}

    def config(self):
        settings = {**TIMES, **self.quorum.settings, **self.settings}
        overrides = {"log.dirs": str(self.path), "node.id": str(self.id), **settings}
        return load({}, overrides).config

    def identity(self, config):
        """The identity on the disk. An empty disk is formatted first."""
        formatter = Formatter(config, OsFileSystem(), system_random_bytes, 0)
        return formatter.read() or formatter.format(CLUSTER_ID, standalone=False)

    def formatted(self):
        """This controller as a voter."""
        directories = self.identity(self.config()).directory_ids
        key = ReplicaKey(self.id, directories[str(self.path)])
        port = self.quorum.ports[self.id]
        return Voter(key, (VoterEndpoint("CONTROLLER", "127.0.0.1", port),))

    async def start(self):
        config = self.config()
        loop = asyncio.get_running_loop()
        clock, files = SystemClock(), OsFileSystem()
        identity = self.identity(config)
        self.directory = open_directory(files, str(self.path))
        self.executor = ThreadExecutor(loop)
        self.failures = []
        self.raft = RaftClient(
            config,
            MetadataLog.open(Storage(files, clock, system_random_bytes), self.directory, config),
            self.voters,
            self.formatted(),
            clock,
            self.executor,
            self.failures.append,
            network=SocketNetwork(),
            cluster_id=CLUSTER_ID,
            is_alone=False,
        )
        self.publishers = Publishers(loop)
        self.loader = MetadataLoader(self.publishers, lambda: self.raft.high_watermark)
        self.snapshots = SnapshotGenerator(config, self.raft, self.loader)
        self.controller = QuorumController(
            config=config,
            cluster_id=CLUSTER_ID,
            raft=self.raft,
            loader=self.loader,
            bootstrap=identity.bootstrap,
            clock=clock,
            random_bytes=system_random_bytes,
            supported_features=FEATURES,
        )
        for listener in (self.loader, self.snapshots, self.controller):
            self.raft.register(listener)
        cache = MetadataCache()
        self.loader.install(cache)
        parts = ControllerParts(
            decisions=self.controller,
            quorum=QuorumRequests(self.raft, CLUSTER_ID),
            metadata=cache,
            tokens=DelegationTokens(None, clock, system_random_bytes),
            dynamic=DynamicConfig(config),
            versions=SupportedVersions(
                controller_versions(), FEATURES, lambda: self.raft.settings.kraft_version
            ),
        )
        endpoint = self.quorum.endpoints.pop(self.id, None)
        if endpoint is None:
            endpoint = self.quorum.bind(self.quorum.ports[self.id])
        dispatcher = Dispatcher(controller_table(parts), clock)
        self.server = Server(dispatcher, limits_of(config), [endpoint])
        self.server.start()
        self.raft.start()
        self.is_running = True

    async def stop(self):
        """Shut down the controller."""
        self.is_running = False
        self.publishers.close()
        await self.snapshots.close()
        await self.raft.close()
        await self.server.drain(100)
        await self.executor.close()
        os.close(self.directory.lock)

    async def kill(self):
        """Stop without a message to the other controllers, as if the process was killed."""
        self.is_running = False
        self.publishers.close()
        self.raft.abandon()
        # Its timer would append NoOp records to the files that the next incarnation opens.
        self.controller._deactivate()
        await self.server.drain(0)
        await self.executor.close()
        os.close(self.directory.lock)

    def wipe(self):
        """Lose the disk."""
        assert not self.is_running
        shutil.rmtree(self.path)

    async def register_broker(self):
        """Register a broker and unfence it, so that topics can be created."""
        channel = LocalControllerChannel(self.controller)
        lifecycle = BrokerLifecycle(
            channel,
            node_id=self.id,
            cluster_id=CLUSTER_ID,
            random_bytes=system_random_bytes,
            supported_features=FEATURES,
        )
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092, 0)
        await lifecycle.register([endpoint], [bytes([self.id] * 16)], None, -1)
        await lifecycle.unfence(self.loader.image.offset)

    async def ask(self, request):
        return await self.controller.submit(None, request)


class Quorum:
    """The controllers."""

    def __init__(self, path, settings):
        self.path = path
        self.settings = settings
        ids = (1, 2, 3)
        self.endpoints = {each: self.bind(free_port()) for each in ids}
        self.ports = {each: endpoint.port for each, endpoint in self.endpoints.items()}
        self.voters = VoterSet(
            Voter(
                ReplicaKey(each, bytes(16)),
                (VoterEndpoint("CONTROLLER", "127.0.0.1", self.ports[each]),),
            )
            for each in ids
        )
        self.controllers = {each: Controller(self, each) for each in ids}

    def observer(self, server=None):
        """A node that is not a voter, and that knows the address of one controller or of all."""
        self.endpoints[4] = self.bind(free_port())
        self.ports[4] = self.endpoints[4].port
        if server is None:
            made = self.controllers[4] = Controller(self, 4)
            return made
        made = self.controllers[4] = Controller(self, 4, VoterSet())
        address = f"127.0.0.1:{self.ports[server.id]}"
        made.settings = {"controller.quorum.bootstrap.servers": address}
        return made

    @staticmethod
    def bind(port):
        return bind(SocketNetwork(), "CONTROLLER", "127.0.0.1", port)

    @property
    def running(self):
        return [each for each in self.controllers.values() if each.is_running]

    async def until(self, holds):
        """Wait until `holds()` is true. The time limit of the test ends the wait otherwise."""
        while not holds():
            assert not any(each.failures for each in self.running)
            await asyncio.sleep(0.01)

    async def active(self):
        """The active controller that a majority follows."""

        def found():
            return [
                each
                for each in self.running
                if each.controller.is_active
                and sum(other.raft.leader == each.raft.leader for other in self.running) >= 2
            ]

        await self.until(found)
        return found()[0]

    async def until_equal(self):
        """Wait until all running controllers have the same metadata; return the topics' names."""
        active = await self.active()
        await self.until(
            lambda: all(
                each.loader.image.topics == active.loader.image.topics
                and each.raft.high_watermark == active.raft.log.end_offset
                for each in self.running
            )
        )
        return sorted(active.loader.image.topics.by_name)

    def format_dynamic(self):
        """Format the disks for kraft.version 1, whose first snapshot has the voters."""
        made = [each.formatted() for each in self.controllers.values()]
        messages = voters_messages(VoterSet(made))
        for each in self.controllers.values():
            directory = f"{each.path}/{METADATA_PARTITION}"
            batches = snapshot_batches(0, 0, messages, (), 0)
            os.makedirs(directory)
            write_snapshot(OsFileSystem(), f"{directory}/{STARTING.name}", batches, directory)


@contextlib.asynccontextmanager
async def three_controllers(path, dynamic=False, **settings):
    quorum = Quorum(path, {name.replace("_", "."): value for name, value in settings.items()})
    if dynamic:
        quorum.format_dynamic()
    for each in quorum.controllers.values():
        await each.start()
    try:
        yield quorum
    finally:
        for each in quorum.running:
            await each.stop()
