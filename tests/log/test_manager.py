"""All logs of a node: start, stop, several directories, failing disks, periodic maintenance."""

from __future__ import annotations

import errno

import pytest
from tests.log.support import (
    NOW_MS,
    TOPIC_ID,
    LaterExecutor,
    LogWorkspace,
    append,
    topic_config,
    values,
)

from odradek.env.file_system import OsFileSystem, read_file, replace_file
from odradek.log import DirectoryInUse, FlushWork, InconsistentTopicId, LogDirectoryOffline
from odradek.log.checkpoints import read_offsets
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition
from odradek.sim.lossy_file_system import LossyFileSystem

OTHER_ID = bytes(range(16, 32))


def partition(number, topic="topic"):
    return TopicPartition(topic, number)


def started(workspace, paths=None, **arguments):
    manager = workspace.manager(paths, **arguments)
    manager.start()
    return manager


def test_logs_are_made_found_and_deleted(workspace):
    manager = started(workspace)
    assert manager.get(partition(0)) is None
    log = manager.get_or_create(partition(0), TOPIC_ID, is_new=True)
    assert manager.get_or_create(partition(0), TOPIC_ID) is log
    assert manager.get(partition(0)) is log
    assert (log.topic_id, len(manager), list(manager)) == (TOPIC_ID, 1, [log])
    append(log, b"value")
    assert manager.delete(partition(0))
    assert not manager.delete(partition(0))
    assert manager.get(partition(0)) is None
    with pytest.raises(LogDirectoryOffline):
        append(log, b"too late")


def test_a_deleted_directory_is_renamed_then_removed(workspace):
    manager = started(workspace)
    log = manager.get_or_create(partition(0), TOPIC_ID)
    append(log, b"value")
    manager.delete(partition(0))
    (name,) = [
        entry.name for entry in workspace.file_system.scan(workspace.path) if entry.is_directory
    ]
    assert name.startswith("topic-0.")
    assert name.endswith("-delete")
    again = manager.get_or_create(partition(0), OTHER_ID)
    assert again.log_end_offset == 0
    workspace.clock.ms += 59_999
    manager.tick()
    assert workspace.file_system.status(f"{workspace.path}/{name}")
    workspace.clock.ms += 1
    manager.tick()
    assert workspace.file_system.status(f"{workspace.path}/{name}") is None
    assert manager.get(partition(0)) is again


def test_deletion_goes_on_after_a_restart(workspace):
    manager = started(workspace)
    manager.get_or_create(partition(0), TOPIC_ID)
    manager.delete(partition(0))
    manager.shutdown()
    manager = started(workspace)
    assert len(manager) == 0
    manager.tick()
    assert not [entry for entry in workspace.file_system.scan(workspace.path) if entry.is_directory]


def test_a_stray_log_is_kept_aside(workspace):
    manager = started(workspace)
    manager.get_or_create(partition(0), TOPIC_ID)
    manager.delete(partition(0), is_stray=True)
    workspace.clock.ms += 10**9
    manager.tick()
    manager.shutdown()
    manager = started(workspace)
    (name,) = [
        entry.name for entry in workspace.file_system.scan(workspace.path) if entry.is_directory
    ]
    assert name.endswith("-stray")
    assert len(manager) == 0


def test_the_log_of_another_topic_of_the_same_name(workspace):
    manager = started(workspace)
    manager.get_or_create(partition(0), TOPIC_ID)
    with pytest.raises(InconsistentTopicId):
        manager.get_or_create(partition(0), OTHER_ID)
    manager.shutdown()
    with pytest.raises(InconsistentTopicId):
        started(workspace).get_or_create(partition(0), OTHER_ID)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_restart(workspace, was_clean):
    manager = started(workspace)
    for number in range(5):
        log = manager.get_or_create(partition(number), TOPIC_ID)
        for value in range(number):
            append(log, b"%d" % value)
    if was_clean:
        manager.shutdown(broker_epoch=7)
    else:
        manager.storage.file_system.close(manager.directories[0].lock)
    again = started(workspace)
    assert again.broker_epoch == (7 if was_clean else -1)
    assert len(again) == 5
    for number in range(5):
        log = again.get(partition(number))
        assert log.topic_id == TOPIC_ID
        assert log.log_end_offset == number
        assert log.high_watermark == (number if was_clean else 0)
        assert log.recovery_point == (number if was_clean else 0)
        log.high_watermark = number
        assert values(log) == [b"%d" % value for value in range(number)]


