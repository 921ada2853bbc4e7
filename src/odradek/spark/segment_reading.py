"""Reads a split from the segment files of a replica on this machine.

The brokers are asked every second what is safe to read (`replicas`), and the files are read up to
there, in large pieces. A piece is used only after these checks:

- every checksum is right (`batches.scan`),
- the file is still the segment's, and the directory the replica's, so nothing was removed or
  replaced while it was read,
- all batches end below the offset up to which reading is safe,
- the leader has the same batches, if the replica is a follower,
- if the piece has transactions and only committed records are read: the log is complete up to the
  high watermark, so that the transaction indexes have all markers.

If a check fails, the brokers and the files are asked again; if that leads to no further record, the
rest of the split is read through the broker, which then also decides about lost records. So this
module never raises an error for what happens to the files while it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from odradek.arrow import batches, columns
from odradek.arrow.batches import Scan
from odradek.client.cluster import Cluster
from odradek.client.deadline import Deadline
from odradek.client.errors import ClientError
from odradek.records.batch import TRANSACTIONAL_FLAG
from odradek.records.errors import RecordsError
from odradek.spark import replicas, segments
from odradek.spark.options import ReadFrom, ReadOptions
from odradek.spark.planning import Split
from odradek.spark.replicas import NoReplicaError, Replica
from odradek.spark.segments import Listing, SegmentFile, SegmentsChangedError

FIRST_PIECE_BYTES: Final = 1 << 20
PIECE_BYTES: Final = 8 << 20
VALID_MS: Final = 1000
"""After this time the brokers are asked again what is safe to read."""


class ReplicaError(RuntimeError):
    """The option readFrom=segments was given, and a task has no replica that it can read."""


class SegmentReader:
    """Iterates over the Arrow batches of a split, as far as they can be read from files.

    `next_offset` is the offset after them. The rest must be read through the broker.
    """

    def __init__(self, cluster: Cluster, options: ReadOptions, split: Split) -> None:
        self.next_offset = split.start
        self._cluster = cluster
        self._options = options
        self._split = split
        self._piece_bytes = FIRST_PIECE_BYTES
        self._is_complete = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        is_first = True
        while self.next_offset < self._split.end:
            before = self.next_offset
            try:
                replica = self._find()
            except ClientError:
                return  # Reading through the broker is patient, and explains the error.
            except NoReplicaError as error:
                if is_first and self._options.read_from is ReadFrom.SEGMENTS:
                    raise self._explained(error) from None
                return
            is_first = False
            try:
                yield from self._read(replica)
            except PermissionError as error:
                if self._options.read_from is ReadFrom.SEGMENTS:
                    raise self._explained(error) from None
                return
            except (SegmentsChangedError, RecordsError, ClientError, OSError):
                pass
            if self.next_offset == before:
                return

    def _find(self) -> Replica:
        options = self._options
        return replicas.find(
            self._cluster,
            options.log_directories,
            self._split.topic_partition,
            options.read_committed,
        )

    def _explained(self, error: Exception) -> ReplicaError:
        return ReplicaError(
            f"partition {self._split.topic_partition} cannot be read from segments: {error}. With "
            "readFrom=auto it is read through the broker"
        )

    # -- segments ---------------------------------------------------------------------------

    def _read(self, replica: Replica) -> Iterator[pa.RecordBatch]:
        """Read while the answers of the brokers are valid.

        Raises:
            SegmentsChangedError, RecordsError, ClientError, OSError: a check failed.
        """
        stop = min(self._split.end, replica.end)
        if not replica.start <= self.next_offset < stop:
            return
        valid, began = Deadline(VALID_MS), self.next_offset
        self._is_complete = False
        listing = segments.list_segments(replica.path)
        aborted = None
        if self._options.read_committed:
            aborted = segments.read_aborted(replica.path, listing, self.next_offset, stop)
            if valid.expired:  # Since it has answered, the broker may have begun to repair the log.
                raise SegmentsChangedError("the transaction indexes were read too slowly")
        while self.next_offset < stop:
            base = listing.floor(self.next_offset)
            with segments.opened(replica.path, base) as file:
                for scan in self._scans(replica, file, stop, aborted):
                    wanted = range(self.next_offset, stop)
                    for rows in columns.record_batches(
                        scan, *self._split.topic_partition, wanted, self._options.reads_headers
                    ):
                        if rows.num_rows:  # The next part may be damaged.
                            self.next_offset = rows.column("offset")[-1].as_py() + 1
                        yield rows
                    self.next_offset = scan.next_offset
                    if valid.expired and self.next_offset > began:
                        return
                if self.next_offset >= stop:
                    return
                listing = self._after(replica, file, listing)

    def _after(self, replica: Replica, file: SegmentFile, listing: Listing) -> Listing:
        """Go on to the next segment, and return the list of segments that has it.

        Offsets before it do not exist, because compaction has removed their records. This holds only
        if no segment between the two was missing from the list for a moment.

        Raises:
            SegmentsChangedError: the file is the last one, or the segments have changed.
        """
        following = listing.following(file.base)
        listing = segments.list_segments(replica.path)
        file.check()
        if following is None or listing.following(file.base) != following:
            raise SegmentsChangedError(f"{replica.path} has other segments")
        self.next_offset = max(self.next_offset, following)
        return listing

    def _scans(
        self, replica: Replica, file: SegmentFile, stop: int, aborted: batches.Aborted | None
    ) -> Iterator[Scan]:
        """Yield the checked pieces of a file, from the next offset to `stop` or to the file's end.

        Raises:
            SegmentsChangedError, RecordsError, ClientError, OSError: a check failed.
        """
        position = file.position_before(self.next_offset)
        while self.next_offset < stop:
            size = self._piece_bytes
            data = file.read(position, size)
            scan = batches.scan(data, self.next_offset, stop, aborted)
            if len(scan.headers):
                self._check(replica, scan, aborted is not None)
                position += scan.size
                self._piece_bytes = max(size, PIECE_BYTES)
            elif len(data) == size:
                self._piece_bytes = 2 * size  # The next batch is larger than the piece.
                continue
            elif data and scan.next_offset < stop:
                raise SegmentsChangedError("the last batch of a file is incomplete")
            file.check()
            replica.check_directory()
            yield scan
            if len(data) < size and scan.size == len(data):
                return

    # -- checks -----------------------------------------------------------------------------

    def _check(self, replica: Replica, scan: Scan, read_committed: bool) -> None:
        """Check that what was read may be used.

        Raises:
            SegmentsChangedError: it may not.
            RecordsError, ClientError, OSError: this cannot be checked.
        """
        headers = scan.headers
        last_offset = int(headers["base_offset"][-1]) + int(headers["last_offset_delta"][-1])
        if last_offset >= replica.end:
            raise SegmentsChangedError(f"the batch that ends at {last_offset} is not the leader's")
        has_transactions = bool(np.any(headers["attributes"] & TRANSACTIONAL_FLAG))
        if has_transactions and read_committed and not self._is_complete:
            self._check_complete(replica)
        if not replica.has(self._cluster, int(headers["leader_epoch"][-1]), last_offset):
            raise SegmentsChangedError(f"the batch that ends at {last_offset} is not the leader's")

    def _check_complete(self, replica: Replica) -> None:
        """Check that the files have everything up to the high watermark.

        This does not hold for a former copy of the directory, nor for a follower that is behind. Their
        transaction indexes may lack aborted transactions.

        Raises:
            SegmentsChangedError: the files may lack something.
            RecordsError, OSError: the files cannot be read.
        """
        if not replica.has_all_markers:
            raise SegmentsChangedError("the follower may lack markers of transactions")
        last = replica.high_watermark - 1
        listing = segments.list_segments(replica.path)
        self._is_complete = listing.bases[-1] > last  # Then `last` may be in a compacted segment.
        if self._is_complete:
            return
        with segments.opened(replica.path, listing.floor(last)) as file:
            position, size = file.position_before(last), FIRST_PIECE_BYTES
            while True:
                data = file.read(position, size)
                found = batches.scan(data, last, last + 1)
                if found.next_offset > last:
                    break
                if found.size == 0 and len(data) == size:
                    size *= 2
                elif len(data) < size:
                    raise SegmentsChangedError(f"{replica.path} ends before offset {last}")
                position += found.size
        self._is_complete = True
