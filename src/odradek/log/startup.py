"""Opens the log directories of a node and loads the logs in them.

After an unclean shutdown, `num.recovery.threads.per.data.dir` threads recover the partitions of a
directory, because partitions are independent. After a clean shutdown there is little to do for each
partition, and one thread does this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from odradek.config.topic_config import TopicConfig
from odradek.env.file_system import (
    CREATE,
    FileSystem,
    ensure_directory,
    read_file,
    remove_tree,
)
from odradek.log import loader, names
from odradek.log.checkpoints import (
    read_clean_shutdown,
    read_offsets,
    read_partition_metadata,
    write_partition_metadata,
)
from odradek.log.directory import LogDirectory
from odradek.log.errors import DamagedFile, DirectoryInUse
from odradek.log.partition_directory import PartitionDirectory
from odradek.log.partition_log import PartitionLog
from odradek.log.storage import Storage
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition

logger = logging.getLogger("odradek.log")

TopicConfigs = Callable[[str], TopicConfig]
_PROGRESS_STEP = 1000


def open_directory(file_system: FileSystem, path: str) -> LogDirectory:
    """Create a log directory if necessary, lock it, and read its id.

    If the disk fails, the returned directory is offline.

    Raises:
        DirectoryInUse: another process has locked the directory.
    """
    directory = LogDirectory(path)
    try:
        ensure_directory(file_system, path)
        lock = file_system.open(directory.file(names.LOCK), CREATE)
        if not file_system.lock(lock):
            file_system.close(lock)
            raise DirectoryInUse(
                f"another process uses {path}: stop it, or choose another directory with "
                "--data or log.dirs"
            )
        directory.lock_with(lock)
        directory.set_id(_directory_id(file_system, directory.file(names.META_PROPERTIES)))
    except OSError as error:
        directory.fail("could not open it", error)
    return directory


def _directory_id(file_system: FileSystem, path: str) -> bytes | None:
    try:
        lines = read_file(file_system, path).decode("iso-8859-1").splitlines()
    except FileNotFoundError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "directory.id":
            try:
                return uuids.from_text(value.strip())
            except ValueError:
                return None  # the node reports it when it checks whose directory it is
    return None


class DamagedLog(NamedTuple):
    """A log whose end cannot be determined."""

    directory: LogDirectory
    path: str
    problem: str


class Contents(NamedTuple):
    """The content of a log directory."""

    logs: list[PartitionLog]
    futures: list[PartitionLog]
    """Logs that will replace logs in other directories."""
    damaged: dict[TopicPartition, DamagedLog]
    retired: list[str]
    """Paths of partition directories whose deletion had begun."""
    was_clean: bool
    broker_epoch: int
    """Broker epoch of the last clean shutdown; -1 if the shutdown was not clean or had no epoch."""


def load_directory(
    storage: Storage, directory: LogDirectory, topic_configs: TopicConfigs, threads: int
) -> Contents:
    """Load all logs of a directory.

    Raises:
        OSError: the device failed.
    """
    file_system = storage.file_system
    marker = directory.file(names.CLEAN_SHUTDOWN)
    epoch = read_clean_shutdown(file_system, marker)
    if epoch is not None:
        # Remove the marker, so that a crash from now on does not count as a clean shutdown.
        file_system.remove(marker)
        file_system.sync_directory(directory.path)
    found: list[tuple[TopicPartition, str]] = []
    retired: list[str] = []
    for entry in file_system.scan(directory.path):
        if entry.is_directory:
            _sort(directory, entry.name, found, retired)
    one = _Loading(storage, directory, topic_configs, epoch is not None)
    if found:
        logger.info(
            "%s: %s %d partitions",
            directory.path,
            "loading" if one.was_clean else "recovering, after an unclean shutdown,",
            len(found),
        )
    loaded = storage.executor.map(one.load, found, 1 if one.was_clean else threads)
    logs: list[PartitionLog] = []
    futures: list[PartitionLog] = []
    for log in _with_progress(directory, len(found), loaded):
        (futures if log.path.endswith(names.FUTURE_DIRECTORY) else logs).append(log)
    broker_epoch = -1 if epoch is None else epoch
    return Contents(logs, futures, one.damaged, retired, one.was_clean, broker_epoch)


def _sort(
    directory: LogDirectory,
    name: str,
    found: list[tuple[TopicPartition, str]],
    retired: list[str],
) -> None:
    parsed = names.parse_directory(name)
    if parsed is None:
        if name != names.REMOTE_INDEX_CACHE:
            logger.warning("%s/%s is not a partition's directory: ignored", directory.path, name)
    elif parsed[0].topic == names.METADATA_TOPIC:
        pass  # the metadata log belongs to the quorum
    elif parsed[1] == names.DELETE_DIRECTORY:
        retired.append(directory.file(name))
    elif parsed[1] == names.STRAY_DIRECTORY:
        logger.warning("%s/%s is ignored", directory.path, name)
    else:
        found.append((parsed[0], name))


def _with_progress(
    directory: LogDirectory, total: int, loaded: Iterable[PartitionLog | None]
) -> Iterator[PartitionLog]:
    for number, log in enumerate(loaded, 1):
        if number % _PROGRESS_STEP == 0:
            logger.info("%s: %d of %d partitions are loaded", directory.path, number, total)
        if log is not None:
            yield log


class _Loading:
    """Loads the logs of one directory. Several threads may call `load`."""

    def __init__(
        self,
        storage: Storage,
        directory: LogDirectory,
        topic_configs: TopicConfigs,
        was_clean: bool,
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.topic_configs = topic_configs
        self.was_clean = was_clean
        self.damaged: dict[TopicPartition, DamagedLog] = {}
        self.recovery_points = self._offsets(directory.recovery_points)
        self.log_start_offsets = self._offsets(directory.log_start_offsets)
        self.high_watermarks = self._offsets(directory.high_watermarks)

    def _offsets(self, path: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.storage.file_system, path)
        except DamagedFile as error:
            logger.error("a checkpoint cannot be used; it counts as 0 for all logs: %s", error)
            return {}

    def load(self, found: tuple[TopicPartition, str]) -> PartitionLog | None:
        """Load the log of a partition's directory; None if the log is damaged."""
        partition, name = found
        try:
            log = open_log(
                self.storage,
                self.directory,
                partition,
                self.topic_configs(partition.topic),
                recovery_point=self.recovery_points.get(partition, 0),
                log_start_offset=self.log_start_offsets.get(partition, 0),
                was_clean=self.was_clean,
                name=name,
            )
        except DamagedFile as error:
            path = self.directory.file(name)
            if name.endswith(names.FUTURE_DIRECTORY):
                stray = path.removesuffix(names.FUTURE_DIRECTORY) + names.STRAY_DIRECTORY
                logger.error("%s is damaged, and is renamed to %s: %s", path, stray, error)
                self.storage.file_system.rename(path, stray)
            else:
                self.damaged[partition] = DamagedLog(self.directory, path, str(error))
            return None
        log.high_watermark = self.high_watermarks.get(partition, log.log_start_offset)
        return log


