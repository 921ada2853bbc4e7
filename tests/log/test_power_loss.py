"""Power is lost at a random disk write, and the log is opened again.

A seed determines what happens to a node with two partitions: appends (plain, idempotent,
transactional), flushes, rolls, deletions of records and of whole logs, truncations, periodic tasks
(retention, checkpoints), clean restarts, and when background work runs. Power is lost at a random
disk write, and sometimes again while the log recovers. `LossyFileSystem` selects the writes that
survive. Then:

- All records before the last recovery point are present, and all present records are those that
  were appended, in order. A rolled segment that was not flushed may have lost its last batches
  while later segments survive. The offsets of these batches are then missing, as in Apache Kafka.
- The log start offset is not above the requested one.
- Index entries point to batches; every offset and timestamp is found.
- Producers, last stable offset, aborted transactions and leader epochs are those of the batches.
- The log accepts appends.

`ODRADEK_POWER_LOSSES` sets the number of seeds. `--log-cli-level=INFO` logs, for each operation, how
many power losses occurred during it. Compaction is tested in `cleaner/test_power_loss.py`.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter

import pytest
from tests.log.support import NOW_MS, TOPIC_ID, LaterExecutor, LogWorkspace, topic_config
from tests.support import progress
from tests.support.run_seed import seeds

from odradek.env.executor import Done, InlineExecutor, Work
from odradek.env.file_system import read_file
from odradek.log import AppendOrigin, LogManager, PartitionLog, RecordsRefused
from odradek.log.names import LOG
from odradek.log.producer_state import ProducerState
from odradek.log.scan import read_batch
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import end_of_transaction_batch
from odradek.sim.lossy_file_system import LossyFileSystem, PowerLoss

SEEDS = int(os.environ.get("ODRADEK_POWER_LOSSES", "300"))
SHARDS = 10
RECOVERY_LOSSES = 0.3
"""Fraction of recoveries with another power loss."""
PARTITIONS = [TopicPartition("topic", 0), TopicPartition("topic", 1)]
SETTINGS = {
    "segment_bytes": 1200,
    "index_interval_bytes": 150,
    "retention_ms": -1,
    "file_delete_delay_ms": 0,
}


logger = logging.getLogger(__name__)


class Model:
    """What a partition may contain, according to the results of the operations."""

    def __init__(self, topic_id: bytes = TOPIC_ID) -> None:
        self.topic_id = topic_id
        self.batches: list[bytes] = []
        """All batches that the log should have, oldest first, and deleted batches."""
        self.flushed_offset = 0
        """Records below this offset were flushed."""
        self.start_asked = 0
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.first_id = 0
        """The first producer id in use. After a truncation there are new ids, because the log may have
        lost the state of producers whose records were deleted before."""
        self.undone: list[list[bytes]] = []
        """The batches before each truncation that does not survive a crash yet."""


class Simulation:
    """A node, random operations on it, and the checks after a power loss."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.files = LossyFileSystem()
        self.files.draw = random.Random(seed + 1)
        self.models = {partition: Model() for partition in PARTITIONS}
        self.epoch = 0
        self.losses: Counter[str] = Counter()
        """Number of power losses during each operation."""
        self.now = "start"
        self.background: list[tuple[Work, Done]] = []
        """Background work that has not run yet."""
        self.manager = self.start()

    def start(self) -> LogManager:
        self.epoch += 1
        workspace = LogWorkspace("/data", self.files)
        manager = workspace.manager(
            overrides={"num.recovery.threads.per.data.dir": "1"},
            topic_configs=lambda _: topic_config(**SETTINGS),
            executor=LaterExecutor(self.later),
        )
        manager.storage.verify_transactions = False
        manager.start()
        self.clock = workspace.clock
        return manager

    # -- what happens -------------------------------------------------------------------------

    def run(self, changes: int) -> None:
        self.files.stop_after = changes
        try:
            while True:
                self.step()
        except PowerLoss:
            self.losses[self.now] += 1
            self.background.clear()

    def later(self, work: Work, done: Done) -> None:
        """Run background work now or later."""
        if self.draw.random() < 0.5:
            InlineExecutor().submit(work, done)
        else:
            self.background.append((work, done))

    def catch_up(self) -> None:
        """Run all background work."""
        while self.background:
            InlineExecutor().submit(*self.background.pop(0))

    def step(self) -> None:
        partition = self.draw.choice(PARTITIONS)
        model = self.models[partition]
        log = self.manager.get(partition)
        if log is None:
            self.now = "create"
            log = self.manager.get_or_create(partition, model.topic_id, is_new=True)
            log.on_leader_epoch(self.epoch)
        operation = self.draw.choices(
            (
                self.append,
                self.append_idempotent,
                self.append_transactional,
                self.append_as_follower,
                self.end_transaction,
                self.flush,
                self.roll,
                self.delete_records,
                self.truncate,
                self.delete_log,
                self.periodic_tasks,
                self.work_in_background,
                self.restart,
            ),
            (25, 15, 10, 10, 8, 8, 3, 3, 2, 3, 3, 4, 1),
        )[0]
        self.now = operation.__name__
        operation(log, model)
        model.flushed_offset = max(model.flushed_offset, log.recovery_point)

    def send(
        self, log: PartitionLog, model: Model, payload: bytearray, origin=AppendOrigin.CLIENT
    ) -> None:
        offset = log.log_end_offset
        # Add it to the model first, because power may be lost during the write.
        stored = bytearray(payload)
        stored[0:8] = offset.to_bytes(8, "big")
        stored[12:16] = self.epoch.to_bytes(4, "big")
        model.batches.append(bytes(stored))
        try:
            log.append_as_leader(payload, self.epoch, origin)
        except RecordsRefused:
            model.batches.pop()
            raise
        log.high_watermark = log.log_end_offset

    def batch(self, **fields) -> bytearray:
        draw = self.draw
        codec = draw.choice([Codec.NONE, Codec.NONE, Codec.ZSTD])
        builder = RecordBatchBuilder(codec=codec, **fields)
        for _ in range(draw.choice([1, 1, 1, 2, 5])):
            builder.append(NOW_MS - draw.randrange(1000), b"k", draw.randbytes(draw.randrange(60)))
        return builder.build()

    def append(self, log: PartitionLog, model: Model) -> None:
        self.send(log, model, self.batch())

    def numbered(self, log: PartitionLog, model: Model, producer_id: int, **fields) -> None:
        sequence = model.sequences.get(producer_id, 0)
        payload = self.batch(
            producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **fields
        )
        self.send(log, model, payload)
        model.sequences[producer_id] = sequence + RecordBatch(payload).count

    def append_idempotent(self, log: PartitionLog, model: Model) -> None:
        self.numbered(log, model, model.first_id + self.draw.randrange(3))

    def append_transactional(self, log: PartitionLog, model: Model) -> None:
        producer_id = model.first_id + self.draw.randrange(10, 13)
        self.numbered(log, model, producer_id, is_transactional=True)
        model.open.add(producer_id)

    def append_as_follower(self, log: PartitionLog, model: Model) -> None:
        """Several batches of a leader, which are written at once where possible."""
        offset, payload = log.log_end_offset, bytearray()
        for _ in range(self.draw.randint(1, 6)):
            fields = {}
            if self.draw.random() < 0.5:
                producer_id = model.first_id + self.draw.randrange(3)
                sequence = model.sequences.get(producer_id, 0)
                fields = {"producer_id": producer_id, "producer_epoch": 0}
                fields["base_sequence"] = sequence
            batch = self.batch(**fields)
            count = RecordBatch(batch).count
            if fields:
                model.sequences[fields["producer_id"]] = fields["base_sequence"] + count
            batch[0:8] = offset.to_bytes(8, "big")
            batch[12:16] = self.epoch.to_bytes(4, "big")
            model.batches.append(bytes(batch))
            payload += batch
            offset += count
        log.append_as_follower(payload, self.epoch)
        assert log.log_end_offset == offset
        log.high_watermark = offset

    def end_transaction(self, log: PartitionLog, model: Model) -> None:
        if model.open:
            producer_id = self.draw.choice(sorted(model.open))
            marker = end_of_transaction_batch(
                self.draw.random() < 0.5,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=NOW_MS,
            )
            self.send(log, model, marker, AppendOrigin.COORDINATOR)
            model.open.discard(producer_id)

    def flush(self, log: PartitionLog, model: Model) -> None:
        end = log.log_end_offset
        log.flush()
        model.flushed_offset = max(model.flushed_offset, end)

    def roll(self, log: PartitionLog, model: Model) -> None:
        log.roll()

    def delete_records(self, log: PartitionLog, model: Model) -> None:
        offset = self.draw.randint(log.log_start_offset, log.high_watermark)
        model.start_asked = max(model.start_asked, offset)
        log.delete_records_before(offset)
        log.delete_old_segments()

    def truncate(self, log: PartitionLog, model: Model) -> None:
        offset = self.draw.randint(log.log_start_offset, log.log_end_offset)
        kept = [data for data in model.batches if RecordBatch(data).last_offset < offset]
        end = RecordBatch(kept[-1]).next_offset if kept else log.log_start_offset
        dropped = model.batches
        model.undone.append(dropped)
        model.flushed_offset = min(model.flushed_offset, end)
        model.batches = kept

        def truncated(refusal):
            assert refusal is None
            model.undone = [each for each in model.undone if each is not dropped]

        log.truncate_to(end, truncated)
        model.first_id += 100
        self.epoch += 1
        model.sequences = {p.producer_id: p.last_sequence + 1 for p in log.active_producers()}
        model.open = {
            p.producer_id for p in log.active_producers() if p.transaction_first_offset >= 0
        }

    def delete_log(self, log: PartitionLog, model: Model) -> None:
        partition = log.topic_partition
        self.models[partition] = Model(self.draw.randbytes(16))
        self.manager.delete(partition)

    def work_in_background(self, log: PartitionLog, model: Model) -> None:
        self.catch_up()

    def periodic_tasks(self, log: PartitionLog, model: Model) -> None:
        self.clock.ms += 60_000
        while self.manager.tick() < 100:
            pass

    def restart(self, log: PartitionLog, model: Model) -> None:
        self.stop()
        self.manager = self.start()

    def stop(self) -> None:
        """Stop cleanly."""
        ends = {log.topic_partition: log.log_end_offset for log in self.manager}
        self.catch_up()
        self.manager.shutdown()
        for partition, end in ends.items():
            self.models[partition].flushed_offset = end

    def contents(self) -> dict[str, bytes]:
        """Return the segments' files and their contents, by path."""
        return {
            path: read_file(self.files, path)
            for partition in PARTITIONS
            for path in self.paths_of(f"/data/{partition}")
        }

    def paths_of(self, directory: str) -> list[str]:
        """Return the paths of the segments' files in a directory."""
        if self.files.status(directory) is None:
            return []
        found = [entry.name for entry in self.files.scan(directory)]
        return [f"{directory}/{name}" for name in found if name.endswith((LOG, "index"))]

    # -- what has to hold ---------------------------------------------------------------------

    def lose_power_and_check(self) -> None:
        self.files = self.files.crash(self.draw)
        while self.draw.random() < RECOVERY_LOSSES:
            self.files.stop_after = self.draw.randrange(50)
            try:
                self.start()
            except PowerLoss:
                self.losses["recover"] += 1
            self.background.clear()
            self.files = self.files.crash(self.draw)
        self.manager = self.start()
        for partition, model in self.models.items():
            log = self.manager.get(partition)
            if log is not None and log.topic_id != model.topic_id:
                self.manager.delete(partition)  # the metadata has another topic id
                log = None
            if log is None:
                assert model.flushed_offset == 0, "a flushed partition is gone"
                self.models[partition] = Model(model.topic_id)
                continue
            log.high_watermark = log.log_end_offset
            check(log, model)

    def adopt(self) -> None:
        """Update the models with the batches that were found."""
        for partition, model in self.models.items():
            log = self.manager.get(partition)
            if log is None:
                continue
            found = [bytes(batch.data) for batch in stored_batches(log)]
            start = log.segments.bases[0]
            below = [data for data in model.batches if RecordBatch(data).last_offset < start]
            model.batches = below + found
            model.undone = []
            model.flushed_offset = 0
            model.start_asked = max(model.start_asked, log.log_start_offset)
            model.sequences = {p.producer_id: p.last_sequence + 1 for p in log.active_producers()}
            model.open = {
                p.producer_id for p in log.active_producers() if p.transaction_first_offset >= 0
            }
            log.on_leader_epoch(self.epoch)