def test_files_of_a_clean_shutdown(workspace):
    manager = started(workspace)
    log = manager.get_or_create(partition(3), TOPIC_ID)
    for number in range(10):
        append(log, b"%d" % number)
    log.delete_records_before(4)
    manager.shutdown(broker_epoch=12)
    files = workspace.file_system
    read = read_offsets
    assert read(files, f"{workspace.path}/recovery-point-offset-checkpoint") == {partition(3): 10}
    assert read(files, f"{workspace.path}/log-start-offset-checkpoint") == {partition(3): 4}
    assert read(files, f"{workspace.path}/replication-offset-checkpoint") == {partition(3): 10}
    marker = f"{workspace.path}/.kafka_cleanshutdown"
    assert read_file(files, marker) == b'{"version":0,"brokerEpoch":12}'
    manager = started(workspace)
    assert files.status(marker) is None
    assert manager.get(partition(3)).log_start_offset == 4


def test_one_process_at_a_time(workspace, tmp_path):
    class Locked(OsFileSystem):
        def lock(self, descriptor):
            return False

    other = LogWorkspace(tmp_path, Locked())
    with pytest.raises(DirectoryInUse, match="another process"):
        started(other)


def test_what_is_no_partition_is_left_alone(workspace):
    for name in ("lost+found", "notes", "__cluster_metadata-0"):
        workspace.file_system.make_directory(f"{workspace.path}/{name}")
    manager = started(workspace)
    assert len(manager) == 0
    manager.shutdown()
    assert (
        len([entry for entry in workspace.file_system.scan(workspace.path) if entry.is_directory])
        == 3
    )


def test_the_directory_id_is_read(workspace):
    properties = f"#\nversion=1\ndirectory.id={uuids.to_text(OTHER_ID)}\n"
    replace_file(workspace.file_system, f"{workspace.path}/meta.properties", properties.encode())
    assert started(workspace).directories[0].id == OTHER_ID


# -- settings ---------------------------------------------------------------------------------


def test_settings_of_topics(workspace):
    configs = {"a": topic_config(retention_ms=1), "b": topic_config(retention_ms=2)}
    manager = started(workspace, topic_configs=lambda topic: configs[topic])
    first = manager.get_or_create(partition(0, "a"), TOPIC_ID)
    second = manager.get_or_create(partition(0, "b"), OTHER_ID)
    assert (first.config.retention_ms, second.config.retention_ms) == (1, 2)
    manager.update_topic_config("a", topic_config(retention_ms=3))
    assert (first.config.retention_ms, second.config.retention_ms) == (3, 2)
    configs["b"] = topic_config(retention_ms=4)
    manager.update_all_configs(manager.config)
    assert (first.config.retention_ms, second.config.retention_ms) == (1, 4)


# -- several directories ----------------------------------------------------------------------


def two(workspace):
    return [f"{workspace.path}/first", f"{workspace.path}/second"]


def test_new_logs_go_to_the_directory_with_the_fewest(workspace):
    manager = started(workspace, two(workspace))
    for number in range(6):
        manager.get_or_create(partition(number), TOPIC_ID, is_new=True)
    assert [len(manager.logs_in(directory)) for directory in manager.directories] == [3, 3]
    manager.shutdown()
    manager = started(workspace, two(workspace))
    assert [len(manager.logs_in(directory)) for directory in manager.directories] == [3, 3]


def test_new_logs_go_where_they_are_assigned(workspace):
    manager = started(workspace, two(workspace))
    manager.directories[1].id = OTHER_ID
    for number in range(3):
        log = manager.get_or_create(partition(number), TOPIC_ID, directory_id=OTHER_ID)
        assert log.directory is manager.directories[1]


