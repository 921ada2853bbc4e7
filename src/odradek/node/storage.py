"""Locks, formats, loads and closes the log directories of a node.

The directory of the metadata log (`metadata.log.dir`) is usually one of the log directories. If it
is not, this module locks it too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from odradek.broker.raft.metadata_log import MetadataLog
from odradek.config.broker_config import BrokerConfig
from odradek.config.topic_config import TopicConfig
from odradek.env.clock import Clock
from odradek.env.executor import Executor, call
from odradek.env.file_system import FileSystem
from odradek.env.randomness import RandomBytes
from odradek.log import LogDirectory, LogManager, PartitionLog
from odradek.log.startup import open_directory
from odradek.node.format import Formatter, Identity

log = logging.getLogger("odradek.node")

OnOffline = Callable[[LogDirectory, Iterable[PartitionLog], bool], None]
"""Called with a directory that has failed, its logs, and whether the node must stop."""


class NodeStorage:
    """The log directories of a node, with the partition logs and the metadata log."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        random_bytes: RandomBytes,
        file_system: FileSystem,
        executor: Executor,
        topic_configs: Callable[[str], TopicConfig],
        on_failure: Callable[[], None],
    ) -> None:
        """`on_failure` is called when a failed directory requires the node to stop."""
        self._config = config
        self._file_system = file_system
        self._executor = executor
        self._on_failure = on_failure
        self._on_offline: OnOffline | None = None
        self.logs = LogManager(
            config,
            file_system,
            clock,
            random_bytes,
            topic_configs=topic_configs,
            executor=executor,
            on_directory_failure=self._on_directory_failure,
        )
        self.formatter = Formatter(config, file_system, random_bytes, clock.now_ms())
        self._metadata_directory: LogDirectory | None = None
        """The directory of the metadata log, if it is not a log directory."""

    def open(self) -> None:
        """Lock the log directories.

        Raises:
            DirectoryInUse, LogDirectoryOffline: a directory cannot be used.
        """
        self.logs.open()

    def format(self, cluster_id: str | None) -> Identity:
        """Format empty directories; return the cluster and node that all directories belong to.

        Raises:
            FormatError: the directories contradict each other, the configuration or `cluster_id`.
        """
        identity = self.formatter.ensure(cluster_id)
        for directory in self.logs.directories:
            directory.set_id(identity.directory_ids.get(directory.path))
            problem = identity.failed.get(directory.path)
            if problem is not None:
                directory.fail("it has no identity", OSError(problem))
        return identity

    def open_metadata_log(self) -> MetadataLog:
        """Open the metadata log.

        Raises:
            DamagedFile, LogDirectoryOffline, OSError: the metadata log cannot be read.
        """
        path = self._config.metadata_log_dir
        directory = next((each for each in self.logs.directories if each.path == path), None)
        if directory is None:
            directory = self._metadata_directory = open_directory(self._file_system, path)
        return MetadataLog.open(self.logs.storage, directory, self._config)

    async def load(self) -> None:
        """Load the partition logs, and recover them after a crash.

        The metadata must be loaded before, because the logs need the settings of their topics.

        Raises:
            LogDirectoryOffline: all log directories have failed.
        """
        await call(self._executor, self.logs.load)

    def directory_ids(self) -> Sequence[bytes]:
        """Return the ids of the online log directories."""
        return [each.id for each in self.logs.online_directories if each.id is not None]

    def offline_directory_ids(self) -> Sequence[bytes]:
        """Return the ids of the log directories that have failed."""
        return [
            each.id for each in self.logs.directories if each.is_offline and each.id is not None
        ]

    def listen(self, on_offline: OnOffline) -> None:
        """Call `on_offline` for each directory that fails from now on."""
        self._on_offline = on_offline

    def _on_directory_failure(self, directory: LogDirectory, logs: list[PartitionLog]) -> None:
        is_metadata = directory.path == self._config.metadata_log_dir
        is_fatal = is_metadata or not self.logs.online_directories
        if self._on_offline is not None:
            self._on_offline(directory, logs, is_fatal)
        if is_fatal:
            why = "it has the metadata log" if is_metadata else "no other one is left"
            self.stop_node(f"{directory.path} has failed, and {why}")

    def stop_node(self, why: str) -> None:
        """Let the node stop, because of a failed directory."""
        log.error("the node stops: %s", why)
        self._on_failure()

    def release(self) -> None:
        """Unlock the directories after a failed start that has not written to them."""
        self.logs.release()

    def close(self, broker_epoch: int) -> None:
        """Close all logs, mark the directories as cleanly shut down, and unlock them.

        `broker_epoch` is written to the directories for the next registration.
        """
        self.logs.shutdown(broker_epoch)
        directory = self._metadata_directory
        if directory is not None and directory.lock is not None:
            self._file_system.close(directory.lock)