def stored_batches(log: PartitionLog) -> list[RecordBatch]:
    """Return all batches in the files of a log."""
    found = []
    for segment in log.segments:
        for place in segment.batches(0):
            file = segment.file or segment.open_file()
            found.append(read_batch(log.storage.file_system, file, place))
    return found


def check(log: PartitionLog, model: Model) -> None:
    """Check that the log has all flushed records and no unknown ones."""
    batches = stored_batches(log)
    lasts = [RecordBatch(data).last_offset for data in model.batches]
    flushed = [last for last in lasts if last < model.flushed_offset]
    assert log.log_end_offset > max(flushed, default=-1), "flushed records are gone"
    assert log.log_start_offset <= max(model.start_asked, log.segments.bases[0])
    assert log.segments.bases[0] <= model.start_asked
    check_content(log, model, batches)
    check_places(log, batches)
    check_producers(log, model, batches)
    check_epochs(log, model, batches)


def check_content(log: PartitionLog, model: Model, batches: list[RecordBatch]) -> None:
    """Check that the batches are a prefix of the appended batches, now or before a truncation.

    After the flushed records there may be gaps before the beginning of a segment.
    """
    found = [bytes(batch.data) for batch in batches]
    flushed = [
        data for data in model.batches if RecordBatch(data).last_offset < model.flushed_offset
    ]
    first = log.segments.bases[0]
    candidates = [model.batches, *model.undone]
    histories = [
        [data for data in history if RecordBatch(data).base_offset >= first]
        for history in candidates
    ]
    bases = set(log.segments.bases)
    assert any(follows(found, history, bases) for history in histories), "records nobody appended"
    wanted = [data for data in flushed if RecordBatch(data).base_offset >= first]
    assert found[: len(wanted)] == wanted, "flushed records are not what they were"
    end = batches[-1].next_offset if batches else log.log_start_offset
    assert log.log_end_offset in (end, log.log_start_offset, log.segments.bases[-1])