def test_a_failing_disk_takes_its_directory_offline(tmp_path):
    workspace = LogWorkspace("/logs", LossyFileSystem())
    failures = []
    manager = started(
        workspace,
        two(workspace),
        on_directory_failure=lambda directory, logs: failures.append((directory, len(logs))),
    )
    logs = [manager.get_or_create(partition(number), TOPIC_ID) for number in range(4)]
    for log in logs:
        append(log, b"before")
    workspace.file_system.fail = lambda operation, path: (
        OSError(errno.EIO, "I/O error") if operation == "pwrite" and "/first/" in path else None
    )
    broken = [log for log in logs if log.directory.path.endswith("first")]
    sound = [log for log in logs if log not in broken]
    with pytest.raises(LogDirectoryOffline):
        append(broken[0], b"lost")
    assert failures == [(broken[0].directory, 2)]
    for log in broken:
        for attempt in (
            lambda log=log: append(log, b"x"),
            lambda log=log: log.read(0, 100, 1),
            lambda log=log: log.delete_old_segments(),
            lambda log=log: log.truncate_to(0),
            lambda log=log: log.offset_for_timestamp(-1),
        ):
            with pytest.raises(LogDirectoryOffline):
                attempt()
        assert manager.get(log.topic_partition) is None
        with pytest.raises(LogDirectoryOffline):
            manager.get_or_create(log.topic_partition, TOPIC_ID)
    for log in sound:
        append(log, b"after")
        assert values(log) == [b"before", b"after"]
    assert (
        manager.get_or_create(partition(9), TOPIC_ID, is_new=True).directory is sound[0].directory
    )
    manager.shutdown()
    workspace.file_system.fail = lambda operation, path: None
    manager = started(workspace, two(workspace))
    assert len(manager) == 5
    for log in broken:
        found = manager.get(log.topic_partition)
        found.high_watermark = 1
        assert values(found) == [b"before"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
@pytest.mark.parametrize("operation", ["pwrite", "fsync", "create", "rename", "open", "pread"])
def test_every_failing_call_ends_in_an_offline_directory(code, operation):
    workspace = LogWorkspace("/logs", LossyFileSystem())
    manager = started(
        workspace, two(workspace), topic_configs=lambda _: topic_config(segment_bytes=300)
    )
    logs = [manager.get_or_create(partition(number), TOPIC_ID) for number in range(2)]
    for log in logs:
        for number in range(20):
            append(log, b"%d" % number)
    workspace.file_system.fail = lambda what, path: (
        OSError(code, "broken") if what == operation and path.startswith("/logs/first") else None
    )
    broken = next(log for log in logs if log.directory.path.endswith("first"))
    for log in logs:
        try:
            for number in range(20):
                append(log, b"%d" % number)
            log.active_segment.forget_positions()
            for segment in log.segments:
                segment.close_file()
            log.read(3, 100, 20)
            log.flush()
            log.delete_records_before(15)
            log.delete_old_segments()
        except LogDirectoryOffline:
            assert log is broken
    assert manager.online_directories == [manager.directories[1]]
    assert manager.get(broken.topic_partition) is None


def test_a_directory_that_cannot_be_opened_at_the_start():
    workspace = LogWorkspace("/logs", LossyFileSystem())
    started(workspace, two(workspace)).shutdown()
    workspace.file_system.fail = lambda operation, path: (
        OSError(errno.EIO, "I/O error") if path.startswith("/logs/first") else None
    )
    manager = started(workspace, two(workspace))
    assert [directory.is_offline for directory in manager.directories] == [True, False]
    manager.get_or_create(partition(0), TOPIC_ID, is_new=True)
    with pytest.raises(LogDirectoryOffline, match="/logs/first"):
        manager.get_or_create(partition(1), TOPIC_ID)
    workspace.file_system.fail = lambda operation, path: OSError(errno.EIO, "I/O error")
    with pytest.raises(LogDirectoryOffline, match="no log directory"):
        started(workspace, two(workspace))


# -- periodic tasks -----------------------------------------------------------------------------


def test_retention_happens_by_itself(workspace):
    config = topic_config(retention_ms=1000, segment_bytes=200)
    manager = started(workspace, topic_configs=lambda _: config)
    logs = [manager.get_or_create(partition(number), TOPIC_ID) for number in range(250)]
    for log in logs[::50]:
        for number in range(10):
            append(log, b"%d" % number, timestamp=NOW_MS - 2000)
    workspace.clock.ms += 30_000
    steps = 1
    while manager.tick() < 100:
        steps += 1
    assert steps > 2  # not all at once
    assert {log.log_start_offset for log in logs[::50]} == {10}


def test_checkpoints_are_written_by_themselves(workspace):
    manager = started(workspace)
    log = manager.get_or_create(partition(0), TOPIC_ID)
    for _ in range(5):
        append(log)
    log.roll()
    log.delete_records_before(2)
    log.flush()
    workspace.clock.ms += 30_000
    while manager.tick() < 100:
        pass
    for name, offset in (
        ("recovery-point-offset-checkpoint", 5),
        ("log-start-offset-checkpoint", 2),
        ("replication-offset-checkpoint", 5),
    ):
        assert read_offsets(workspace.file_system, f"{workspace.path}/{name}") == {
            partition(0): offset
        }


def test_flush_by_time_and_by_number(workspace):
    config = topic_config(flush_ms=1000, flush_messages=10)
    manager = started(workspace, topic_configs=lambda _: config)
    log = manager.get_or_create(partition(0), TOPIC_ID)
    for _ in range(9):
        append(log)
    assert log.recovery_point == 0
    append(log)
    assert log.recovery_point == 10
    append(log)
    workspace.clock.ms += 30_000
    manager.tick()
    assert log.recovery_point == 11


def test_group_commit(workspace):
    works = []
    manager = started(
        workspace, executor=LaterExecutor(lambda work, done: works.append((work, done)))
    )
    logs = [manager.get_or_create(partition(number), TOPIC_ID) for number in range(3)]
    flushed = []
    for number, log in enumerate(logs):
        append(log)
        manager.when_flushed(log, 1, lambda error, number=number: flushed.append((number, error)))
    assert (len(works), flushed) == (1, [])
    work, done = works.pop()
    work()
    done(None)
    assert flushed == [(0, None)]
    work, done = works.pop()  # the other two together
    work()
    done(None)
    assert flushed == [(0, None), (1, None), (2, None)]
    assert [log.recovery_point for log in logs] == [1, 1, 1]
    manager.when_flushed(logs[0], 1, lambda error: flushed.append("at once"))
    assert flushed[-1] == "at once"
    append(logs[0])
    manager.when_flushed(logs[0], 2, flushed.append)
    _, done = works.pop()
    done(OSError(errno.EIO, "I/O error"))
    assert isinstance(flushed[-1], LogDirectoryOffline)
    assert manager.online_directories == []


def test_appends_to_a_deleted_log_and_to_the_new_one_of_its_name_are_flushed_together(workspace):
    works = []
    manager = started(
        workspace, executor=LaterExecutor(lambda work, done: works.append((work, done)))
    )
    flushed = []

    def wait(log, name):
        append(log)
        manager.when_flushed(log, log.log_end_offset, lambda error: flushed.append((name, error)))

    wait(manager.get_or_create(partition(1), TOPIC_ID), "other")
    wait(manager.get_or_create(partition(0), TOPIC_ID), "deleted")
    manager.delete(partition(0))
    wait(manager.get_or_create(partition(0), OTHER_ID), "new")
    while works:  # the flush of the other log, and the one flush of both
        work, done = works.pop(0)
        work()
        done(None)
    assert sorted(flushed) == [("deleted", None), ("new", None), ("other", None)]


@pytest.mark.parametrize("error", [ValueError("a defect"), MemoryError()])
def test_a_flush_that_ends_in_a_defect_is_reported_as_failed(workspace, monkeypatch, caplog, error):
    manager = started(workspace)
    log = manager.get_or_create(partition(0), TOPIC_ID)
    append(log)

    def fail(work: FlushWork) -> None:
        raise error

    monkeypatch.setattr(FlushWork, "run", fail)
    flushed = []
    manager.when_flushed(log, 1, flushed.append)
    assert [type(each) for each in flushed] == [LogDirectoryOffline]
    assert log.recovery_point == 0
    assert caplog.records[-1].exc_info[1] is error


def test_a_new_log_has_nothing_of_the_one_of_its_name_that_was_deleted():
    workspace = LogWorkspace("/logs", LossyFileSystem())
    manager = started(workspace)
    log = manager.get_or_create(partition(0), TOPIC_ID)
    for _ in range(5):
        append(log, b"old")
    log.delete_records_before(3)
    log.flush()
    workspace.clock.ms += 60_000
    manager.tick()
    assert (
        "topic 0 3"
        in read_file(workspace.file_system, "/logs/log-start-offset-checkpoint").decode()
    )
    manager.delete(partition(0))
    log = manager.get_or_create(partition(0), OTHER_ID)
    append(log, b"new")
    manager = started(workspace)  # after a crash
    log = manager.get(partition(0))
    log.high_watermark = log.log_end_offset
    assert values(log) == [b"new"]
    assert (log.log_start_offset, log.topic_id) == (0, OTHER_ID)
