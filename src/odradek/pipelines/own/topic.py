"""A topic that exists as the source of a pipeline: the records that it has, or that it gets for a time.

The file `TOPIC.bounds.json` in the output has the offsets at which the pipeline ends. All queries and
the check read the records before them. A topic that is followed gets its bounds when its time is over.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from odradek.model.topic_partition import TopicPartition
from odradek.pipelines.own import formats
from odradek.pipelines.own.fields import Fields, lacking
from odradek.pipelines.own.shipping import ends, read_partitions
from odradek.pipelines.own.source import Source
from odradek.pipelines.places import PipelineError, Places, StoppedError

BOUNDS = ".bounds.json"
POLL_S = 0.2
FOLLOWED_PER_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class Following:
    """A topic is followed for `seconds`; without them until the user stops the pipeline."""

    seconds: float | None = None


class Topic(Source):
    """The records of a topic. Their values are objects of JSON."""

    keeps_order = False
    all_have_columns = True
    """Whether the values must have the columns of the required fields."""

    def __init__(self, topic: str, fields: Fields, following: Following | None = None) -> None:
        super().__init__(topic, fields)
        self._following = following
        self._until: dict[TopicPartition, int] = {}
        """The bounds; nothing if there are none yet."""

    @property
    def lines_skipped(self) -> int:
        """None: all records are in the topic."""
        return 0

    @property
    def per_batch(self) -> int:
        """See `Source`."""
        return FOLLOWED_PER_BATCH if self._following is not None else super().per_batch

    def note(self) -> dict[str, Any]:
        """See `Source`."""
        return {"topic": self.topic}

    def send(self, console: Console, places: Places) -> None:
        """Fix the bounds, or read those of the run that is continued; not of a topic that is followed.

        Raises:
            PipelineError: the topic has no records, or their values lack columns.
        """
        if self._bounds(places).exists():
            self._fix(console, places)
            if self._following is not None and self.has_ended(places):
                console.print("It was followed to its end; these are the results")
        elif self._following is None:
            self._fix(console, places)
        else:
            self._look(places, ends(places, self.topic))

    def follow(
        self, console: Console, places: Places, start: Callable[[], list[StreamingQuery]]
    ) -> None:
        """Let the queries run until the time is over, stop them anywhere, and fix the bounds.

        Raises:
            StoppedError: the user has stopped the pipeline.
            StreamingQueryException: a query failed.
            PipelineError: see `send`.
        """
        if self._following is None or self._until:
            return
        active = start()
        run_for(console, places, self._following, active)
        for query in active:
            query.stop()
        self._fix(console, places)

    def _bounds(self, places: Places) -> Path:
        return places.output / f"{self.topic}{BOUNDS}"

    def _fix(self, console: Console, places: Places) -> None:
        path = self._bounds(places)
        if not path.exists():
            found = ends(places, self.topic)
            text = json.dumps({str(each.partition): at for each, at in found.items()})
            draft = path.with_suffix(".draft")
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        bounds = json.loads(path.read_text(encoding="utf-8"))
        self._until = {TopicPartition(self.topic, int(key)): at for key, at in bounds.items()}
        self._look(places, self._until)
        console.print(f"{self.count:,} records are in the topic {self.topic}")
        if not self.count:
            raise PipelineError(f"the topic {self.topic} has no records")

    def _look(self, places: Places, until: dict[TopicPartition, int]) -> None:
        """Count the records before some offsets, and look whether the first ones have the columns.

        Raises:
            PipelineError: a column is missing.
        """
        self.count = 0
        probed: list[bytes] = []
        for _, part in read_partitions(places, until):
            self.count += len(part)
            probed += [each.value or b"" for each in part[: formats.LINES_PROBED - len(probed)]]
        places.on_sent(self.count)
        if places.on_total is not None:
            places.on_total(self.count)
        columns = formats.keys_of(probed)
        missing = lacking(self.fields, columns) if probed and self.all_have_columns else []
        if missing:
            names = ",".join(f"{each.name}=COLUMN" for each in missing)
            raise PipelineError(
                f"the values in {self.topic} are no objects of JSON"
                if not columns
                else f"the values in {self.topic} lack {', '.join(e.columns[0] for e in missing)}: "
                f"they have {', '.join(columns)}. Name what is meant: --columns {names}"
            )

    def _bounded(self, records: DataFrame) -> DataFrame:
        if not self._until:
            return records
        within = sf.col("topic") != self.topic
        for (_, partition), at in self._until.items():
            within |= (sf.col("partition") == partition) & (sf.col("offset") < at)
        return records.where(within)

    def load(self, places: Places, given: Any) -> None:
        """See `Source`."""
        for partition, records in read_partitions(places, self._until):
            texts = [(r.offset, (r.value or b"").decode("utf-8", "replace")) for r in records]
            given.add_objects(f"{partition.topic}-{partition.partition}", texts)


def run_for(
    console: Console, places: Places, following: Following, active: list[StreamingQuery]
) -> None:
    """Wait while queries run, until the time is over.

    Raises:
        StoppedError: the user has stopped the pipeline.
        StreamingQueryException: a query failed.
    """
    console.print(
        "Following; Ctrl-C stops"
        if following.seconds is None
        else f"Following for {following.seconds:g} s"
    )
    ends_at = math.inf if following.seconds is None else time.monotonic() + following.seconds
    while time.monotonic() < ends_at:
        for query in active:
            error = query.exception()
            if error is not None:
                raise error
        if places.stopping.wait(POLL_S):
            for query in active:  # the runner lets them complete their micro-batches
                query.awaitTermination()
            raise StoppedError("stopped")
