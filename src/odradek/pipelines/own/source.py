"""Where the rows of a pipeline are from: files, or lines that a program makes; `topic` has topics.

A source puts its rows into a topic once (`send`), is a stream of rows for any number of queries
(`stream`), and shows DuckDB what was given (`load`). When all queries have processed all rows, `end`
writes one row with a time in the far future to the topic `TOPIC.end`, which each stream reads too. It
ends all windows. So a person's own topic gets no record.
"""

from __future__ import annotations

import contextlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from odradek.pipelines.inputs import blocks, files
from odradek.pipelines.own import formats, stream
from odradek.pipelines.own.fields import INTEGER, NUMBER, TIME, Field, Fields
from odradek.pipelines.own.formats import Wanted
from odradek.pipelines.own.rows import Row, rows
from odradek.pipelines.own.shipping import (
    LISTED_MAX,
    Position,
    Shipment,
    Shipper,
    ends,
    ship_files,
)
from odradek.pipelines.places import Line, PipelineError, Places

SKIPPED_SHOWN = 10
PER_BATCH_MIN = 2_000
END = ".end"
END_NAME = "end"
"""The text in the fields of the last row."""
NOTE = ".input.json"
"""The end of the name of a file in the output, which says what was given to a topic. A run continues
only with the same."""