def open_log(
    storage: Storage,
    directory: LogDirectory,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    topic_id: bytes | None = None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    was_clean: bool = False,
    name: str | None = None,
    is_new: bool = False,
) -> PartitionLog:
    """Load one log from its directory, or create a log.

    The topic id of an existing log is in the file `partition.metadata`. If there is no such file,
    or if the log is new, the topic id is `topic_id`. If a new log cannot be created, no files
    remain. `name` is the name of an existing directory or, with `is_new`, of a new one.

    Raises:
        DamagedFile: the shutdown was clean, but the end of the log cannot be determined.
        OSError: the device failed.
    """
    file_system = storage.file_system
    path = directory.file(name or str(partition))
    place = PartitionDirectory(storage, directory, path, partition)
    if is_new or (name is None and file_system.status(path) is None):
        try:
            log = PartitionLog(place, None, config, loader.create(place, config))
            if topic_id is not None:
                assign_topic_id(log, topic_id)
        except OSError:
            remove_tree(file_system, path)
            raise
        return log
    loaded = loader.load(
        place,
        config,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        was_clean=was_clean,
    )
    known_id: bytes | None = None
    try:
        known_id = read_partition_metadata(file_system, place.file(names.PARTITION_METADATA))
    except DamagedFile as error:
        logger.error("the topic id is not known: %s", error)
    log = PartitionLog(place, known_id, config, loaded)
    if not was_clean:
        place.on_names_changed()  # recovery may have created files
    if known_id is None and topic_id is not None:
        assign_topic_id(log, topic_id)
    return log


def assign_topic_id(log: PartitionLog, topic_id: bytes) -> None:
    """Write the topic id of a log that has none. The next flush of the log flushes the file.

    Raises:
        OSError: the device failed.
    """
    path = log.partition_directory.file(names.PARTITION_METADATA)
    write_partition_metadata(
        log.partition_directory.storage.file_system, path, topic_id, sync=False
    )
    log.set_topic_id(topic_id)