def follows(found: list[bytes], history: list[bytes], bases: set[int]) -> bool:
    """Return whether `found` is a prefix of the history, except for gaps before the offsets in
    `bases`."""
    rest = iter(history)
    for data in found:
        expected = next(rest, None)
        if RecordBatch(data).base_offset in bases:
            while expected is not None and expected != data:
                expected = next(rest, None)
        if expected != data:
            return False
    return True


def check_places(log: PartitionLog, batches: list[RecordBatch]) -> None:
    """Check that indexes and searches agree with the batches."""
    files = log.storage.file_system
    for segment in log.segments:
        places = {place.position: place for place in segment.batches(0)}
        offsets, times = segment.indexes()
        for number in range(len(offsets)):
            relative, position = offsets.entry(files, segment.path(".index"), number)
            assert places[position].last_offset == segment.base_offset + relative
        by_last = {place.last_offset: place for place in places.values()}
        for number in range(len(times)):
            timestamp, relative = times.entry(files, segment.path(".timeindex"), number)
            assert by_last[segment.base_offset + relative].max_timestamp == timestamp
        last = times.last(files, segment.path(".timeindex"))
        if places and segment is not log.active_segment:
            assert last[0] == max(place.max_timestamp for place in places.values())
    for batch in batches:
        if batch.last_offset >= log.log_start_offset:
            data = log.read(max(batch.base_offset, log.log_start_offset), 1, log.log_end_offset)
            found = files.pread(data.records.descriptor, batch.size, data.records.position)
            assert found == batch.data


