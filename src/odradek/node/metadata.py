"""The metadata of a node: the raft client, and the loader that publishes committed records.

Every node has this part, whatever its roles. A controller registers as a listener of the raft
client before `start`. A broker installs its publishers when the metadata is loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.metadata.cache import MetadataCache
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.broker.metadata.supported_versions import SupportedVersions
from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.raft.obstacles import QuorumWatch
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.versions import SUPPORTED_FEATURES
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.log import DiskFull, LogDirectoryOffline
from odradek.model import uuids
from odradek.node.metrics.sources import MetadataSources

log = logging.getLogger("odradek.node")

CATCH_UP_SECONDS = 0.01
"""How often a start looks whether the metadata is loaded."""


class NodeMetadata:
    """The raft client, the loader and the publishers. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        local: Voter,
        *,
        clock: Clock,
        executor: Executor,
        random_bytes: RandomBytes,
        network: Network,
        cluster_id: str,
        on_failure: Callable[[], None],
    ) -> None:
        """`local` describes this node as a voter. This object closes the metadata log.

        Raises:
            QuorumError: this node cannot be part of the quorum of its log.
            DamagedFile, LogDirectoryOffline, OSError: the log cannot be read.
        """
        voters = VoterSet(_static_voters(config))
        try:
            self.raft = RaftClient(
                config,
                metadata_log,
                voters,
                local,
                clock,
                executor,
                lambda failure: on_failure(),
                random_bytes=random_bytes,
                network=network,
                cluster_id=cluster_id,
                is_alone=config.is_alone,
            )
        except BaseException:
            metadata_log.close()
            raise
        self.publishers = Publishers(asyncio.get_running_loop())
        self.loader = MetadataLoader(self.publishers, lambda: self.raft.high_watermark)
        self._snapshots = SnapshotGenerator(config, self.raft, self.loader)
        self.cache = MetadataCache()
        self.tokens = DelegationTokens(config.delegation_token_secret_key, clock, random_bytes)
        self.raft.register(self.loader)
        self.raft.register(self._snapshots)
        self._watch = QuorumWatch(self.raft.obstacles, lambda: self._is_settled)
        self.raft.register(self._watch)
        self._was_caught_up = False

    @property
    def _is_settled(self) -> bool:
        """Whether this node has a leader, and has once read what the leader has committed."""
        self._was_caught_up = self._was_caught_up or self.raft.is_caught_up
        return self._was_caught_up and self.raft.leader.is_known

    def sources(self) -> MetadataSources:
        """Return the parts that metrics are read from."""
        return MetadataSources(self.raft, self.cache, self.publishers, self.loader, self._snapshots)

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter of the quorum at present."""
        return self.raft.machine.is_only_voter

    def supported_versions(self, apis: Sequence[tuple[int, int, int]]) -> SupportedVersions:
        """Return what ApiVersions tells the clients of listeners that serve `apis`."""
        return SupportedVersions(apis, SUPPORTED_FEATURES, lambda: self.raft.settings.kraft_version)

    def start(self) -> None:
        """Join the quorum."""
        self._watch.start()
        self.raft.start()

    async def wait_caught_up(self) -> None:
        """Wait until all records are loaded that the leader has committed.

        Raises:
            Exception: the raft client has failed. The exception is the client's failure.
        """
        while not self.raft.is_caught_up:
            if self.raft.failure is not None:
                raise self.raft.failure
            await asyncio.sleep(CATCH_UP_SECONDS)
        self.loader.finish_catching_up()

    async def close(self) -> None:
        """Stop the publishers and snapshots, flush the metadata log, resign, and close the log."""
        self._watch.close()
        self.publishers.close()
        await self._snapshots.close()
        try:
            await self.raft.close()
        except (DiskFull, LogDirectoryOffline) as error:
            log.error("the metadata log is not closed cleanly: %s", error.message)


def _static_voters(config: BrokerConfig) -> list[Voter]:
    """Return the voters from controller.quorum.voters, which a quorum of kraft.version 0 uses."""
    name = next(iter(config.controller_listener_names), "CONTROLLER")
    return [
        Voter(ReplicaKey(node_id, uuids.ZERO), (VoterEndpoint(name, host, port),))
        for node_id, (host, port) in config.quorum_voters.items()
    ]
