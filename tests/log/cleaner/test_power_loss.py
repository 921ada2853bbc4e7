"""Power is lost at every disk write of the cleaner, and at random disk writes of a node that cleans.

`ODRADEK_POWER_LOSSES` sets the number of seeds of the second test, as in
`tests/log/test_power_loss.py`.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter

import pytest
from tests.log.cleaner.support import COMPACTED, InlineChild, clean, clean_wholly
from tests.log.support import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    LaterExecutor,
    LogWorkspace,
    batch,
    end_transaction,
    read_batches,
    read_records,
    topic_config,
)
from tests.support import progress
from tests.support.run_seed import seeds

from odradek.env.executor import Done, InlineExecutor, Work
from odradek.log import LogManager, PartitionLog, sequential_writer
from odradek.log.cleaner.work import Message, WorkItem
from odradek.records.control import control_type
from odradek.records.record import Record, iterate_records
from odradek.sim.lossy_file_system import LossyFileSystem, PowerLoss

DRAWS = 3
SEEDS = int(os.environ.get("ODRADEK_POWER_LOSSES", "300")) // 3
SHARDS = 4

logger = logging.getLogger(__name__)


def _room(files: LossyFileSystem) -> LogWorkspace:
    workspace = LogWorkspace("/data", files)
    workspace.storage.verify_transactions = False
    return workspace


def _filled(files: LossyFileSystem) -> tuple[LogWorkspace, PartitionLog]:
    """Return a flushed log with six segments, two of them clean, with transactions and
    tombstones."""
    workspace = _room(files)
    log = workspace.open(**COMPACTED)
    draw = random.Random(5)
    sequence = 0
    for segment in range(6):
        for number in range(4):
            records = [
                (b"key-%d" % draw.randrange(12), draw.choice([None, b"v" * draw.randrange(60)]))
                for _ in range(3)
            ]
            fields = {}
            if number == 1:
                fields = {"producer_id": 4, "producer_epoch": 0, "base_sequence": sequence}
                fields["is_transactional"] = True
                sequence += 3
            log.append_as_leader(batch(*records, **fields), 0)
        end_transaction(log, segment % 2 == 0, 4)
        log.roll()
        if segment == 1:
            clean(log, workspace)
    log.flush()
    log.storage.file_system.sync_directory(log.path)
    log.storage.file_system.sync_directory("/data")
    return workspace, log


def _data(log: PartitionLog) -> dict[int, Record]:
    return {
        record.offset: record
        for each in read_batches(log)
        if not each.is_control
        for record in iterate_records(each)
    }


def _markers(log: PartitionLog) -> dict[int, int]:
    return {
        each.base_offset: control_type(record)
        for each in read_batches(log)
        if each.is_control
        for record in iterate_records(each)
    }


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let the cleaner write each segment in several pieces."""
    monkeypatch.setattr(sequential_writer, "PIECE_BYTES", 256)


def test_power_loss_at_every_change():
    workspace, log = _filled(LossyFileSystem())
    before, end = _data(log), log.log_end_offset
    aborted_before = log.aborted_transactions(0, end)
    clean_wholly(log, workspace)
    after = _data(log)
    assert len(after) < len(before)

    cut = 0
    while True:
        files = LossyFileSystem()
        files.draw = random.Random(cut)
        workspace, log = _filled(files)
        cleaned_to = log.cleaning.first_dirty_offset
        files.stop_after = cut
        try:
            clean(log, workspace)
        except PowerLoss:
            pass
        else:
            break
        for number in range(DRAWS):
            survivor = files.crash(random.Random(1000 * cut + number))
            _check(survivor, cut, cleaned_to, before, after, end, aborted_before)
        cut += 1
    assert cut > 30


def _check(files, cut, cleaned_to, before, after, end, aborted_before) -> None:
    workspace = _room(files)
    log = workspace.reopen(
        arguments={"recovery_point": end if cut % 2 else 0, "was_clean": False}, **COMPACTED
    )
    assert log.log_end_offset == end
    found = _data(log)
    assert after.items() <= found.items() <= before.items()
    for offset in range(end):
        if found and offset <= max(found):
            assert read_records(log, offset), "every offset can be read from"
    assert set(log.aborted_transactions(0, end)) <= set(aborted_before)
    markers = _markers(log)
    for transaction in aborted_before:
        has_data = any(
            transaction.first_offset <= offset <= transaction.last_offset
            and before[offset] == record
            for offset, record in found.items()
            if offset not in after
        )
        if has_data and transaction.last_offset in markers:
            assert transaction in log.aborted_transactions(0, end)
    log.cleaning.cleaned_to(cleaned_to)
    clean_wholly(log, workspace)
    assert _data(log) == after
    assert not [name for name in workspace.files() if name.endswith((".cleaned", ".swap"))]