def check_producers(log: PartitionLog, model: Model, batches: list[RecordBatch]) -> None:
    """Check that the state of producers and transactions agrees with the batches."""
    state = ProducerState()
    aborted = []
    for batch in batches:
        if batch.has_producer_id:
            ended = state.replay(batch)
            if ended is not None and ended[0].aborted:
                aborted.append((ended[0].producer_id, ended[0].first_offset))
    known = log.producers.entries
    for producer_id, entry in state.entries.items():
        # The state of a producer with deleted batches may be lost: it may use any sequence number.
        if entry.batches and entry.batches[-1].last_offset >= model.start_asked:
            assert known[producer_id].next_sequence == entry.next_sequence
    histories = (data for history in (model.batches, *model.undone) for data in history)
    assert known.keys() <= {RecordBatch(data).producer_id for data in histories}
    begun = [*state.ongoing, *(first for _, first in aborted)]
    if log.segments.bases[0] == 0 and all(first >= model.start_asked for first in begun):
        unstable = min(state.ongoing, default=-1)
        assert log.last_stable_offset == (log.log_end_offset if unstable < 0 else unstable)
        found = log.aborted_transactions(0, 2**62)
        assert [(each.producer_id, each.first_offset) for each in found] == aborted


def check_epochs(log: PartitionLog, model: Model, batches: list[RecordBatch]) -> None:
    """Check that every offset that was not deleted has the leader epoch of its batch."""
    for batch in batches:
        if batch.last_offset >= model.start_asked:
            offset = max(batch.base_offset, model.start_asked)
            assert log.leader_epochs.epoch_for(offset) == batch.leader_epoch


