"""Random logs in the files of `odradek.log`, and reads of them: from files, and as from a broker."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.log.cleaner.support import clean_wholly
from tests.log.support import NOW_MS, PARTITION, LogWorkspace, batch, end_transaction, read_bytes

from odradek.client.errors import BrokerError
from odradek.client.metadata import Partition
from odradek.env.file_system import OsFileSystem
from odradek.log import OffsetOutOfRange, PartitionLog
from odradek.model.errors import ErrorCode
from odradek.records.compression import Codec
from odradek.spark.fetching import SplitReader
from odradek.spark.options import ReadFrom, ReadOptions, read_options
from odradek.spark.planning import Split
from odradek.spark.replicas import Replica
from odradek.spark.segment_reading import SegmentReader
from odradek.wire.generated.fetch_response import AbortedTransaction, PartitionData

LEADER = Partition(0, 1, 0, (1,), (1,), ())
FETCH_BYTES = 5000
KEYS = [b"key%d" % i for i in range(9)]
PRODUCERS = (1, 2, 3)


def read_options_for(read_committed: bool, read_from: ReadFrom = ReadFrom.AUTO) -> ReadOptions:
    given = {"bootstrap.servers": "127.0.0.1:1", "subscribe": "topic", "includeHeaders": "true"}
    parsed = read_options(given, streaming=False)
    return replace(parsed, read_committed=read_committed, read_from=read_from)


class WatchedFileSystem(OsFileSystem):
    """Calls `on_change` after each change of a name."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.on_change()

    def remove(self, path: str) -> None:
        super().remove(path)
        self.on_change()


class History:
    """A log that grows and shrinks at random."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.files = WatchedFileSystem()
        self.workspace = LogWorkspace(directory, self.files)
        self.workspace.storage = self.workspace.new_storage(verify_transactions=False)
        self.log = self.workspace.open(
            **{"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": 0.01},
            preallocate=self.draw.random() < 0.3,
            segment_bytes=self.draw.choice((1000, 3000, 1 << 20)),
            index_interval_bytes=self.draw.choice((0, 100, 4096)),
            file_delete_delay_ms=0,
            delete_retention_ms=1000,
        )
        self._open: set[int] = set()
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def step(self) -> None:
        """Append or end a transaction, often; remove records, seldom."""
        draw = self.draw
        producer = draw.choice([None, None, *PRODUCERS])
        chance = draw.random()
        if chance < 0.03:
            self.compact()
        elif chance < 0.05:
            self.delete(self.log.high_watermark // 3)
        elif producer in self._open and draw.random() < 0.4:
            self._open.discard(producer)
            end_transaction(self.log, draw.random() < 0.5, producer, 0)
        else:
            self.append(producer)

    def append(self, producer: int | None = None) -> None:
        """Append a batch of any codec; of a transaction if there is a producer."""
        draw = self.draw
        records = [
            (draw.choice(KEYS), None if draw.random() < 0.2 else draw.randbytes(draw.randrange(80)))
            for _ in range(draw.randint(1, 8))
        ]
        fields: dict = {}
        if producer is not None:
            fields = {"producer_id": producer, "producer_epoch": 0, "is_transactional": True}
            fields["base_sequence"] = self._sequences[producer]
            self._sequences[producer] += len(records)
            self._open.add(producer)
        if draw.random() < 0.1:
            fields["log_append_time"] = NOW_MS
        times = NOW_MS - draw.randrange(1000)
        codec = draw.choice(list(Codec))
        self.log.append_as_leader(batch(*records, timestamp=times, codec=codec, **fields), 0)
        self.log.high_watermark = self.log.log_end_offset

    def compact(self) -> None:
        """Clean the log, perhaps after so much time that tombstones and markers go."""
        self.workspace.clock.ms += self.draw.choice((0, 5000))
        self.log.roll()
        clean_wholly(self.log, self.workspace)

    def delete(self, offset_max: int) -> None:
        """Delete records before a random offset, and the segments that have no others."""
        self.log.delete_records_before(self.draw.randint(0, offset_max))
        self.log.delete_old_segments()

    def splits(self, count: int) -> Iterator[Split]:
        """Yield the whole log, and random parts of it."""
        start, end = self.log.log_start_offset, self.log.high_watermark
        yield Split(PARTITION, start, end)
        for _ in range(count):
            first, last = sorted(self.draw.randint(start, end) for _ in range(2))
            yield Split(PARTITION, first, last)


class BrokerReader(SplitReader):
    """Reads as through a broker that has this log."""

    def __init__(self, log: PartitionLog, options: ReadOptions, split: Split) -> None:
        super().__init__(None, options, split)
        self._log = log

    def _fetch(self, offset: int) -> PartitionData:
        log, committed = self._log, self._options.read_committed
        limit = log.last_stable_offset if committed else log.high_watermark
        try:
            found = log.read(offset, FETCH_BYTES, limit=limit, with_aborted=committed)
        except OffsetOutOfRange:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE) from None
        data = read_bytes(log, offset, FETCH_BYTES, limit=limit)
        aborted = () if found is None else found.aborted_transactions
        return PartitionData(
            records=data,
            aborted_transactions=[
                AbortedTransaction(producer_id=each[0], first_offset=each[1]) for each in aborted
            ],
        )

    def _send_ahead(self, offset: int) -> None:
        pass

    def _after_loss(self, offset: int) -> int:
        return self._log.log_start_offset


class FilesReader(SegmentReader):
    """Reads the files of this log. The answers of the broker come from the log itself.

    `differences` are fields of the replica that are not as in the log.
    """

    def __init__(
        self, log: PartitionLog, options: ReadOptions, split: Split, **differences: object
    ) -> None:
        super().__init__(None, options, split)
        self._log = log
        self._differences = differences
        self.count_found = 0
        """How often the broker was asked."""

    def _find(self) -> Replica:
        self.count_found += 1
        log = self._log
        committed = self._options.read_committed
        replica = Replica(
            path=log.path,
            inode=os.stat(self._differences.get("path", log.path)).st_ino,
            topic_partition=PARTITION,
            leader=LEADER,
            is_leader=True,
            start=log.log_start_offset,
            end=log.last_stable_offset if committed else log.high_watermark,
            high_watermark=log.high_watermark,
            stored_high_watermark=None,
        )
        return replace(replica, **self._differences)


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict]:
    """All rows, without the columns that are the same in all of them."""
    return [
        {name: value for name, value in row.items() if name not in ("topic", "partition")}
        for each in batches
        for row in each.to_pylist()
    ]
