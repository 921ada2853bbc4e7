"""Writes the rows of files to a topic, each once, even if the process is killed and started again.

The rows of a transaction and the positions in their files are committed together: the positions are
records of the compacted topic `TOPIC.positions`, with the file as key. So a run that starts again knows
what is in the topic, and a reader with `read_committed` sees each row once.

A last line without a line break is sent as it is. If the file has grown when the run starts again, the
line may have been only a part. What it is part of cannot be sent any more, so the rest of the file is
listed as skipped, and not sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path

from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.offsets import EARLIEST, LATEST, READ_COMMITTED, offsets_at
from odradek.client.producer import Producer
from odradek.model.topic_partition import TopicPartition
from odradek.pipelines.inputs import DamagedError, Skipped, after, lines
from odradek.pipelines.own.formats import FormatError
from odradek.pipelines.own.rows import Row
from odradek.pipelines.places import Places, StoppedError
from odradek.records.record import Record

ROWS_PER_TRANSACTION = 10_000
POSITIONS = ".positions"
LISTED_MAX = 1_000
"""More rows that are skipped are only counted."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file is in the topic."""

    lines: int = 0
    """The number of the last line (or row of Parquet) that was read."""
    sent: int = 0
    skipped: int = 0
    """Lines that are no rows."""
    cut_at_bytes: int | None = None
    """The size of the content when it was sent, if its last line had no line break."""


@dataclass(slots=True)
class Shipment:
    """What is in the topic, and what is not."""

    positions: dict[str, Position] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    """Files, or their rest."""
    bad: list[tuple[str, int, str]] = field(default_factory=list)
    """The file, the line and the reason of the first lines that are no rows."""
    sent_before: int = 0
    """The number of rows that earlier runs have sent."""

    @property
    def sent(self) -> int:
        """The number of rows in the topic."""
        return sum(each.sent for each in self.positions.values())

    def begun(self) -> None:
        """Note what earlier runs have sent."""
        self.sent_before = self.sent

    def note_bad(self, name: str, rows: list[Row]) -> None:
        """Add lines that are no rows to the list, if it has room."""
        room = LISTED_MAX - len(self.bad)
        self.bad += [(name, row.number, row.reason) for row in rows[:room]]

    @property
    def lines_skipped(self) -> int:
        """The number of lines that are no rows."""
        return sum(each.skipped for each in self.positions.values())


Opened = Callable[[Path], Iterator[Row]]
"""Returns the rows of a file. It raises FormatError with the reason why a file is not read."""


class Shipper:
    """Writes rows to one topic. Only one process at a time can ship to a topic: it fences the others."""

    def __init__(self, places: Places, topic: str, on_sent: Callable[[int], None]) -> None:
        """`on_sent` is called with the number of rows in the topic after each transaction."""
        self.places = places
        self._topic = topic
        self._on_sent = on_sent
        self._positions_topic = f"{topic}{POSITIONS}"
        self.shipment = Shipment()

    @contextmanager
    def opened(self) -> Iterator[Producer]:
        """Create the topic of positions, fence earlier processes, and read their positions."""
        self.places.create(self._positions_topic, partitions=1, cleanup_policy="compact")
        identity = f"odradek-pipeline-{self._topic}"
        with (
            self.places.connect() as cluster,
            Producer(cluster, transactional_id=identity, linger_ms=20) as producer,
        ):
            producer.init_transactions()
            for record in read_all(self.places, self._positions_topic):
                assert record.key is not None
                assert record.value is not None
                position = Position(**json.loads(record.value))
                self.shipment.positions[record.key.decode()] = position
            self.shipment.begun()
            yield producer

    def ship(self, producer: Producer, name: str, rows: Iterable[Row]) -> None:
        """Write the rows of a file that are not in the topic yet.

        Raises:
            StoppedError: the user has stopped the pipeline.
            DamagedError: the file cannot be read further. What was read is written.
        """
        position = self.shipment.positions.get(name, Position())
        damage: DamagedError | None = None
        left = _after(rows, position.lines)
        while damage is None:
            if self.places.stopping.is_set():
                raise StoppedError("stopped")
            part, damage = _part(left)
            if not part:
                break
            position = self._write(producer, name, part, position)
        if name not in self.shipment.positions:
            self.shipment.positions[name] = position
        if damage is not None:
            raise damage

    def _write(self, producer: Producer, name: str, part: list[Row], before: Position) -> Position:
        bad = [row for row in part if row.reason]
        after = replace(
            before,
            lines=part[-1].number,
            sent=before.sent + len(part) - len(bad),
            skipped=before.skipped + len(bad),
            cut_at_bytes=part[-1].cut_at_bytes,
        )
        with producer.transaction():
            for row in part:
                if not row.reason:
                    producer.send(self._topic, row.value.encode(), key=row.key.encode())
            content = json.dumps(asdict(after)).encode()
            producer.send(self._positions_topic, content, key=name.encode())
        self.shipment.positions[name] = after
        self.shipment.note_bad(name, bad)
        self._on_sent(self.shipment.sent)
        return after


