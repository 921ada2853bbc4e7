"""A controller node over a temporary directory, as a test starts it."""

import contextlib

from odradek.broker.controller.channel import LocalControllerChannel
from odradek.broker.controller.controller_node import ControllerNode
from odradek.broker.controller.lifecycle import BrokerLifecycle
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.publisher import PublisherChain
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.config.load import load
from odradek.core.metadata.registrations import Endpoint
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.env.clock import SystemClock
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.log.startup import open_directory
from odradek.log.storage import Storage
from odradek.wire.generated.feature_level_record import FeatureLevelRecord

from .harness import FEATURES

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY_ID = bytes(range(100, 116))
ENDPOINT = Endpoint("PLAINTEXT", "localhost", 9092, 0)
BOOTSTRAP = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    FeatureLevelRecord(name="group.version", feature_level=1),
]


class Recorder:
    """A publisher that keeps what it was told."""

    def __init__(self):
        self.published = []

    def publish(self, delta, image):
        self.published.append((delta, image))


class Node:
    """What `start` gives."""

    def __init__(self, controller, channel, lifecycle, cache, recorder, failures):
        self.controller = controller
        self.channel = channel
        self.lifecycle = lifecycle
        self.cache = cache
        self.recorder = recorder
        self.failures = failures

    async def ask(self, request):
        return await self.channel.submit(None, request)


async def start(path, file_system=None, join=True, previous_epoch=-1, **settings):
    """A controller whose broker has joined; nothing is closed (see `running`)."""
    overrides = {name.replace("_", "."): value for name, value in settings.items()}
    config = load({}, {"log.dirs": str(path), **overrides}).config
    clock = SystemClock()
    file_system = file_system or OsFileSystem()
    storage = Storage(file_system, clock, system_random_bytes)
    directory = open_directory(file_system, str(path))
    cache, recorder, failures = MetadataCache(), Recorder(), []
    voter = Voter(
        ReplicaKey(config.node_id, DIRECTORY_ID), (VoterEndpoint("CONTROLLER", "localhost", 9093),)
    )
    metadata_log = MetadataLog.open(storage, directory, config)
    controller = await ControllerNode.start(
        config=config,
        cluster_id=CLUSTER_ID,
        metadata_log=metadata_log,
        local_voter=voter,
        static_voters=VoterSet([voter]),
        bootstrap=BOOTSTRAP,
        clock=clock,
        random_bytes=system_random_bytes,
        publishers=PublisherChain(cache, recorder),
        supported_features=FEATURES,
        on_failure=failures.append,
    )
    channel = LocalControllerChannel(controller)
    lifecycle = BrokerLifecycle(
        channel,
        node_id=config.node_id,
        cluster_id=CLUSTER_ID,
        random_bytes=system_random_bytes,
        supported_features=FEATURES,
    )
    if join:
        await lifecycle.register([ENDPOINT], [DIRECTORY_ID], None, previous_epoch)
        await lifecycle.unfence(cache.image.offset)
    return Node(controller, channel, lifecycle, cache, recorder, failures)


@contextlib.asynccontextmanager
async def running(path, **arguments):
    """A node that is closed in good order."""
    node = await start(path, **arguments)
    try:
        yield node
    finally:
        await node.controller.close()
