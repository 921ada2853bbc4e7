"""A node is killed, or loses power, at each disk write of a move between log directories.

`test_random_histories`: a seed determines what happens to a partition that moves to and fro:
appends, flushes, rolls, deletions, truncations, periodic tasks, chunks that are copied, swaps, clean
restarts, and when background work runs. The node is killed or loses power at a random disk write.
Then there is exactly one log of the partition. After a kill it has all records, and after a power
loss all records below the last recovery point. The move can be continued.

`test_each_step_of_the_swap`: the same for each disk write of one swap, with the state that is on
the disk: Apache Kafka does not start if two directories have a log of one partition.

`ODRADEK_MOVE_CRASHES` sets the number of seeds.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tests.log.support import NOW_MS, TOPIC_ID, LaterExecutor, LogWorkspace, topic_config
from tests.log.test_power_loss import stored_batches
from tests.support.run_seed import numbers_of_histories

from odradek.broker.replication import directory_moves
from odradek.broker.replication.directory_moves import Move
from odradek.env.executor import InlineExecutor
from odradek.env.file_system import CREATE, write_fully
from odradek.log import LogManager
from odradek.log.names import parse_directory
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.sim.lossy_file_system import LossyFileSystem, PowerLoss

PARTITION = TopicPartition("topic", 0)
PATHS = ["/data/1", "/data/2"]
IDS = [bytes(15) + bytes([8 + number]) for number in range(len(PATHS))]
SETTINGS = {
    "segment_bytes": 900,
    "index_interval_bytes": 150,
    "retention_ms": -1,
    "file_delete_delay_ms": 0,
}


class Node:
    """A node with one partition. `assigned` is the directory that the controller knows."""

    def __init__(self, seed: int, *, has_directories: bool = True) -> None:
        self.draw = random.Random(seed)
        self.has_directories = has_directories
        self.files = LossyFileSystem()
        self.files.draw = random.Random(seed + 1)
        self.background: list = []
        self.is_inline = False
        self.batches: list[bytes] = []
        self.undone: list[bytes] = []
        """Batches that are being truncated: they may survive the end of the process."""
        self.lost: set[bytes] = set()
        """Batches that the log has lost in a power loss. The future log may have them."""
        self.flushed_offset = self.start_asked = 0
        self.epoch = 0
        self.assigned = uuids.DIRECTORY_UNASSIGNED
        for path, identity in zip(PATHS, IDS, strict=True):
            self.files.make_directory(path)
            name = f"{path}/meta.properties"
            descriptor = self.files.open(name, CREATE)
            write_fully(
                self.files, descriptor, f"directory.id={uuids.to_text(identity)}".encode(), 0
            )
            self.files.fsync(descriptor)
            for each in (path, "/data", "/"):
                self.files.sync_directory(each)
        self.open()

    def open(self) -> None:
        """Start the process, and open the log as the replica manager does."""
        workspace = LogWorkspace("/data", self.files)
        self.clock = workspace.clock
        self.manager: LogManager = workspace.manager(
            PATHS,
            overrides={
                "num.recovery.threads.per.data.dir": "1",
                "log.cleaner.enable": "false",
            },
            topic_configs=lambda _: topic_config(**SETTINGS),
            executor=LaterExecutor(self.later),
        )
        self.move: Move | None = None
        self.manager.start()
        self.log = self.manager.get_or_create(PARTITION, TOPIC_ID, directory_id=self.assigned)
        self.epoch += 1
        self.log.on_leader_epoch(self.epoch)
        self.log.high_watermark = self.log.log_end_offset
        if PARTITION in self.manager.futures:
            self.move = Move(None, self.log, self.manager.futures[PARTITION])
            directory_moves._drop_unflushed(self.move.future)

    def later(self, work, done) -> None:
        if self.is_inline or self.draw.random() < 0.5:
            InlineExecutor().submit(work, done)
        else:
            self.background.append((work, done))

    # -- what happens -------------------------------------------------------------------------

    def append(self) -> None:
        builder = RecordBatchBuilder()
        for _ in range(self.draw.choice([1, 1, 2, 5])):
            builder.append(NOW_MS, b"k", self.draw.randbytes(self.draw.randrange(60)))
        payload = builder.build()
        stored = bytearray(payload)
        stored[0:8] = self.log.log_end_offset.to_bytes(8, "big")
        stored[12:16] = self.epoch.to_bytes(4, "big")
        self.batches.append(bytes(stored))  # first, because the process may end during the write
        self.log.append_as_leader(payload, self.epoch)
        if self.draw.random() < 0.8:
            self.log.high_watermark = self.log.log_end_offset

    def flush(self) -> None:
        self.log.flush()

    def roll(self) -> None:
        self.log.roll()

    def delete_records(self) -> None:
        offset = self.draw.randint(self.log.log_start_offset, self.log.high_watermark)
        self.start_asked = max(self.start_asked, offset)
        self.log.delete_records_before(offset)
        self.log.delete_old_segments()

    def truncate(self) -> None:
        kept = [e for e in self.batches if RecordBatch(e).last_offset < self.log.high_watermark]
        end = RecordBatch(kept[-1]).next_offset if kept else 0
        if end < self.log.high_watermark or end >= self.log.log_end_offset:
            return
        self.catch_up()  # what a truncation may leave is tested in test_power_loss
        self.is_inline = True
        self.undone, self.batches = self.batches[len(kept) :], kept
        self.flushed_offset = min(self.flushed_offset, end)
        self.log.truncate_to(end)
        self.undone = []
        self.is_inline = False
        self.epoch += 1
        self.log.on_leader_epoch(self.epoch)

    def periodic_tasks(self) -> None:
        self.clock.ms += 60_000
        while self.manager.tick() < 100:
            pass

    def catch_up(self) -> None:
        while self.background:
            InlineExecutor().submit(*self.background.pop(0))

    def copy(self) -> None:
        """Copy one chunk of the move."""
        if self.move is None:
            other = next(d for d in self.manager.directories if d is not self.log.directory)
            self.move = Move(None, self.log, self.manager.create_future(PARTITION, other))
        self.copy_chunk()

    def copy_chunk(self) -> bool:
        move = self.move
        assert move is not None
        offset = directory_moves._aligned(move)
        data = self.log.read(offset, 600, self.log.log_end_offset)
        if data is None:
            return False
        found = data.records
        chunk = self.files.pread(found.descriptor, found.length, found.position)
        directory_moves._append(move, chunk)
        return True

    def swap(self) -> None:
        """Let the future log replace the log, as `DirectoryMoves` does."""
        if self.move is None:
            return
        while self.copy_chunk():
            pass
        future = self.move.future
        if future.log_end_offset < self.log.log_end_offset:
            return  # a power loss has left offsets without records
        if self.has_directories:
            self.assigned = future.directory.id
        if future.flush_state.is_idle:
            future.flush()
        if directory_moves._may_replace(self.move):
            self.replace()

    def replace(self) -> None:
        self.flushed_offset = max(self.flushed_offset, self.log.recovery_point)
        self.log = self.manager.promote_future(PARTITION, is_assigned=self.has_directories)
        self.move = None

    def cancel(self) -> None:
        if self.move is not None:
            self.assigned = self.log.directory.id if self.has_directories else self.assigned
            self.manager.delete_future(PARTITION)
            self.move = None

    def restart(self) -> None:
        self.catch_up()
        end = self.log.log_end_offset
        self.manager.shutdown()
        self.flushed_offset = end
        had_future = self.move is not None
        self.open()
        assert (self.move is not None) == had_future
        self.check(is_kill=True)

    def run(self, changes: int) -> None:
        """Do random things until the process ends during a disk write."""
        self.files.stop_after = changes
        operations = {
            self.append: 25,
            self.copy: 25,
            self.swap: 8,
            self.flush: 5,
            self.roll: 3,
            self.delete_records: 2,
            self.truncate: 2,
            self.periodic_tasks: 3,
            self.catch_up: 4,
            self.cancel: 1,
            self.restart: 1,
        }
        try:
            while True:
                self.draw.choices(list(operations), list(operations.values()))[0]()
                self.flushed_offset = max(self.flushed_offset, self.log.recovery_point)
        except PowerLoss:
            self.background.clear()

    # -- what has to hold ---------------------------------------------------------------------

    def names(self) -> list[tuple[int, str]]:
        """The directories of the partition: which log directory, and the suffix of the name."""
        return [
            (number, parse_directory(entry.name)[1])
            for number, path in enumerate(PATHS)
            for entry in self.files.scan(path)
            if entry.is_directory
        ]

    def kill(self) -> None:
        """Start again with all that was written."""
        self.files = LossyFileSystem(self.files.root)

    def lose_power(self) -> None:
        self.files = self.files.crash(self.draw)

    def start_and_check(self, is_kill: bool) -> None:
        self.open()
        self.check(is_kill)

    def check(self, is_kill: bool) -> None:
        log = self.log
        found = [bytes(each.data) for each in stored_batches(log)]
        assert set(found) <= {*self.batches, *self.undone, *self.lost}
        spans = [(RecordBatch(data).base_offset, RecordBatch(data).last_offset) for data in found]
        assert all(before[1] < after[0] for before, after in pairwise(spans))
        # A log may start later than asked where a power loss has left no records.
        start = min(log.log_start_offset, self.start_asked)
        wanted = [data for data in self.batches if RecordBatch(data).last_offset >= start]
        if is_kill:
            kept = [
                data
                for data in found
                if RecordBatch(data).last_offset >= start and data not in self.lost
            ]
            # The last batch may have been written only in part.
            assert kept[: len(wanted)] == wanted or kept == wanted[:-1]
        else:
            durable = [e for e in wanted if RecordBatch(e).next_offset <= self.flushed_offset]
            assert set(durable) <= set(found)
        assert [kind for _, kind in self.names()].count("") == 1
        below = [data for data in self.batches if RecordBatch(data).last_offset < start]
        self.lost = (self.lost | set(wanted)) - set(found)
        self.batches, self.undone = below + [data for data in found if data not in below], []
        self.flushed_offset = min(self.flushed_offset, log.log_end_offset)


@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_MOVE_CRASHES", 40))
def test_random_histories(seed: int) -> None:
    draw = random.Random(seed)
    node = Node(seed, has_directories=draw.random() < 0.7)
    for _ in range(draw.randint(1, 6)):
        node.run(draw.randint(1, 150))
        is_kill = draw.random() < 0.5
        if is_kill:
            node.kill()
        else:
            node.lose_power()
        node.start_and_check(is_kill)


@pytest.mark.parametrize("has_directories", [True, False])
@pytest.mark.parametrize("is_kill", [True, False])
def test_each_step_of_the_swap(is_kill: bool, has_directories: bool) -> None:
    steps = 0
    while True:
        node = Node(steps, has_directories=has_directories)
        node.is_inline = True
        for _ in range(8):
            node.append()
        node.copy()
        while node.copy_chunk():
            pass
        assert node.move is not None
        node.move.future.flush()
        node.assigned = node.move.future.directory.id if has_directories else node.assigned
        source = PATHS.index(node.log.directory.path)
        node.files.stop_after = steps
        try:
            node.replace()
            node.manager.tick()
            return_after = steps
        except PowerLoss:
            return_after = None
        if is_kill:
            node.kill()
            found = {each for each in node.names() if each[1] != "-delete"}
            if has_directories and return_after is None:
                # Apache Kafka starts with these. It promotes a future log in the assigned directory.
                other = 1 - source
                assert found in (
                    {(source, ""), (other, "-future")},
                    {(other, "-future")},
                    {(other, "")},
                )
        else:
            node.lose_power()
        node.start_and_check(is_kill)
        if node.move is not None:
            node.swap()
            node.check(is_kill)
        if return_after is not None:
            break
        steps += 1
    assert steps >= 4