def _after(rows: Iterable[Row], line: int) -> Iterator[Row]:
    return (row for row in rows if row.number > line)


def _part(rows: Iterator[Row]) -> tuple[list[Row], DamagedError | None]:
    """Return the rows of the next transaction, and why the file cannot be read after them."""
    part: list[Row] = []
    try:
        for row in rows:
            part.append(row)
            if len(part) == ROWS_PER_TRANSACTION:
                break
    except DamagedError as error:
        return part, error
    return part, None


def ship_files(shipper: Shipper, files: Iterable[Path], opened: Opened) -> Shipment:
    """Write the rows of files that are not in the topic yet."""
    shipment = shipper.shipment
    with shipper.opened() as producer:
        for path in files:
            name = str(path)
            try:
                rest = _rest_of_line(path, shipment.positions.get(name, Position()))
                if rest is not None:
                    shipment.skipped.append(rest)
                    continue
                shipper.ship(producer, name, opened(path))
            except PermissionError:
                shipment.skipped.append(Skipped(name, "you may not read it", None))
            except DamagedError as error:
                lines = shipment.positions.get(name, Position()).lines
                reason = f"it is damaged after line {lines:,}: {error}"
                shipment.skipped.append(Skipped(name, reason, None))
            except FormatError as error:
                shipment.skipped.append(Skipped(name, str(error), error.lines))
    return shipment


def _rest_of_line(path: Path, position: Position) -> Skipped | None:
    """Return what is not sent of a file whose last line has grown since it was sent."""
    if position.cut_at_bytes is None:
        return None
    rest = after(path, position.cut_at_bytes)
    start = next(rest, b"")
    if not start or start.startswith((b"\n", b"\r\n")):
        return None
    count = sum(1 for _ in lines(chain([start], rest)))
    reason = (
        f"line {position.lines:,} had no end when it was sent, and the file has grown since. To read "
        "all of it, start again with another --output"
    )
    return Skipped(str(path), reason, count)


def read_all(places: Places, topic: str) -> Iterator[Record]:
    """Yield the committed records that are in a topic now, partition by partition."""
    for _, records in read_partitions(places, ends(places, topic)):
        yield from records


def ends(places: Places, topic: str) -> dict[TopicPartition, int]:
    """Return the offsets after the last committed records of a topic's partitions."""
    with places.connect() as cluster:
        partitions = [TopicPartition(topic, index) for index in cluster.topic(topic).partitions]
        return offsets_at(cluster, partitions, LATEST, isolation=READ_COMMITTED)


def read_partitions(
    places: Places, until: dict[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Yield the committed records before some offsets, in parts."""
    with places.connect() as cluster:
        starts = offsets_at(cluster, until, EARLIEST)
        for batch in read_to_ends(cluster, starts, READ_COMMITTED, until):
            partition = batch.topic_partition
            yield partition, [each for each in records_of(batch) if each.offset < until[partition]]