class Simulation:
    """A node that compacts one log, and the expected contents after a power loss."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.files = LossyFileSystem()
        self.files.draw = random.Random(seed + 1)
        self.ms = NOW_MS
        self.history: dict[int, tuple[bytes, bytes | None]] = {}
        """All appended records: offset to key and value."""
        self.flushed_offset = 0
        """Records below this offset were flushed."""
        self.now = "start"
        self.losses: Counter[str] = Counter()
        self.rounds = 0
        self.background: list[tuple[Work, Done]] = []
        self.manager = self.start()

    def start(self) -> LogManager:
        simulation = self

        class Child(InlineChild):
            def work(self, item: WorkItem) -> list[Message]:
                simulation.now = "clean"
                simulation.rounds += 1
                return super().work(item)

        self.workspace = LogWorkspace("/data", self.files)
        self.workspace.clock.ms = self.ms
        manager = self.workspace.manager(
            overrides={"num.recovery.threads.per.data.dir": "1"},
            topic_configs=lambda _: topic_config(**COMPACTED | {"segment_bytes": 600}),
            executor=LaterExecutor(self.later),
            start_cleaner=lambda: Child(self.files),
        )
        manager.start()
        return manager

    def later(self, work: Work, done: Done) -> None:
        if self.draw.random() < 0.5:
            InlineExecutor().submit(work, done)
        else:
            self.background.append((work, done))

    # -- what happens -------------------------------------------------------------------------

    def run(self, changes: int) -> None:
        self.files.stop_after = changes
        try:
            while True:
                self.now = "create"
                log = self.manager.get_or_create(PARTITION, TOPIC_ID, is_new=True)
                operation = self.draw.choices(
                    (self.append, self.flush, self.roll, self.tick, self.catch_up, self.restart),
                    (30, 2, 3, 8, 2, 0.3),
                )[0]
                self.now = operation.__name__
                operation(log)
                self.flushed_offset = max(self.flushed_offset, log.recovery_point)
        except PowerLoss:
            self.losses[self.now] += 1
            self.background.clear()

    def append(self, log: PartitionLog) -> None:
        records = []
        for _ in range(self.draw.choice([1, 2, 5])):
            value = self.draw.choice([None, self.draw.randbytes(self.draw.randrange(60))])
            records.append((b"key-%d" % self.draw.randrange(8), value))
        for number, record in enumerate(records):
            self.history[log.log_end_offset + number] = record
        log.append_as_leader(batch(*records), 0)
        log.high_watermark = log.log_end_offset

    def flush(self, log: PartitionLog) -> None:
        log.flush()

    def roll(self, log: PartitionLog) -> None:
        log.roll()

    def tick(self, _: PartitionLog) -> None:
        self.ms += self.draw.choice([100, 15_000, 60_000])
        self.workspace.clock.ms = self.ms
        for _ in range(6):
            self.manager.tick()

    def catch_up(self, _: PartitionLog | None = None) -> None:
        while self.background:
            InlineExecutor().submit(*self.background.pop(0))

    def restart(self, log: PartitionLog) -> None:
        self.catch_up()
        self.manager.shutdown()
        self.flushed_offset = log.log_end_offset
        self.manager = self.start()

    # -- what has to hold ---------------------------------------------------------------------

    def lose_power_and_check(self) -> None:
        self.files = self.files.crash(self.draw)
        self.manager = self.start()
        log = self.manager.get(PARTITION)
        if log is None:
            assert self.flushed_offset == 0, "a flushed log is gone"
            self.history.clear()
            return
        log.high_watermark = log.log_end_offset
        assert log.log_end_offset >= self.flushed_offset, "flushed records are gone"
        found = {offset: (each.key, each.value) for offset, each in _data(log).items()}
        assert found.items() <= self.history.items(), "records nobody appended"
        flushed = {at: each for at, each in self.history.items() if at < self.flushed_offset}
        assert _state(found) == _state(flushed | found)
        assert not [name for name in self.workspace.files() if name.endswith((".cleaned", ".swap"))]
        self.history = flushed | found
        self.flushed_offset = log.log_end_offset


def _state(records: dict[int, tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Return the last value of each key that is not deleted."""
    last = dict(records[offset] for offset in sorted(records))
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.timeout(300 + SEEDS // SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_last_value_of_each_key_survives(shard):
    losses: Counter[str] = Counter()
    rounds = 0
    numbers = seeds(SEEDS)[shard::SHARDS]
    for done, seed in enumerate(numbers):
        progress.report(done, len(numbers), f"simulations of part {shard + 1} of {SHARDS}")
        simulation = Simulation(seed)
        try:
            for _ in range(3):
                simulation.run(simulation.draw.randrange(400))
                simulation.lose_power_and_check()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        losses += simulation.losses
        rounds += simulation.rounds
    assert rounds >= len(numbers) - 1
    text = f"{losses.total()} losses: {dict(losses)}"
    logger.info("shard %d: %d rounds of cleaning, %s", shard, rounds, text)
