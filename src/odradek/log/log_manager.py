"""Manages all logs of a node, in one or several log directories.

The node creates a `LogManager` and makes these calls:

1. `open` locks the directories.
2. `load` loads the logs, and recovers them after a crash. (`start` calls `open` and `load`.)
3. `tick` does periodic work. It returns the delay until the next call.
4. `shutdown` closes the logs.

When a disk is full, writes that do not fit are refused. Everything else continues. When a disk
fails, its log directory goes offline. Then the logs of this directory are removed from the manager,
`on_directory_failure` is called, and the logs of other directories continue. If a partition may be
in an offline directory, the manager does not create it in another directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator

from odradek.config.broker_config import BrokerConfig
from odradek.config.topic_config import TopicConfig
from odradek.env.clock import Clock
from odradek.env.executor import Executor, InlineExecutor
from odradek.env.file_system import FileSystem, replace_file
from odradek.env.randomness import RandomBytes
from odradek.log import names
from odradek.log.checkpoints import clean_shutdown_text
from odradek.log.cleaner.child import WORKER, ProcessChild
from odradek.log.cleaner.log_cleaner import LogCleaner, StartChild
from odradek.log.closing import close_all
from odradek.log.descriptors import POOL_LIMIT_DEFAULT
from odradek.log.directory import LogDirectory
from odradek.log.errors import (
    DiskFull,
    InconsistentTopicId,
    LogDamaged,
    LogDirectoryOffline,
)
from odradek.log.group_commit import Flushed, GroupCommit
from odradek.log.partition_log import PartitionLog
from odradek.log.periodic_tasks import PeriodicTasks
from odradek.log.startup import (
    DamagedLog,
    TopicConfigs,
    assign_topic_id,
    load_directory,
    open_directory,
    open_log,
)
from odradek.log.storage import Storage
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition

logger = logging.getLogger("odradek.log")

DirectoryFailure = Callable[[LogDirectory, list[PartitionLog]], None]


class LogManager:
    """All logs of a node.

    `topic_configs(topic)` returns the settings of a topic. `executor` runs work that would block
    the event loop. `open_files_max` limits the number of open `.log` files. `start_cleaner` starts
    a process that compacts logs.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        clock: Clock,
        random_bytes: RandomBytes,
        *,
        topic_configs: TopicConfigs,
        executor: Executor | None = None,
        on_directory_failure: DirectoryFailure | None = None,
        open_files_max: int = POOL_LIMIT_DEFAULT,
        start_cleaner: StartChild | None = None,
    ) -> None:
        self.config = config
        executor = self._executor = executor or InlineExecutor()
        self.storage = Storage(
            file_system,
            clock,
            random_bytes,
            executor=executor,
            open_files_max=open_files_max,
            producer_expiration_ms=config.producer_id_expiration_ms,
            verify_transactions=config.transaction_partition_verification_enable,
        )
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """The logs that will replace logs in other directories (`promote_future`)."""
        self.directories: list[LogDirectory] = []
        self._damaged: dict[TopicPartition, DamagedLog] = {}
        """Damaged logs. They are not served, and not created again, until they are repaired."""
        self.broker_epoch = -1
        """Broker epoch of the last clean shutdown; -1 unless all directories have this epoch."""
        self._topic_configs = topic_configs
        self._on_directory_failure = on_directory_failure
        self._group_commits: dict[str, GroupCommit] = {}
        start_cleaner = start_cleaner or (lambda: ProcessChild(executor.start_process(WORKER)))
        self.cleaner = LogCleaner(self, start_cleaner) if config.log_cleaner_enable else None
        self._periodic_tasks = PeriodicTasks(self)
        self.storage.connect(
            self._periodic_tasks.remove_later,
            self._periodic_tasks.write_recovery_points,
            self._periodic_tasks.lower_recovery_points,
        )

    # -- start and end ------------------------------------------------------------------------

    def open(self) -> None:
        """Create and lock the log directories.

        Raises:
            DirectoryInUse: another process uses one of the directories.
            LogDirectoryOffline: no directory works.
        """
        for path in self.config.log_dirs:
            directory = open_directory(self.storage.file_system, path)
            directory.tell_failure(self._directory_failed)
            self.directories.append(directory)
        self._check_directories()

    def load(self) -> None:
        """Load the logs of the log directories.

        After a crash, loading may take long. `load` may run on another thread while nothing else
        uses this object.

        Raises:
            LogDirectoryOffline: no directory works.
        """
        epochs = {self._load(directory) for directory in self.online_directories}
        self._check_directories()
        if self.cleaner is not None:
            self.cleaner.start()
        all_work = len(self.online_directories) == len(self.directories)
        self.broker_epoch = epochs.pop() if all_work and len(epochs) == 1 else -1

    def start(self) -> None:
        """Open the log directories and load their logs.

        Raises:
            DirectoryInUse: another process uses one of the directories.
            LogDirectoryOffline: no directory works.
        """
        self.open()
        self.load()

    def _load(self, directory: LogDirectory) -> int:
        threads = self.config.num_recovery_threads_per_data_dir
        try:
            contents = load_directory(self.storage, directory, self._topic_configs, threads)
            for log in contents.logs:
                self._add_loaded(log)
            for partition, damaged in contents.damaged.items():
                logger.error("%s is damaged and stays offline: %s", partition, damaged.problem)
            self._damaged |= contents.damaged
            directory.on_logs_loaded(len(contents.logs))
            if not contents.was_clean:
                # A log may end below its recovery point.
                self._periodic_tasks.write_recovery_points(directory)
        except OSError as error:
            directory.fail("could not load it", error)
            return -1
        for path in contents.retired:
            self._periodic_tasks.remove_directory_later(path, 0)
        return contents.broker_epoch

    def _add_loaded(self, log: PartitionLog) -> None:
        """Add a log. If two directories have a log of the partition, keep the longer one.

        A crash may interrupt `promote_future` before the replaced log is retired.

        Raises:
            OSError: the device failed.
        """
        partition = log.topic_partition
        other = self.logs.get(partition)
        if other is None:
            self.logs[partition] = log
            return
        kept, dropped = (log, other) if log.log_end_offset > other.log_end_offset else (other, log)
        logger.warning("%s replaces %s, which is of the same partition", kept.path, dropped.path)
        self.logs[partition] = kept
        dropped.on_deleted()
        self._retire(dropped, names.DELETE_DIRECTORY)

    def _retire(self, log: PartitionLog, kind: str) -> str:
        """Rename the directory of a log that is not used any more. Return the new path.

        Raises:
            OSError: the device failed.
        """
        name = names.retired_directory(log.topic_partition, kind, self.storage.random_bytes(16))
        path = log.directory.file(name)
        self.storage.file_system.rename(log.path, path)
        self._periodic_tasks.remove_directory_later(path, log.config.file_delete_delay_ms)
        return path

    def _check_directories(self) -> None:
        if not self.online_directories:
            paths = ", ".join(directory.path for directory in self.directories)
            raise LogDirectoryOffline(f"no log directory can be used: {paths}")

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, and mark the directories as shut down cleanly.

        No background work may be running.
        """
        if self.cleaner is not None:
            self.cleaner.stop()
        for partition in list(self.futures):
            try:
                self.delete_future(partition)
            except LogDirectoryOffline as error:
                logger.error("a future log is not removed: %s", error.message)
        for directory in self.online_directories:
            logs = self.logs_in(directory)
            try:
                close_all(logs, directory, self._executor)
                self._periodic_tasks.write_checkpoints(directory, logs)
                marker = directory.file(names.CLEAN_SHUTDOWN)
                replace_file(self.storage.file_system, marker, clean_shutdown_text(broker_epoch))
            except (DiskFull, LogDirectoryOffline) as error:
                logger.error("%s is not shut down cleanly: %s", directory.path, error.message)
            except OSError as error:
                refusal = directory.refuse("could not close it", error)
                logger.error("%s is not shut down cleanly: %s", directory.path, refusal.message)
        self.logs.clear()
        self.release()

    def release(self) -> None:
        """Unlock the log directories. No log may be in use."""
        for directory in self.directories:
            directory.unlock(self.storage.file_system)

    def tick(self) -> int:
        """Do the periodic work that is due. Return the milliseconds until the next call."""
        wait_ms = self._periodic_tasks.tick()
        return wait_ms if self.cleaner is None else min(wait_ms, self.cleaner.tick())

    # -- logs ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self.logs.values())

    def __len__(self) -> int:
        return len(self.logs)

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition; None if there is none."""
        return self.logs.get(partition)

    def get_or_create(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        *,
        is_new: bool = False,
        directory_id: bytes = uuids.DIRECTORY_UNASSIGNED,
    ) -> PartitionLog:
        """Return the log of a partition. Create the log if it does not exist.

        `is_new` says that the partition has just been created, so that its log cannot be in an
        offline directory. `directory_id` is the id of the directory that the log is assigned to.

        Raises:
            InconsistentTopicId: the log belongs to another topic with the same name.
            LogDamaged: the log exists, but its end cannot be determined.
            DiskFull: the disk is full, and nothing was created.
            LogDirectoryOffline: a disk failed, or the log may be on a failed disk.
        """
        if partition in self._damaged:
            raise LogDamaged(f"{partition} is damaged: {self._damaged[partition].problem}")
        log = self.logs.get(partition)
        if log is not None:
            if log.topic_id is None:
                try:
                    assign_topic_id(log, topic_id)
                except OSError as error:
                    raise log.partition_directory.refuse("write the topic id of", error) from error
            elif log.topic_id != topic_id:
                raise InconsistentTopicId(
                    f"the log of {partition} belongs to topic id {uuids.to_text(log.topic_id)}, "
                    f"not {uuids.to_text(topic_id)}"
                )
            return log
        directory = self._directory_for(is_new, directory_id)
        try:
            self._periodic_tasks.forget(directory, partition)
            if self.cleaner is not None:
                self.cleaner.forget(directory, partition)
            log = open_log(
                self.storage,
                directory,
                partition,
                self._topic_configs(partition.topic),
                topic_id=topic_id,
            )
        except OSError as error:
            raise directory.refuse(f"could not make the log of {partition}", error) from error
        self.logs[partition] = log
        directory.on_log_added()
        return log

    def _directory_for(self, is_new: bool, directory_id: bytes) -> LogDirectory:
        online = self.online_directories
        if not online or (not is_new and len(online) < len(self.directories)):
            offline = [each.path for each in self.directories if each.is_offline]
            raise LogDirectoryOffline(f"log directories are offline: {', '.join(offline)}")
        for directory in online:
            if directory.id is not None and directory.id == directory_id:
                return directory
        return min(online, key=lambda directory: (directory.is_full, directory.log_count))

    def delete(self, partition: TopicPartition, *, is_stray: bool = False) -> bool:
        """Remove a log, and delete its files after a delay. Return False if there is no such log.

        The log of a partition that is not in the cluster metadata is stray. Its directory is only
        renamed.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        log = self.logs.pop(partition, None)
        damaged = self._damaged.pop(partition, None)
        if log is not None:
            directory, old_path = log.directory, log.path
            log.on_deleted()
            directory.on_log_removed()
        elif damaged is not None:
            directory, old_path = damaged.directory, damaged.path
        else:
            return False
        kind = names.STRAY_DIRECTORY if is_stray else names.DELETE_DIRECTORY
        name = names.retired_directory(partition, kind, self.storage.random_bytes(16))
        path = directory.file(name)
        try:
            self.storage.file_system.rename(old_path, path)
        except OSError as error:
            raise directory.fail(f"could not delete {partition}", error) from error
        logger.info("%s: its directory is %s now", partition, path)
        if not is_stray:
            config = self._topic_configs(partition.topic) if log is None else log.config
            self._periodic_tasks.remove_directory_later(path, config.file_delete_delay_ms)
        return True

    # -- moves between directories ------------------------------------------------------------

    def create_future(self, partition: TopicPartition, directory: LogDirectory) -> PartitionLog:
        """Create an empty log in `directory`, which will replace the log of the partition.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        assert partition not in self.futures
        unique = self.storage.random_bytes(16)
        try:
            future = open_log(
                self.storage,
                directory,
                partition,
                self._topic_configs(partition.topic),
                topic_id=self.logs[partition].topic_id,
                name=names.retired_directory(partition, names.FUTURE_DIRECTORY, unique),
                is_new=True,
            )
        except OSError as error:
            what = f"could not make the future log of {partition}"
            raise directory.refuse(what, error) from error
        self.futures[partition] = future
        return future

    def delete_future(self, partition: TopicPartition) -> None:
        """Remove the future log of a partition, if there is one.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        future = self.futures.pop(partition, None)
        if future is None:
            return
        future.on_deleted()
        try:
            self._retire(future, names.DELETE_DIRECTORY)
        except OSError as error:
            what = f"could not delete the future log of {partition}"
            raise future.directory.fail(what, error) from error

    def promote_future(self, partition: TopicPartition) -> PartitionLog:
        """Replace the log of a partition by its future log, which has the same end.

        At each moment a complete log has the name of the partition, so a crash loses nothing.

        Raises:
            DiskFull, LogDirectoryOffline: a disk is full or failed.
        """
        current, future = self.logs[partition], self.futures.pop(partition)
        directory, end = future.directory, future.log_end_offset
        assert end == current.log_end_offset
        high_watermark, start = current.high_watermark, current.log_start_offset
        future.flush_state.finish_truncation()
        future.close()
        future.partition_directory.on_deleted()
        file_system = self.storage.file_system
        try:
            self._periodic_tasks.forget(directory, partition)
            if self.cleaner is not None:
                self.cleaner.forget(directory, partition)
            file_system.rename(future.path, directory.file(str(partition)))
            file_system.sync_directory(directory.path)
            self.delete(partition)
            log = open_log(
                self.storage,
                directory,
                partition,
                self._topic_configs(partition.topic),
                recovery_point=end,
                log_start_offset=start,
                was_clean=True,
                name=str(partition),
            )
            log.high_watermark = high_watermark
            self.logs[partition] = log
            directory.on_log_added()
            self._periodic_tasks.write_checkpoints(directory, self.logs_in(directory))
        except OSError as error:
            raise directory.fail(f"could not move {partition}", error) from error
        return log

    def update_topic_config(self, topic: str, config: TopicConfig) -> None:
        """Apply new settings of a topic to its logs."""
        for partition, log in self.logs.items():
            if partition.topic == topic:
                log.update_config(config)

    def update_all_configs(self, config: BrokerConfig) -> None:
        """Apply changed broker settings. They include the defaults of all topic settings."""
        self.storage.update_settings(
            config.producer_id_expiration_ms, config.transaction_partition_verification_enable
        )
        configs: dict[str, TopicConfig] = {}
        for (topic, _), log in self.logs.items():
            if topic not in configs:
                configs[topic] = self._topic_configs(topic)
            log.update_config(configs[topic])

    def when_flushed(self, log: PartitionLog, offset: int, flushed: Flushed) -> None:
        """Call `flushed` on this thread when all records below `offset` survive a crash.

        If the flush fails, `flushed` gets the error. One flush serves all waiting appends to logs
        of the same directory.
        """
        group = self._group_commits.get(log.directory.path)
        if group is None:
            group = GroupCommit(self.storage.background)
            self._group_commits[log.directory.path] = group
        group.wait(log, offset, flushed)

    # -- directories --------------------------------------------------------------------------

    @property
    def online_directories(self) -> list[LogDirectory]:
        """Log directories whose disk works."""
        return [directory for directory in self.directories if not directory.is_offline]

    def logs_in(self, directory: LogDirectory) -> Collection[PartitionLog]:
        """Return the logs in a log directory."""
        return [log for log in self.logs.values() if log.directory is directory]

    def _directory_failed(self, directory: LogDirectory) -> None:
        lost = list(self.logs_in(directory))
        for log in lost:
            log.go_offline()
            del self.logs[log.topic_partition]
        for partition, future in list(self.futures.items()):
            if future.directory is directory:
                future.go_offline()
                del self.futures[partition]
        directory.unlock(self.storage.file_system)
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory, lost)
