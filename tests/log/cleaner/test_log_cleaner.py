"""When each log is cleaned, and work items that become invalid."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time

import pytest
from tests.log.cleaner.support import COMPACTED, InlineChild
from tests.log.support import TOPIC_ID, LogWorkspace, batch, read_records, topic_config

from odradek.env.file_system import OsFileSystem
from odradek.env.process import PipedProcess
from odradek.log import LogManager, PartitionLog
from odradek.log.checkpoints import read_offsets
from odradek.log.cleaner.child import WORKER, ProcessChild
from odradek.model.topic_partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Node:
    """A manager whose workers are objects of the test."""

    def __init__(self, path, file_system=None, overrides=None, **settings) -> None:
        self.workspace = LogWorkspace(path, file_system)
        self.children: list[InlineChild] = []
        self.settings = {**COMPACTED, **settings}
        self.overrides = overrides or {}
        self.manager = self.start()

    def start(self) -> LogManager:
        def start_child() -> InlineChild:
            self.children.append(InlineChild(self.workspace.file_system))
            return self.children[-1]

        manager = self.workspace.manager(
            overrides=self.overrides,
            topic_configs=lambda _: topic_config(**self.settings),
            start_cleaner=start_child,
        )
        manager.start()
        return manager

    def log(self, partition: TopicPartition = A, rounds: int = 2) -> PartitionLog:
        log = self.manager.get_or_create(partition, TOPIC_ID, is_new=True)
        self.fill(log, rounds)
        return log

    def fill(self, log: PartitionLog, rounds: int = 2) -> None:
        for number in range(rounds):
            records = [(b"key-%d" % key, b"%d" % number) for key in range(5)]
            log.append_as_leader(batch(*records), 0)
        log.high_watermark = log.log_end_offset
        log.roll()

    def tick(self, times: int = 6) -> None:
        for _ in range(times):
            self.workspace.clock.ms += 50
            self.manager.tick()

    def wait(self) -> None:
        """Wait for the next check of the cleaner."""
        self.workspace.clock.ms += 15_000
        self.tick()

    def checkpoint(self) -> dict[TopicPartition, int]:
        path = f"{self.workspace.path}/cleaner-offset-checkpoint"
        return read_offsets(self.workspace.file_system, path)


def test_a_due_log_is_cleaned_and_that_is_remembered(tmp_path):
    node = Node(tmp_path)
    log = node.log()
    node.tick()
    assert len(read_records(log)) == 5
    assert node.checkpoint() == {A: 10}

    node.manager.shutdown()
    node.manager = node.start()
    log = node.manager.get(A)
    assert log.cleaning.first_dirty_offset == 10
    node.wait()
    assert not node.children[1:], "nothing is dirty: no worker is started"
    node.manager.shutdown()


def test_nothing_runs_while_nothing_is_due(tmp_path):
    node = Node(tmp_path, **{"min.cleanable.dirty.ratio": 1.0})
    node.log()
    node.wait()
    assert node.children == []
    node.manager.shutdown()


def test_without_compaction_nothing_is_cleaned(tmp_path):
    node = Node(tmp_path, **{"cleanup.policy": "delete"})
    node.log()
    node.wait()
    assert node.children == []
    node.manager.shutdown()


def test_the_dirtiest_log_comes_first(tmp_path):
    node = Node(tmp_path)
    first, second = node.log(A), node.log(B)
    node.tick()
    node.fill(first, 1)
    node.fill(second, 4)
    node.wait()
    items = [line["clean"]["directory"] for line in node.children[0].lines if "clean" in line]
    assert [os.path.basename(path) for path in items[2:]] == ["b-0", "a-0"]
    node.manager.shutdown()


def test_a_poisonous_log_is_left_alone_and_the_others_go_on(tmp_path):
    node = Node(tmp_path)
    poisonous, other = node.log(A), node.log(B)
    with open(poisonous.segments[0].path(".log"), "r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff")
    node.wait()
    assert node.manager.cleaner.uncleanable == {str(tmp_path): 1}
    assert node.checkpoint() == {B: 10}
    assert len(read_records(other)) == 5
    lines = len(node.children[0].lines)
    node.wait()
    assert len(node.children[0].lines) == lines, "it is not tried again"
    node.manager.delete(A)
    node.wait()
    assert node.manager.cleaner.uncleanable == {str(tmp_path): 0}
    node.manager.shutdown()


class PausedChild(InlineChild):
    """A worker that waits for the test."""

    def __init__(self, file_system) -> None:
        super().__init__(file_system)
        self.ready = []

    def receive(self):
        ready, self.ready = self.ready, []
        return ready


def _paused(tmp_path) -> tuple[Node, PartitionLog, PausedChild]:
    node = Node(tmp_path)
    child = PausedChild(node.workspace.file_system)
    node.manager.cleaner._start_child = lambda: child
    log = node.log()
    node.tick()
    assert log.cleaning.is_under_way
    return node, log, child


def test_retention_waits_for_the_cleaner(tmp_path):
    node, log, child = _paused(tmp_path)
    log.delete_records_before(10)
    assert log.delete_old_segments() == 0
    child.ready = child.work(child.items[0])
    node.tick()
    assert not log.cleaning.is_under_way
    assert log.delete_old_segments() == 1
    node.manager.shutdown()


def test_a_truncated_log_is_not_replaced(tmp_path):
    node, log, child = _paused(tmp_path)
    messages = child.work(child.items[0])
    log.truncate_to(7)
    before = read_records(log)
    node.tick()
    assert {"stop": 1} in child.lines
    child.ready = messages
    node.tick(2)
    assert read_records(log) == before
    assert not [name for name in node.workspace.files(A) if "cleaned" in name]
    assert log.cleaning.first_dirty_offset <= 7
    node.manager.shutdown()


def test_a_deleted_log_is_not_replaced(tmp_path):
    node, _, child = _paused(tmp_path)
    messages = child.work(child.items[0])
    node.manager.delete(A)
    child.ready = messages
    node.tick()
    assert not node.checkpoint() if os.path.exists(tmp_path / "cleaner-offset-checkpoint") else True
    assert node.manager.cleaner.uncleanable == {str(tmp_path): 0}
    node.manager.shutdown()


def test_a_log_that_is_not_compacted_any_more_is_not_replaced(tmp_path):
    node, log, child = _paused(tmp_path)
    messages = child.work(child.items[0])
    node.settings["cleanup.policy"] = "delete"
    node.manager.update_topic_config("a", topic_config(**node.settings))
    child.ready = messages
    node.tick()
    assert len(read_records(log)) == 10
    assert not log.cleaning.is_under_way
    node.manager.shutdown()


def test_a_log_over_which_workers_die_is_left_alone(tmp_path):
    node, log, child = _paused(tmp_path)
    child.is_alive = False
    children = []

    def start() -> PausedChild:
        children.append(PausedChild(node.workspace.file_system))
        return children[-1]

    node.manager.cleaner._start_child = start
    node.wait()
    assert len(children) == 1, "it is tried once more"
    assert log.cleaning.is_under_way
    children[0].is_alive = False
    node.wait()
    assert len(children) == 1
    assert not log.cleaning.is_under_way
    assert node.manager.cleaner.uncleanable == {str(tmp_path): 1}
    assert node.manager.cleaner.statistics.deaths == 2
    node.manager.shutdown()


def test_a_failing_disk_takes_the_directory_offline(tmp_path):
    class Full(OsFileSystem):
        is_full = False

        def fsync(self, descriptor: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "no space left on device")
            os.fsync(descriptor)

    file_system = Full()
    node = Node(tmp_path, file_system)
    log = node.log()
    file_system.is_full = True
    node.tick()
    assert log.directory.is_offline
    file_system.is_full = False
    node.manager.shutdown()


def test_the_rate_is_shared_by_busy_workers(tmp_path):
    node = Node(
        tmp_path,
        overrides={
            "log.cleaner.threads": "2",
            "log.cleaner.io.max.bytes.per.second": "1000",
        },
    )
    children = []

    def start() -> PausedChild:
        children.append(PausedChild(node.workspace.file_system))
        return children[-1]

    node.manager.cleaner._start_child = start
    node.log(A)
    node.log(B)
    node.tick()
    assert [child.lines[-1] for child in children] == [{"rate": 500.0}, {"rate": 500.0}]
    children[0].ready = children[0].work(children[0].items[0])
    node.tick()
    assert children[1].lines[-1] == {"rate": 1000.0}
    node.manager.shutdown()


# -- processes --------------------------------------------------------------------------------


class LiveNode(Node):
    """A manager whose workers are processes."""

    def start(self) -> LogManager:
        self.processes: list[PipedProcess] = []

        def start_child() -> ProcessChild:
            self.processes.append(PipedProcess(WORKER))
            return ProcessChild(self.processes[-1])

        manager = self.workspace.manager(
            overrides=self.overrides,
            topic_configs=lambda _: topic_config(**self.settings),
            start_cleaner=start_child,
        )
        manager.start()
        return manager

    def until(self, holds, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, "it took too long"
            self.tick(1)
            time.sleep(0.005)


def test_a_process_cleans_and_ends_when_idle(tmp_path):
    node = LiveNode(tmp_path)
    log = node.log()
    node.until(lambda: log.cleaning.first_dirty_offset == 10)
    assert len(read_records(log)) == 5
    [process] = node.processes
    assert process.is_alive
    node.workspace.clock.ms += 31_000
    node.tick(2)
    assert not process.is_alive
    node.manager.shutdown()


def test_a_killed_process_is_replaced(tmp_path):
    node = LiveNode(tmp_path, overrides={"log.cleaner.io.max.bytes.per.second": "200"})
    log = node.log()
    node.tick(2)
    os.kill(node.processes[0].pid, signal.SIGKILL)
    node.until(lambda: len(node.processes) == 2)
    node.manager.config = node.workspace.manager(overrides={}).config
    node.until(lambda: log.cleaning.first_dirty_offset == 10)
    assert len(read_records(log)) == 5
    node.manager.shutdown()


def test_the_process_is_in_the_session_of_the_node_but_not_in_its_group():
    child = PipedProcess(WORKER)
    try:
        assert os.getsid(child.pid) == os.getsid(0)
        assert os.getpgid(child.pid) == child.pid
    finally:
        child.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the policy")
def test_the_process_runs_with_the_lowest_priority():
    child = PipedProcess(WORKER)
    try:
        deadline = time.monotonic() + 30
        while os.sched_getscheduler(child.pid) != os.SCHED_IDLE:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    finally:
        child.kill()


def test_the_end_of_the_node_is_the_end_of_its_process(tmp_path):
    child = PipedProcess(WORKER)
    child._input.close()
    deadline = time.monotonic() + 30
    while child._process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child._output.close()
    child._has_ended = True