@pytest.mark.timeout(300 + SEEDS // SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_power_loss(shard):
    losses: Counter[str] = Counter()
    numbers = seeds(SEEDS)[shard::SHARDS]
    for done, seed in enumerate(numbers):
        progress.report(done, len(numbers), f"simulations of part {shard + 1} of {SHARDS}")
        losses += play(seed)
    logger.info("shard %d: %d losses: %s", shard, losses.total(), dict(losses))


@pytest.mark.parametrize("seed", seeds(20))
def test_power_loss_after_a_clean_stop(seed):
    """The next start trusts the indexes without a check, so they must be durable (KAFKA-20979)."""
    simulation = Simulation(seed)
    simulation.files.stop_after = None
    for _ in range(150):
        simulation.step()
    simulation.stop()
    before = simulation.contents()
    simulation.files = simulation.files.crash(simulation.draw)
    assert simulation.contents() == before
    simulation.manager = simulation.start()
    for log in simulation.manager:
        log.high_watermark = log.log_end_offset
        check(log, simulation.models[log.topic_partition])


@pytest.mark.parametrize("seed", [4122008941, 4122008456, 4122007409])
def test_a_log_that_was_emptied_keeps_its_start(seed):
    """All segments ended before the log start offset, and power was lost again."""
    play(seed)


def play(seed: int) -> Counter[str]:
    """Run one simulation with three power losses. Return the operations that were interrupted."""
    simulation = Simulation(seed)
    draw = random.Random(seed * 31)
    try:
        for _ in range(3):
            simulation.run(draw.choice([5, 20, 80, 200, 400]) + draw.randrange(60))
            simulation.lose_power_and_check()
            simulation.adopt()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return simulation.losses
