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
from collections.abc import Callable, Collection, Iterator, Sequence

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
from odradek.log.descriptors import POOL_LIMIT_DEFAULT
from odradek.log.directory import LogDirectory
from odradek.log.errors import (
    DiskFull,
    InconsistentTopicId,
    LogDamaged,
    LogDirectoryOffline,
)
from odradek.log.group_commit import Flushed, GroupCommit
from odradek.log.manager.closing import close_all
from odradek.log.manager.periodic_tasks import PeriodicTasks
from odradek.log.manager.renaming import flush_names, on_renamed, rename_all, take_over
from odradek.log.partition_log import PartitionLog
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
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        """The directories that were chosen for logs that do not exist yet (`prefer`)."""
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
        for partition, future in list(self.futures.items()):
            log = self.logs.get(partition)
            if log is not None and log.directory is future.directory:
                self.delete_future(partition)
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
                self._add_loaded(self.logs, log)
            for log in contents.futures:
                self._add_loaded(self.futures, log)
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

    def _add_loaded(self, logs: dict[TopicPartition, PartitionLog], log: PartitionLog) -> None:
        """Add a log to `logs`. If two directories have one of the partition, keep the longer one.

        A crash may interrupt `promote_future` before the replaced log is retired.

        Raises:
            OSError: the device failed.
        """
        partition = log.topic_partition
        other = logs.get(partition)
        if other is None:
            logs[partition] = log
            return
        kept, dropped = (log, other) if log.log_end_offset > other.log_end_offset else (other, log)
        logger.warning("%s replaces %s, which is of the same partition", kept.path, dropped.path)
        logs[partition] = kept
        dropped.on_deleted()
        self._retire(dropped, names.DELETE_DIRECTORY)

    def _retire(self, log: PartitionLog, kind: str) -> str:
        """Rename the directory of a log that is not used any more. Return the new path.

        Raises:
            OSError: the device failed.
        """
        path = self._rename(log, kind)
        self._periodic_tasks.remove_directory_later(path, log.config.file_delete_delay_ms)
        return path

    def _rename(self, log: PartitionLog, kind: str) -> str:
        """Rename the directory of a log that is not used any more. Return the new path."""
        path = log.directory.file(self._retired_name(log.topic_partition, kind))
        self.storage.file_system.rename(log.path, path)
        return path

    def _retired_name(self, partition: TopicPartition, kind: str) -> str:
        return names.retired_directory(partition, kind, self.storage.random_bytes(16))

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
        for directory in self.online_directories:
            logs = self.stored_in(directory)
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
        self.futures.clear()
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
        A new log is created in the preferred directory (`prefer`), if there is one, or else in the
        assigned one, or else in the directory with the fewest logs.

        A future log becomes the log if there is no other, and if it is in the assigned directory or
        no directory is offline. A crash may have interrupted `promote_future`.

        Raises:
            InconsistentTopicId: the log belongs to another topic with the same name.
            LogDamaged: the log exists, but its end cannot be determined.
            DiskFull: the disk is full, and nothing was created.
            LogDirectoryOffline: a disk failed, or the log may be on a failed disk.
        """
        if partition in self._damaged:
            raise LogDamaged(f"{partition} is damaged: {self._damaged[partition].problem}")
        log = self.logs.get(partition) or self._orphan(partition, directory_id)
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
        directory = self._directory_for(partition, is_new, directory_id)
        try:
            self._forget(directory, partition)
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
        self._preferred.pop(partition, None)
        directory.on_log_added()
        return log

    def _orphan(self, partition: TopicPartition, directory_id: bytes) -> PartitionLog | None:
        """Let a future log become the log of a partition that has none. Return the log."""
        future = self.futures.get(partition)
        if future is None:
            return None
        is_assigned = future.directory.id is not None and future.directory.id == directory_id
        if not is_assigned and len(self.online_directories) < len(self.directories):
            return None
        logger.warning("%s becomes the log of %s, which has no other", future.path, partition)
        return self.promote_future(partition)

    def _forget(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Remove checkpoints of an earlier log of the partition in this directory."""
        self._periodic_tasks.forget(directory, partition)
        if self.cleaner is not None:
            self.cleaner.forget(directory, partition)

    def _directory_for(
        self, partition: TopicPartition, is_new: bool, directory_id: bytes
    ) -> LogDirectory:
        online = self.online_directories
        if not online or (not is_new and len(online) < len(self.directories)):
            offline = [each.path for each in self.directories if each.is_offline]
            raise LogDirectoryOffline(f"log directories are offline: {', '.join(offline)}")
        preferred = self._preferred.get(partition)
        if preferred is not None and not preferred.is_offline:
            return preferred
        for directory in online:
            if directory.id is not None and directory.id == directory_id:
                return directory
        return min(online, key=lambda directory: (directory.is_full, directory.log_count))

    def delete(self, partition: TopicPartition, *, is_stray: bool = False) -> bool:
        """Remove a log, and delete its files after a delay. Return False if there is no such log.

        The log of a partition that is not in the cluster metadata is stray. Its directory is only
        renamed. The same happens to the future log of the partition.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        try:
            return self._delete(partition, is_stray)
        finally:
            self.delete_future(partition, is_stray=is_stray)

    def _delete(self, partition: TopicPartition, is_stray: bool) -> bool:
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
        path = directory.file(self._retired_name(partition, kind))
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

    def prefer(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Create the log of a partition that does not exist yet in this directory."""
        self._preferred[partition] = directory

    def create_future(self, partition: TopicPartition, directory: LogDirectory) -> PartitionLog:
        """Create an empty log in `directory`, which will replace the log of the partition.

        Raises:
            DiskFull: the disk is full.
            LogDirectoryOffline: a disk failed. While a log directory is offline, it may have
                another future log of the partition.
        """
        assert partition not in self.futures
        if len(self.online_directories) < len(self.directories):
            raise LogDirectoryOffline(f"{partition} cannot move while a log directory is offline")
        unique = self.storage.random_bytes(16)
        try:
            self._forget(directory, partition)
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

    def delete_future(self, partition: TopicPartition, *, is_stray: bool = False) -> None:
        """Remove the future log of a partition, if there is one. `is_stray`: see `delete`.

        Raises:
            LogDirectoryOffline: the disk failed.
        """
        future = self.futures.pop(partition, None)
        if future is None:
            return
        future.on_deleted()
        try:
            if is_stray:
                self._rename(future, names.STRAY_DIRECTORY)
            else:
                self._retire(future, names.DELETE_DIRECTORY)
        except OSError as error:
            what = f"could not delete the future log of {partition}"
            raise future.directory.fail(what, error) from error

    def promote_future(
        self, partition: TopicPartition, *, is_assigned: bool = True
    ) -> PartitionLog:
        """Let the future log of a partition replace its log, or become its log if there is none.

        Both logs have the same end, and no flush of the future log runs. All records that survive
        a power loss in the log survive it in the future log, too.

        The replaced log is renamed first. So there are never two logs of a partition, with which
        Apache Kafka does not start. After a crash between the two renames, the future log becomes
        the log (`get_or_create`), because the controller has assigned the partition to its
        directory (`is_assigned`). Otherwise the future log is renamed first. After a crash there
        are then two logs with the same content, and `load` removes one.

        Raises:
            DiskFull, LogDirectoryOffline: a disk is full or failed. The log is not replaced.
        """
        current, future = self.logs.get(partition), self.futures[partition]
        directory = future.directory
        path = directory.file(str(partition))
        renames = [(future, path)]
        retired: list[tuple[PartitionLog, str]] = []
        if current is not None:
            take_over(future, current)
            name = self._retired_name(partition, names.DELETE_DIRECTORY)
            retired = [(current, current.directory.file(name))]
            renames = [*retired, *renames] if is_assigned else [*renames, *retired]
        rename_all(self.storage.file_system, renames)
        left_files = future.flush_state.generation > 0
        on_renamed(future, path, current)
        del self.futures[partition]
        self.logs[partition] = future
        directory.on_log_added()
        for old, _ in retired:
            old.on_deleted()
            old.directory.on_log_removed()

        def flushed() -> None:
            for _, path in retired:
                self._periodic_tasks.remove_directory_later(
                    path, future.config.file_delete_delay_ms
                )

        flush_names(self.storage, [directory, *(old.directory for old, _ in retired)], flushed)
        self._periodic_tasks.checkpoint_soon(directory)
        if left_files:
            self._remove_deleted_files(future)
        return future

    def _remove_deleted_files(self, log: PartitionLog) -> None:
        """Remove files of truncated segments, which were to be removed under an old path."""
        try:
            found = self.storage.file_system.scan(log.path)
        except OSError as error:
            log.partition_directory.refuse("list the files of", error)
            return
        deleted = [each.name for each in found if each.name.endswith(names.DELETED)]
        paths = [log.partition_directory.file(name) for name in deleted]
        self._periodic_tasks.remove_later(paths, log.config.file_delete_delay_ms)

    def update_topic_config(self, topic: str, config: TopicConfig) -> None:
        """Apply new settings of a topic to its logs."""
        for log in (*self.logs.values(), *self.futures.values()):
            if log.topic_partition.topic == topic:
                log.update_config(config)

    def update_all_configs(self, config: BrokerConfig) -> None:
        """Apply changed broker settings. They include the defaults of all topic settings."""
        self.storage.update_settings(
            config.producer_id_expiration_ms, config.transaction_partition_verification_enable
        )
        configs: dict[str, TopicConfig] = {}
        for log in (*self.logs.values(), *self.futures.values()):
            topic = log.topic_partition.topic
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
            group = GroupCommit(self.storage.background, self._wait_elsewhere)
            self._group_commits[log.directory.path] = group
        group.wait(log, offset, flushed)

    def _wait_elsewhere(self, deleted: PartitionLog, flushed: Sequence[Flushed]) -> None:
        """Wait for a flush of the log that has replaced a deleted log, if there is one."""
        log = self.logs.get(deleted.topic_partition)
        for each in flushed:
            if log is None:
                each(None)
            else:
                self.when_flushed(log, log.log_end_offset, each)

    # -- directories --------------------------------------------------------------------------

    @property
    def online_directories(self) -> list[LogDirectory]:
        """Log directories whose disk works."""
        return [directory for directory in self.directories if not directory.is_offline]

    def logs_in(self, directory: LogDirectory) -> Collection[PartitionLog]:
        """Return the logs in a log directory."""
        return [log for log in self.logs.values() if log.directory is directory]

    def stored_in(self, directory: LogDirectory) -> Collection[PartitionLog]:
        """Return the logs and the future logs in a log directory."""
        futures = [log for log in self.futures.values() if log.directory is directory]
        return [*self.logs_in(directory), *futures]

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Remove the logs of a directory. Their future logs stay on the disks for the next start."""
        lost = list(self.logs_in(directory))
        for log in lost:
            log.go_offline()
            del self.logs[log.topic_partition]
        lost_partitions = {log.topic_partition for log in lost}
        for partition, future in list(self.futures.items()):
            if future.directory is directory or partition in lost_partitions:
                future.go_offline()
                del self.futures[partition]
        for partition, preferred in list(self._preferred.items()):
            if preferred is directory:
                del self._preferred[partition]
        directory.unlock(self.storage.file_system)
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory, lost)
