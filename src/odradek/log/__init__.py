"""Partition logs, in the files and formats of Apache Kafka 4.3.

The public interface:

`LogManager(config, file_system, clock, random_bytes, *, topic_configs, executor=...,
on_directory_failure=...)`: all logs of a node.
    open() · load() · start(): open and load · shutdown(broker_epoch)
    tick() -> milliseconds until the next call
    get(partition) · get_or_create(partition, topic_id, is_new=, directory_id=) · delete(partition)
    iteration over all logs · logs_in(directory) · directories · online_directories
    update_topic_config(topic, config) · update_all_configs(config)
    when_flushed(log, offset, callback): one flush for all appends that wait

`PartitionLog`: the log of one partition.
    topic_partition, topic_id, config, directory
    log_start_offset, log_end_offset, last_stable_offset, high_watermark (settable), leader_epoch
    append_as_leader(records, leader_epoch, origin, *, verification_guard, transaction_version)
        -> AppendInfo(base_offset, last_offset, log_start_offset, log_append_time_ms, is_duplicate)
    appender.append_marker(batch, marker, leader_epoch, transaction_version): append an end marker
    appender.append_own_records(timestamp, records, leader_epoch): append a coordinator's records
    append_as_follower(records, leader_epoch) -> AppendInfo | None
    read(offset, max_bytes, limit, whole_first, with_aborted, files)
        -> FetchData(records: FileRange, aborted_transactions) | None
    aborted_transactions(offset, upper)
    offset_for_timestamp(timestamp, files)
        -> TimestampOffset(timestamp, offset, leader_epoch) | None
    on_leader_epoch(epoch) · end_offset_for_epoch(epoch) -> (epoch, end offset)
    delete_records_before(offset) -> log start offset · delete_old_segments()
    truncate_to(offset, truncated) · truncate_fully_and_start_at(offset): flushed in the background
    start_verification(...) -> guard · active_producers()
    roll() · flush() · flush_work() -> FlushWork(run in a thread, then complete) | None · close()
    size, segments

`open_log(storage, directory, partition, config, ...)`: opens a log without a manager. The metadata
log is opened in this way; its appends have the origin `AppendOrigin.RAFT_LEADER`.

Errors are `ApiError`s, which a handler copies into the response: `RecordsRefused` (with
`record_errors`), `OffsetOutOfRange`, `DiskFull` and `LogDirectoryOffline` (KAFKA_STORAGE_ERROR),
`LogDamaged` (CORRUPT_MESSAGE), `InconsistentTopicId`.

Call all methods on the event loop's thread. There are three exceptions: `FlushWork.run`;
`LogManager.load` and `start` while nothing else uses the manager; and work submitted to the
executor.

A log consists of parts, which `partition_log` lists. No other code writes the fields of a part. The
modules describe how the parts work: `log_end` (appends, rolls, truncations), `log_appender`,
`given_appender`, `reading`, `segment`, `index`, `producer_state`, `flush_state`, `loader` and
`recovery`, `retention`, `manager/periodic_tasks`.
"""

from odradek.log.directory import LogDirectory
from odradek.log.errors import (
    DamagedFile,
    DirectoryInUse,
    DiskFull,
    InconsistentTopicId,
    LogDamaged,
    LogDirectoryOffline,
    OffsetOutOfRange,
    RecordsRefused,
)
from odradek.log.flush_state import FlushWork
from odradek.log.manager.log_manager import LogManager
from odradek.log.origin import AppendOrigin
from odradek.log.partition_log import PartitionLog
from odradek.log.results import AppendInfo, FetchData, ProducerDescription, TimestampOffset
from odradek.log.startup import open_log
from odradek.log.storage import Storage

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "DamagedFile",
    "DirectoryInUse",
    "DiskFull",
    "FetchData",
    "FlushWork",
    "InconsistentTopicId",
    "LogDamaged",
    "LogDirectory",
    "LogDirectoryOffline",
    "LogManager",
    "OffsetOutOfRange",
    "PartitionLog",
    "ProducerDescription",
    "RecordsRefused",
    "Storage",
    "TimestampOffset",
    "open_log",
]
