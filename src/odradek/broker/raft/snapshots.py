"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint`.

A snapshot contains record batches whose offsets begin at 0 and whose epoch is the snapshot's: a
control batch with a header (and kraft.version and voters), batches of records, and a control batch
with a footer. A snapshot without a footer is incomplete. `bootstrap.checkpoint` has the same
format. A snapshot is written as `.checkpoint.part` and then renamed. Before a snapshot is deleted,
it is renamed to `.checkpoint.deleted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.broker.raft.control import (
    ControlMessage,
    QuorumSettings,
    control_batch_of,
    control_messages,
)
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import VoterSet
from odradek.env.file_system import CREATE_EMPTY, FileSystem, read_file, write_fully
from odradek.log.errors import DamagedFile
from odradek.records.batch import iterate_batches
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import ControlType
from odradek.records.errors import RecordsError
from odradek.records.record import iterate_records
from odradek.wire.generated.snapshot_footer_record import SnapshotFooterRecord
from odradek.wire.generated.snapshot_header_record import SnapshotHeaderRecord
from odradek.wire.primitives import MalformedMessage

CHECKPOINT = ".checkpoint"
PARTIAL = ".checkpoint.part"
DELETED = ".checkpoint.deleted"

BATCH_SIZE = 1 << 20
"""Bytes of records after which a new batch of a snapshot begins."""


class SnapshotId(OffsetAndEpoch):
    """What a snapshot contains: the log up to `offset`, exclusive, whose last epoch is `epoch`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.offset:020d}-{self.epoch:010d}{CHECKPOINT}"


STARTING = SnapshotId(0, 0)
"""The zero checkpoint, from formatting: kraft.version, the voters and the first records.

As in Apache Kafka, its records are not the state of the cluster. The first leader appends them to the
empty log, from which all nodes get them (`node.format`). So it is never sent to another node.
"""


class SnapshotFile(NamedTuple):
    """A file in the directory of the log."""

    id: SnapshotId
    name: str
    is_whole: bool
    """Whether the file is a whole snapshot that is not to be deleted."""


_NAME = re.compile(r"(\d{20})-(\d{10})(-[^.]*)?(\.checkpoint(?:\.part|\.deleted)?)", re.ASCII)


def parse_name(name: str) -> SnapshotFile | None:
    """Parse a file's name; None if it is not a snapshot."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    snapshot_id = SnapshotId(int(found[1]), int(found[2]))
    return SnapshotFile(snapshot_id, name, found[3] is None and found[4] == CHECKPOINT)


class SnapshotPart(NamedTuple):
    """A part of a snapshot's file, and the size of the file."""

    size: int
    data: bytes


def partial_name(path: str) -> str:
    """The name of a snapshot's file while the snapshot is being written."""
    return path.removesuffix(CHECKPOINT) + PARTIAL


class Snapshot(NamedTuple):
    """The content of a snapshot."""

    last_contained_timestamp: int
    settings: QuorumSettings
    values: list[bytes]
    """The encoded metadata records, in order."""


def read_snapshot(file_system: FileSystem, path: str) -> Snapshot:
    """The content of a snapshot.

    Raises:
        DamagedFile: the snapshot is damaged or incomplete.
        OSError: the file cannot be read.
    """
    data = read_file(file_system, path)
    settings = QuorumSettings(VoterSet())
    values: list[bytes] = []
    last: ControlType | None = None
    timestamp = 0
    try:
        for batch in iterate_batches(data):
            batch.check()
            if not batch.is_control:
                values += [record.value or b"" for record in iterate_records(batch)]
                last = None
                continue
            for kind, message in control_messages(batch):
                settings.replay(kind, message, -1)
                if isinstance(message, SnapshotHeaderRecord):
                    timestamp = message.last_contained_log_timestamp
                last = kind
    except (RecordsError, MalformedMessage) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error
    if last is not ControlType.SNAPSHOT_FOOTER:
        raise DamagedFile(f"{path} is not whole: it does not end with a footer")
    return Snapshot(timestamp, settings, values)


def snapshot_batches(
    epoch: int,
    last_contained_timestamp: int,
    settings: Iterable[ControlMessage],
    values: Iterable[bytes],
    now_ms: int,
) -> Iterator[bytearray]:
    """Yield the batches of a snapshot."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_timestamp)
    first: list[ControlMessage] = [(ControlType.SNAPSHOT_HEADER, header), *settings]
    yield control_batch_of(first, 0, epoch, now_ms)
    builder = RecordBatchBuilder(base_offset=len(first), leader_epoch=epoch)
    for value in values:
        if builder.count and builder.size + len(value) > BATCH_SIZE:
            yield builder.build()
            builder = RecordBatchBuilder(base_offset=builder.next_offset, leader_epoch=epoch)
        builder.append(now_ms, None, value)
    if builder.count:
        yield builder.build()
    footer: list[ControlMessage] = [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord())]
    yield control_batch_of(footer, builder.next_offset, epoch, now_ms)


def write_snapshot(
    file_system: FileSystem, path: str, batches: Iterable[bytearray], directory: str
) -> int:
    """Write a snapshot atomically and durably; return its size in bytes.

    Raises:
        OSError: the device failed or is full; there is no new snapshot.
    """
    partial = partial_name(path)
    descriptor = file_system.open(partial, CREATE_EMPTY)
    position = 0
    try:
        for batch in batches:
            write_fully(file_system, descriptor, batch, position)
            position += len(batch)
        file_system.fsync(descriptor)
    finally:
        file_system.close(descriptor)
    file_system.rename(partial, path)
    file_system.sync_directory(directory)
    return position