class Source(ABC):
    """The rows of a pipeline."""

    keeps_order = True
    """Whether rows with the same key are in the topic in the order in which they were given."""

    def __init__(self, topic: str, fields: Fields) -> None:
        self.topic = topic
        self.fields = fields
        self.count = 0
        """The number of records in the topic."""

    @abstractmethod
    def note(self) -> dict[str, Any]:
        """Return what was given, as JSON."""

    @abstractmethod
    def send(self, console: Console, places: Places) -> None:
        """Put the rows that are missing into the topic, and print what is skipped."""

    @abstractmethod
    def load(self, places: Places, given: Any) -> None:
        """Add what was given to the tables of DuckDB (`given.Given`)."""

    @property
    @abstractmethod
    def lines_skipped(self) -> int:
        """The number of lines that are not in the topic because they are no rows."""

    def begin(self, console: Console, places: Places) -> None:
        """Check that a run that continues has the same source, create topics, and send.

        Raises:
            PipelineError: the output has results of another source.
        """
        path = places.output / f"{self.topic}{NOTE}"
        note = {**self.note(), "fields": {each.name: list(each.columns) for each in self.fields}}
        if not path.exists():
            places.output.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(note), encoding="utf-8")
        elif json.loads(path.read_text(encoding="utf-8")) != note:
            raise PipelineError(
                f"{places.output} has the results of other input or options (see {path}): remove "
                "it, or choose another --output"
            )
        places.create(f"{self.topic}{END}", partitions=1)
        self.send(console, places)

    def stream(
        self, places: Places, per_batch: int | None = None, group: str | None = None
    ) -> DataFrame:
        """Return the rows as a stream, with the columns of records that Spark's source has."""
        return stream.rows(self.records(places, per_batch, group), self.fields)

    def records(
        self, places: Places, per_batch: int | None = None, group: str | None = None
    ) -> DataFrame:
        """Return the records of the topic and the last row, as a stream."""
        topics = f"{self.topic},{self.topic}{END}"
        return self._bounded(places.stream(topics, None, per_batch, group))

    def read(self, places: Places) -> DataFrame:
        """Return the records of the topic, for a batch query."""
        return self._bounded(places.read(self.topic))

    def rejected(self, places: Places) -> int:
        """Return the number of records that are no rows for the stream."""
        found = stream.parsed(self.read(places), self.fields)
        return found.where("NOT is_row").count()

    def end(self, places: Places) -> None:
        """Write the last row, if no earlier run has."""
        topic = f"{self.topic}{END}"
        if any(ends(places, topic).values()):
            return
        places.send(topic, [(END_NAME, json.dumps(self.last_row()))])

    def last_row(self) -> dict[str, Any]:
        """Return a row with a time in the far future."""
        return {each.columns[0]: _last_value(each) for each in self.fields}

    def is_begun(self, places: Places) -> bool:
        """Return whether this or an earlier run has begun to send."""
        return (places.output / f"{self.topic}{NOTE}").exists()

    @property
    def per_batch(self) -> int:
        """How many records a micro-batch has: about four micro-batches read all."""
        return max(PER_BATCH_MIN, self.count // 4)

    def follow(
        self, console: Console, places: Places, start: Callable[[], list[StreamingQuery]]
    ) -> None:
        """Let the queries of `start` run while rows come, if the source is followed (`topic.Topic`)."""
        del console, places, start

    def has_ended(self, places: Places) -> bool:
        """Return whether the last row was written."""
        return any(ends(places, f"{self.topic}{END}").values())

    def _bounded(self, records: DataFrame) -> DataFrame:
        return records

    def lines(self, places: Places, given_count: int, bad_count: int) -> list[Line]:
        """Return what is compared of the input itself, with the numbers of DuckDB."""
        rejected = self.rejected(places)
        return [
            ("lines that were given", given_count, self.count + self.lines_skipped),
            ("lines that are no rows", bad_count, rejected + self.lines_skipped),
        ]


def _last_value(field: Field) -> Any:
    if field.kind == TIME:
        return stream.END_TIME
    return 0 if field.kind in {INTEGER, NUMBER} else END_NAME


class Shipped(Source):
    """Rows that are sent to a topic of the pipeline."""

    def __init__(
        self, topic: str, fields: Fields, keys: Sequence[str], partitions: int = 2
    ) -> None:
        super().__init__(topic, fields)
        self.keys = [each for each in fields if each.name in keys]
        self._partitions = partitions
        self.shipment = Shipment()

    @abstractmethod
    def _ship(self, shipper: Shipper) -> Shipment:
        """Send the rows that are missing."""

    @property
    def lines_skipped(self) -> int:
        """See `Source`."""
        return self.shipment.lines_skipped

    def send(self, console: Console, places: Places) -> None:
        """See `Source`."""
        places.create(self.topic, partitions=self._partitions)
        had_ended = self.has_ended(places)
        shipper = Shipper(places, self.topic, places.on_sent)
        self.shipment = shipment = self._ship(shipper)
        self.count = shipment.sent
        for text in listed(shipment):
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        new = shipment.sent - shipment.sent_before
        console.print(f"{shipment.sent:,} rows are in the topic {self.topic}")
        if had_ended and new:
            raise PipelineError(
                f"the input has {new:,} rows more than when the pipeline had ended: remove "
                f"{places.output}, or choose another --output"
            )
        if not shipment.sent:
            raise PipelineError("the input has no rows")


def listed(shipment: Shipment) -> list[str]:
    """Return lines for people: what of the input is not in the topic."""
    found = [str(each) for each in shipment.skipped]
    found += [f"{file}: line {line} is no row: {why}" for file, line, why in shipment.bad]
    shown = found[:SKIPPED_SHOWN]
    more = len(found) - len(shown)
    if more:
        count = f"{more:,}" if len(shipment.bad) < LISTED_MAX else f"more than {more:,}"
        shown.append(f"... and {count} more")
    return shown


class Files(Shipped):
    """Files, and what is in directories, also compressed; and the standard input."""

    def __init__(
        self,
        topic: str,
        fields: Fields,
        keys: Sequence[str],
        given: Sequence[Path],
        wanted: Wanted,
    ) -> None:
        super().__init__(topic, fields, keys)
        self._given = given
        self._wanted = wanted

    def note(self) -> dict[str, Any]:
        """See `Source`."""
        return {"input": [str(each) for each in self._given]}

    def _opened(self, path: Path) -> Iterator[Row]:
        return rows(path, formats.find(path, self._wanted), self.keys)

    def _ship(self, shipper: Shipper) -> Shipment:
        found = files(self._given, shipper.places.output / "input")
        on_total = shipper.places.on_total
        if on_total is not None:
            counting = threading.Thread(target=_count, args=(found, on_total), daemon=True)
            counting.start()
        return ship_files(shipper, found, self._opened)

    def load(self, places: Places, given: Any) -> None:
        """See `Source`."""
        del places
        for path in sorted(map(Path, self.shipment.positions)):
            position = self.shipment.positions[str(path)]
            given.add_file(path, formats.find(path, self._wanted), position)


def _count(paths: Sequence[Path], on_total: Callable[[int], None]) -> None:
    """Count the lines of files, for the view. What cannot be read is reported elsewhere."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            if formats.find(path, Wanted()).kind == formats.PARQUET:
                total += formats.parquet_rows(path)
            else:
                total += sum(block.count(b"\n") for block in blocks(path))
    on_total(total)


@dataclass(frozen=True, slots=True)
class MadeLines:
    """Lines of JSON that a program makes, the same each time."""

    name: str
    make: Callable[[], Iterator[tuple[str, str]]]
    """Returns pairs of a key and an object of JSON."""


class Made(Shipped):
    """The data of an example."""

    def __init__(self, topic: str, fields: Fields, keys: Sequence[str], made: MadeLines) -> None:
        super().__init__(topic, fields, keys)
        self._made = made

    def note(self) -> dict[str, Any]:
        """See `Source`."""
        return {"made": self._made.name}

    def _ship(self, shipper: Shipper) -> Shipment:
        pairs = enumerate(self._made.make(), 1)
        with shipper.opened() as producer:
            found = (Row(number, key, text) for number, (key, text) in pairs)
            shipper.ship(producer, self._made.name, found)
        return shipper.shipment

    def load(self, places: Places, given: Any) -> None:
        """See `Source`."""
        del places
        position = self.shipment.positions.get(self._made.name, Position())
        texts = ((number, text) for number, (_, text) in enumerate(self._made.make(), 1))
        given.add_objects(self._made.name, [each for each in texts if each[0] <= position.lines])
