"""Our log and Apache Kafka's `UnifiedLog`: the same operations have the same results and files.

A seed determines the operations. Both logs perform them; then every result, offset and file is
compared, and each log opens the files of the other one, after a clean shutdown and after a crash.
"""

from __future__ import annotations

import random
import subprocess

import pytest
from compat.lab.java import command
from compat.lab.maven import kafka_jars
from tests.log.cleaner.support import clean
from tests.log.kafka_log import OPTIONS, KafkaLog, assert_same, describe, kafka_log
from tests.log.support import (
    NOW_MS,
    PARTITION,
    LogWorkspace,
    append,
    batch,
    end_transaction,
    read_batches,
    read_bytes,
)
from tests.support.run_seed import seeds

from odradek.env.file_system import read_file
from odradek.log import AppendOrigin, PartitionLog, RecordsRefused, names
from odradek.log.checkpoints import leader_epochs_text, read_leader_epochs
from odradek.log.errors import OffsetOutOfRange
from odradek.log.producer_snapshot import read_snapshot
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.records.control import end_of_transaction_batch

pytestmark = pytest.mark.java

HOUR_MS = 3_600_000
SETTINGS = [
    {"segment_bytes": 2000, "index_interval_bytes": 200},
    {"segment_bytes": 1500, "index_interval_bytes": 0, "segment_index_bytes": 120},
    {"segment_ms": 20_000, "index_interval_bytes": 300, "retention_ms": 60_000},
    {"segment_bytes": 3000, "cleanup_policy": "compact", "index_interval_bytes": 100},
    {"segment_bytes": 3000, "message_timestamp_type": "LogAppendTime"},
    {"segment_bytes": 3000, "message_timestamp_before_max_ms": 40_000, "max_message_bytes": 400},
    {"segment_bytes": 3000, "compression_type": "uncompressed", "index_interval_bytes": 100},
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with kafka_log(tmp_path_factory.mktemp("java") / "java.log") as running:
        yield running


class Pair:
    """Odradek's log and Kafka's log in two directories, with the same operations."""

    def __init__(self, tmp_path, kafka: KafkaLog, seed: int, settings: dict) -> None:
        self.draw = random.Random(seed)
        self.kafka = kafka
        self.settings = {"file_delete_delay_ms": 0} | settings
        self.workspace = LogWorkspace(tmp_path / "ours")
        self.other_workspace = LogWorkspace(tmp_path / "kafkas")
        self.workspace.storage = self.workspace.new_storage(verify_transactions=False)
        self.other_workspace.storage = self.workspace.storage
        self.log: PartitionLog = self.workspace.open(**self.settings)
        kafka.open(self.other_path, self.workspace.clock, self.settings)
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.open_transactions: set[int] = set()
        self.deletes = True

    @property
    def other_path(self) -> str:
        return f"{self.other_workspace.path}/{PARTITION}"

    # -- what happens to both -----------------------------------------------------------------

    def append(self, payload: bytes, origin=AppendOrigin.CLIENT, transaction_version=0) -> bool:
        """Append to both logs. Return whether the batch was accepted."""
        theirs = self.kafka.append(
            payload,
            self.workspace.clock,
            epoch=self.epoch,
            origin=origin,
            transaction_version=transaction_version,
        )
        try:
            info = self.log.append_as_leader(
                bytearray(payload), self.epoch, origin, transaction_version=transaction_version
            )
            ours = {
                "first": info.base_offset,
                "last": info.last_offset,
                "append_time": info.log_append_time_ms,
            }
        except RecordsRefused as refused:
            ours = {"refused": refused.code.name}
            if refused.record_errors:
                ours["indices"] = [index for index, _ in refused.record_errors]
            theirs.pop("message", None)
        self.log.high_watermark = self.log.log_end_offset
        assert ours == theirs, RecordBatch(payload)
        return "refused" not in ours

    def batch(self, **fields) -> bytes:
        draw = self.draw
        codec = draw.choice([Codec.NONE, *Codec])
        builder = RecordBatchBuilder(codec=codec, **fields)
        keyless = draw.random() < 0.03
        for _ in range(draw.choice([1, 1, 2, 5])):
            timestamp = self.workspace.clock.ms - draw.randrange(10_000)
            if draw.random() < 0.02:
                timestamp = self.workspace.clock.ms + draw.choice([2 * HOUR_MS, -HOUR_MS])
            key = None if keyless else b"key %d" % draw.randrange(20)
            value = draw.choice([None, b"", draw.randbytes(draw.randrange(120))])
            headers = [("h", b"x")] if draw.random() < 0.1 else ()
            builder.append(timestamp, key, value, headers)
        return bytes(builder.build())

    def step(self) -> None:
        self.workspace.clock.ms += self.draw.randrange(3000)
        self.other_workspace.clock.ms = self.workspace.clock.ms
        self.draw.choices(
            (
                self.plain,
                self.idempotent,
                self.transactional,
                self.end,
                self.next_epoch,
                self.delete,
                self.roll,
            ),
            (40, 25, 15, 10, 2, 2, 1),
        )[0]()

    def plain(self) -> None:
        self.append(self.batch())

    def idempotent(self, producers=range(3), **fields) -> int | None:
        producer_id = self.draw.choice(list(producers))
        epoch = self.draw.choice([0] * 20 + [1])
        expected = self.sequences.get(producer_id, 0)
        sequence = max(0, expected + self.draw.choice([0] * 12 + [-1, 1]))
        payload = self.batch(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields
        )
        if not self.append(payload):
            return None
        for producer in self.log.active_producers():
            self.sequences[producer.producer_id] = producer.last_sequence + 1
        return producer_id

    def transactional(self) -> None:
        producer_id = self.idempotent(range(10, 13), is_transactional=True)
        if producer_id is not None:
            self.open_transactions.add(producer_id)

    def end(self) -> None:
        producer_id = self.draw.choice(sorted(self.open_transactions) or [10])
        marker = end_of_transaction_batch(
            self.draw.random() < 0.5,
            producer_id=producer_id,
            producer_epoch=self.draw.choice([0, 0, 0, 1]),
            coordinator_epoch=self.draw.choice([5, 5, 5, 4]),
            timestamp=self.workspace.clock.ms,
        )
        version = self.draw.choice([0, 1, 2])
        if self.append(marker, AppendOrigin.COORDINATOR, version):
            self.open_transactions.discard(producer_id)

    def next_epoch(self) -> None:
        self.epoch += self.draw.choice([1, 2])
        self.log.on_leader_epoch(self.epoch)
        self.kafka.ask("begin_epoch", epoch=self.epoch)

    def delete(self) -> None:
        if not self.deletes:
            return
        offset = self.draw.randint(self.log.log_start_offset, self.log.high_watermark)
        self.kafka.ask("delete", offset=offset, now=self.workspace.clock.ms)
        self.log.delete_records_before(offset)
        self.log.delete_old_segments()

    def roll(self) -> None:
        if self.log.active_segment.size:
            self.log.roll()
            self.kafka.ask("roll")

    # -- what has to be the same --------------------------------------------------------------

    def compare(self) -> None:
        ours, theirs = describe(self.log), self.kafka.describe()
        assert_same(ours, theirs, without=("recovery_point",))

    def compare_questions(self) -> None:
        log = self.log
        low, high = log.log_start_offset, log.log_end_offset
        for _ in range(40):
            offset = self.draw.randint(low, high)
            self.compare_read(offset, self.draw.choice([1, 100, 1000, 1 << 20]))
        for timestamp in (
            *(-1, -2, -3, -4, -5, -6, 0),
            *(self.draw.randint(NOW_MS - 12_000, self.workspace.clock.ms + 10) for _ in range(20)),
        ):
            found = log.offset_for_timestamp(timestamp)
            theirs = self.kafka.ask("time", time=timestamp).get("found")
            assert (None if found is None else list(found)) == theirs, timestamp
        for epoch in range(-1, self.epoch + 2):
            theirs = self.kafka.ask("epoch_end", epoch=epoch).get("found", [-1, -1])
            assert list(log.end_offset_for_epoch(epoch)) == theirs
        theirs = self.kafka.ask("aborted", offset=low, upper=high)["aborted"]
        assert [list(entry) for entry in log.aborted_transactions(low, high)] == theirs

    def compare_read(self, offset: int, max_bytes: int) -> None:
        for isolation, limit in (
            ("LOG_END", self.log.log_end_offset),
            ("HIGH_WATERMARK", self.log.high_watermark),
            ("TXN_COMMITTED", self.log.last_stable_offset),
        ):
            theirs = self.kafka.ask(
                "read", offset=offset, max_bytes=max_bytes, isolation=isolation, whole_first=True
            )
            committed = isolation == "TXN_COMMITTED"
            data = self.log.read(offset, max_bytes, limit, with_aborted=committed)
            found = read_bytes(self.log, offset, max_bytes, limit=limit)
            assert found.hex() == theirs["records"]
            if committed and data is not None:
                # Beyond the data, Kafka's result depends on the entries of its index.
                last = max((each.last_offset for each in iterate_batches(found)), default=offset)
                ours = [list(each[:2]) for each in data.aborted_transactions]
                assert [each for each in ours if each[1] <= last] == [
                    each for each in theirs["aborted"] if each[1] <= last
                ]

    def compare_files(self) -> None:
        """Compare the files after both logs were closed."""
        ours, theirs = self.workspace.files(), self.other_workspace.files()
        only_one = {"partition.metadata"}
        assert set(ours) - only_one == set(theirs) - only_one
        for name in set(ours) - only_one:
            mine = read_file(self.workspace.file_system, f"{self.log.path}/{name}")
            others = read_file(self.workspace.file_system, f"{self.other_path}/{name}")
            if name.endswith(".snapshot"):
                assert snapshot_rows(mine) == snapshot_rows(others), name
            elif name == names.LEADER_EPOCH_CHECKPOINT:
                # Kafka also writes an epoch without a record, and removes it when it loads the log.
                entries = self.kafkas_epochs()
                end = self.log.log_end_offset
                assert mine == leader_epochs_text([each for each in entries if each[1] < end])
            else:
                assert mine == others, name

    def kafkas_epochs(self) -> list[tuple[int, int]]:
        """Return the entries of the checkpoint file."""
        path = f"{self.other_path}/{names.LEADER_EPOCH_CHECKPOINT}"
        return read_leader_epochs(self.workspace.file_system, path)


def snapshot_rows(content: bytes) -> list:
    """Return the content of a snapshot, sorted, because the file has the order of a hash map."""
    return sorted(
        (
            entry.producer_id,
            entry.epoch,
            [tuple(each) for each in entry.batches],
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in read_snapshot("snapshot", content)
    )


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@pytest.mark.parametrize("seed", seeds(2))
def test_the_same_history_gives_the_same_log(tmp_path, kafka, number, seed):
    pair = Pair(tmp_path, kafka, 1000 * number + seed, SETTINGS[number])
    for round_number in range(4):
        for _ in range(60):
            pair.step()
        pair.compare()
        if round_number % 2:
            pair.compare_questions()
    end = pair.log.log_end_offset
    start = pair.log.log_start_offset
    before = describe(pair.log)
    before.pop("recovery_point")
    # An epoch without a record is removed when a log is loaded.
    before["epochs"] = [entry for entry in before["epochs"] if entry[1] < end]
    kafka.close()
    pair.log.close()
    pair.compare_files()
    compare_reopened(pair, before, start, end)


def compare_reopened(pair: Pair, before: dict, start: int, end: int) -> None:
    """Each log opens the other's directory, as after a clean shutdown and as after a crash."""
    for was_clean in (True, False):
        arguments = {"was_clean": was_clean, "recovery_point": end if was_clean else 0}
        theirs = pair.kafka.open(
            pair.log.path,
            pair.workspace.clock,
            pair.settings,
            log_start_offset=start,
            **arguments,
        )
        pair.kafka.close()
        log = pair.other_workspace.reopen(
            arguments={"log_start_offset": start} | arguments, **pair.settings
        )
        ours = describe(log)
        log.close()
        if was_clean:
            assert_same(ours, theirs, without=("recovery_point",))
            assert_same(before, theirs)
        else:
            # Kafka deletes the snapshots below the log start offset, and loses the state in them.
            known = {producer[0]: producer for producer in ours["producers"]}
            for producer_id, epoch, _, timestamp, *_ in theirs["producers"]:
                assert known[producer_id][1] == epoch
                assert known[producer_id][3] == timestamp
            without = ("recovery_point", "producers", "last_stable_offset")
            assert_same(ours, theirs, without=without)


def test_an_epoch_without_a_record_is_dropped_when_the_log_is_loaded(tmp_path, kafka):
    """Kafka writes such an epoch to its checkpoint file, Odradek does not. A restart removes it."""
    pair = Pair(tmp_path, kafka, 1, SETTINGS[0])
    for _ in range(2):
        pair.next_epoch()
        pair.append(bytes(batch(b"a")))
    first, second = pair.log.leader_epochs.entries
    pair.next_epoch()
    pair.compare()
    kafka.close()
    pair.log.close()
    pair.compare_files()
    assert pair.kafkas_epochs() == [first, second, (pair.epoch, 2)]
    expected = [list(first), list(second)]
    loaded = {"was_clean": True, "recovery_point": 2}
    log = pair.other_workspace.reopen(arguments=loaded, **pair.settings)
    assert describe(log)["epochs"] == expected
    log.close()
    for path in (pair.log.path, pair.other_path):
        opened = kafka.open(path, pair.workspace.clock, pair.settings, **loaded)
        kafka.close()
        assert opened["epochs"] == expected
    pair.compare_files()
    assert pair.kafkas_epochs() == [first, second]


@pytest.mark.parametrize("was_clean", [True, False])
def test_of_a_producers_last_batches_the_newest_is_known_after_a_restart(
    tmp_path, kafka, was_clean
):
    """A snapshot has one batch per producer. After recovery Kafka takes a snapshot and loads it.

    Odradek keeps the batches that recovery has read, so it detects older duplicates after a crash.
    """
    pair = Pair(tmp_path, kafka, 1, SETTINGS[0])

    def numbered(sequence: int) -> bytes:
        return bytes(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence))

    for sequence in range(7):
        pair.append(numbered(sequence))
        if sequence in (2, 5):
            pair.roll()
    kafka.close()
    pair.log.close()
    if not was_clean:
        for workspace in (pair.workspace, pair.other_workspace):
            workspace.file_system.remove(
                f"{workspace.path}/{PARTITION}/{names.file_name(7, '.snapshot')}"
            )
    arguments = {"was_clean": was_clean, "recovery_point": 7 if was_clean else 0}
    kafka.open(pair.other_path, pair.workspace.clock, pair.settings, **arguments)
    log = pair.workspace.reopen(arguments=arguments, **pair.settings)
    refused = {"refused": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    for sequence in (0, 1, 2, 5, 6, 7):
        payload = numbered(sequence)
        theirs = kafka.append(payload, pair.workspace.clock)
        assert theirs.get("first") == (sequence if sequence > 5 else None), theirs
        if sequence > 5 or (not was_clean and sequence > 1):
            assert log.append_as_leader(bytearray(payload), 0).base_offset == sequence
        else:
            assert theirs == refused
            with pytest.raises(RecordsRefused) as caught:
                log.append_as_leader(bytearray(payload), 0)
            assert caught.value.code.name == refused["refused"]


def test_truncation_is_the_same(tmp_path, kafka):
    pair = Pair(tmp_path, kafka, 77, SETTINGS[0])
    pair.deletes = False  # otherwise Kafka loses the state of more producers than Odradek
    for _ in range(6):
        for _ in range(30):
            pair.step()
        offset = pair.draw.randint(pair.log.log_start_offset, pair.log.log_end_offset)
        kafka.ask("truncate", offset=offset)
        pair.log.truncate_to(offset)
        pair.next_epoch()
        pair.sequences = {
            producer.producer_id: producer.last_sequence + 1
            for producer in pair.log.active_producers()
        }
        pair.compare()
        pair.compare_questions()


def test_offsets_that_are_not_there_are_refused_by_both(tmp_path, kafka):
    pair = Pair(tmp_path, kafka, 5, SETTINGS[0])
    pair.plain()
    for offset in (-1, pair.log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            pair.log.read(offset, 100, pair.log.log_end_offset)
        with pytest.raises(Exception, match="OFFSET_OUT_OF_RANGE"):
            kafka.ask("read", offset=offset, max_bytes=100, isolation="LOG_END", whole_first=True)


@pytest.mark.slow("three runs of Apache Kafka's tool, each in a process of Java")
def test_dump_log_segments_reads_every_file(tmp_path, kafka):
    """`--deep-iteration`, `--index-sanity-check` and `--verify-index-only` report no errors."""
    workspace = LogWorkspace(tmp_path)
    workspace.storage = workspace.new_storage(verify_transactions=False)
    log = workspace.open(segment_bytes=3000, index_interval_bytes=100)
    for number in range(60):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 2 * number}
        append(log, b"a %d" % number, b"b", epoch=number // 20, codec=Codec(number % 5), **fields)
        append(
            log,
            (b"key", None),
            producer_id=8,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        end_transaction(log, number % 3 == 0, 8)
    log.close()
    files = [name for name in workspace.files() if name.startswith("0")]
    assert len(log.segments) > 3
    said = dump(log.path, files, "--deep-iteration", "--print-data-log")
    assert said.count("| offset: ") == log.log_end_offset
    assert said.count("endTxnMarker") == 60
    assert said.count("isvalid: true") == said.count("baseOffset: ") == 180
    assert said.count("producerId: 8 firstOffset:") == len(log.aborted_transactions(0, 999)) == 40
    assert said.count("Dumping ") == len(files)
    indexes = [name for name in files if name.endswith((".index", ".timeindex"))]
    assert dump(log.path, indexes, "--index-sanity-check").count("passed sanity") == len(indexes)
    dump(log.path, indexes, "--verify-index-only")


def test_dump_log_segments_reads_what_the_cleaner_wrote(tmp_path):
    workspace = LogWorkspace(tmp_path)
    workspace.storage = workspace.new_storage(verify_transactions=False)
    settings = {"cleanup_policy": "compact", "segment_bytes": 3000, "index_interval_bytes": 100}
    log = workspace.open(**settings, file_delete_delay_ms=0)
    for number in range(60):
        key = b"key %d" % (number % 7)
        append(log, (key, b"%d" % number * 20), codec=Codec(number % 5))
        fields = {"producer_id": 8, "producer_epoch": 0, "base_sequence": number}
        append(log, (b"other", None), is_transactional=True, **fields)
        end_transaction(log, number % 3 == 0, 8)
    log.roll()
    before = log.size
    clean(log, workspace)
    assert log.size < before // 2
    log.close()
    files = [name for name in workspace.files() if name.startswith("0")]
    said = dump(log.path, files, "--deep-iteration", has_gaps=True)
    assert said.count("isvalid: true") == said.count("baseOffset: ") == len(read_batches(log)) > 7
    indexes = [name for name in files if name.endswith((".index", ".timeindex"))]
    said = dump(log.path, indexes, "--index-sanity-check")
    assert said.count("passed sanity") + said.count(" is empty.") == len(indexes)
    assert said.count(" is empty.") == 1  # the index of the active segment


def dump(path: str, files: list[str], *options: str, has_gaps: bool = False) -> str:
    """Return the output of `DumpLogSegments`, which must not report an error."""
    jars = kafka_jars()
    names = ",".join(f"{path}/{name}" for name in files)
    words = command("org.apache.kafka.tools.DumpLogSegments", jars, options=OPTIONS)
    finished = subprocess.run(
        [*words, "--files", names, *options], capture_output=True, text=True, check=True
    )
    # It reports every file that does not begin at offset 0 as non-consecutive.
    gaps = [line for line in finished.stderr.splitlines() if " is followed by " in line]
    assert has_gaps or all(line.strip().startswith("-1 is ") for line in gaps), gaps
    for complaint in COMPLAINTS:
        assert complaint not in finished.stdout + finished.stderr
    return finished.stdout


COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "are not found in",
    "invalid bytes",
    "Ignoring unknown file",
    "Exception",
)
