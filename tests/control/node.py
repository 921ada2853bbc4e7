"""A controller node with a temporary directory, for tests."""

import asyncio
import contextlib
import os

from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.config.load import load
from odradek.core.metadata.registrations import Endpoint
from odradek.core.raft.voters import VoterSet
from odradek.env.clock import SystemClock
from odradek.env.executor import ThreadExecutor
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.log.startup import open_directory
from odradek.log.storage import Storage
from odradek.node.format import Formatter

from .harness import FEATURES

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
ENDPOINT = Endpoint("PLAINTEXT", "localhost", 9092, 0)


class Recorder:
    """A publisher that records its calls."""

    def __init__(self):
        self.published = []

    def load(self, image):
        self.published.append((None, image))

    def publish(self, delta, image):
        self.published.append((delta, image))


class Node:
    """The node that `start` returns."""

    def __init__(self, controller, channel, lifecycle, cache, recorder, failures):
        self.controller = controller
        self.channel = channel
        self.lifecycle = lifecycle
        self.cache = cache
        self.recorder = recorder
        self.failures = failures

    async def join(self, previous_epoch=-1):
        await self.lifecycle.register([ENDPOINT], [self.directory_id], None, previous_epoch)
        await self.lifecycle.unfence(self.cache.image.offset)

    async def close(self):
        """Commit all decisions, and close the log."""
        self.publishers.close()
        await self.snapshots.close()
        await self.raft.close()

    async def ask(self, request):
        return await self.channel.submit(None, request)


async def start(path, file_system=None, join=True, previous_epoch=-1, **settings):
    """Start a controller whose broker has joined. The caller closes it (see `running`)."""
    overrides = {name.replace("_", "."): value for name, value in settings.items()}
    config = load({}, {"log.dirs": str(path), **overrides}).config
    clock = SystemClock()
    file_system = file_system or OsFileSystem()
    formatter = Formatter(config, file_system, system_random_bytes, clock.now_ms())
    identity = formatter.ensure(CLUSTER_ID)
    storage = Storage(file_system, clock, system_random_bytes)
    directory = open_directory(file_system, str(path))
    executor = ThreadExecutor(asyncio.get_running_loop())
    cache, recorder, failures = MetadataCache(), Recorder(), []
    voter = formatter.local_voter(identity.directory_ids[str(path)])
    raft = RaftClient(
        config,
        MetadataLog.open(storage, directory, config),
        VoterSet([voter]),
        voter,
        clock,
        executor,
        failures.append,
    )
    publishers = Publishers(asyncio.get_running_loop())
    loader = MetadataLoader(publishers, lambda: raft.high_watermark)
    snapshots = SnapshotGenerator(config, raft, loader)
    controller = QuorumController(
        config=config,
        cluster_id=CLUSTER_ID,
        raft=raft,
        loader=loader,
        bootstrap=identity.bootstrap,
        clock=clock,
        random_bytes=system_random_bytes,
        supported_features=FEATURES,
    )
    for listener in (loader, snapshots, controller):
        raft.register(listener)
    raft.start()
    try:
        await controller.wait_active()
    except BaseException:
        await raft.close()
        await executor.close()
        os.close(directory.lock)
        raise
    loader.install(cache)
    loader.install(recorder)
    channel = LocalControllerChannel(controller)
    lifecycle = BrokerLifecycle(
        channel,
        node_id=config.node_id,
        cluster_id=CLUSTER_ID,
        random_bytes=system_random_bytes,
        supported_features=FEATURES,
    )
    node = Node(controller, channel, lifecycle, cache, recorder, failures)
    node.executor = executor
    node.raft = raft
    node.loader = loader
    node.publishers = publishers
    node.snapshots = snapshots
    node.directory_id = voter.key.directory_id
    node.directory = directory
    if join:
        await node.join(previous_epoch)
    return node


@contextlib.asynccontextmanager
async def running(path, **arguments):
    """A node that is closed at the end."""
    node = await start(path, **arguments)
    try:
        yield node
    finally:
        await node.close()
        await node.executor.close()
        os.close(node.directory.lock)
