"""What a pipeline gets: Spark, the broker's address, topics with JSON values, and checkpoints.

Reconciliation compares the results of a pipeline with the data that was sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from rich.console import Console
from rich.table import Table

from odradek.client.admin.topics import NewTopic, create_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.producer import Producer
from odradek.client.security import parse_security

CREATED = "topics"
"""The file in the output directory that has the topics which were created."""

TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"}
"""Times in JSON with microseconds: Spark's default cuts them after milliseconds."""

Line = tuple[str, object, object]
"""One comparison: a description, the expected value, and the value that was found."""


class PipelineError(RuntimeError):
    """A pipeline cannot go on. The message is for its user: the reason, and what to do."""


class StoppedError(RuntimeError):
    """The user has stopped the pipeline."""


@dataclass(frozen=True)
class Places:
    """Reads and writes the topics of a pipeline."""

    spark: SparkSession
    servers: str
    output: Path
    """The directory of the pipeline's files, on the driver."""
    checkpoints: str = ""
    """The directory or URL of the checkpoints; by default in `output`."""
    client_settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of TLS and SASL of clients."""
    broker_process_id: int | None = None
    """The process of the broker, if it was started for the pipeline."""
    is_continued: bool = False
    """Whether an earlier run has left its checkpoints, so that its queries continue."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the user stops the pipeline."""
    on_sent: Callable[[int], None] = field(default=lambda count: None)
    """Called with the number of rows that are in the pipeline's topic."""
    on_total: Callable[[int], None] | None = None
    """Called with the number of rows that there are to send, at most, when it is known; None if nobody
    wants to know it."""

    @property
    def options(self) -> dict[str, str]:
        """The options of `format("odradek")` that name the cluster."""
        settings = {f"kafka.{name}": value for name, value in self.client_settings.items()}
        return {**settings, "kafka.bootstrap.servers": self.servers}

    def connect(self) -> Cluster:
        """Return a client of the cluster."""
        return Cluster(self.servers, security=parse_security(self.client_settings))

    def create(self, *topics: str, partitions: int = 2, **settings: str) -> None:
        """Create topics with the broker's default replication factor.

        Nothing is deleted by age, because the data is older than the topics.
        Topics that an earlier run with this output has created may exist.

        Raises:
            PipelineError: topics exist that another run or program has created.
            ClientError: a topic cannot be created.
        """
        configs = {"retention.ms": "-1"} | {k.replace("_", "."): v for k, v in settings.items()}
        before = self._created()
        is_ours = self.is_continued and (self.broker_process_id is not None or not before)
        others = []
        with self.connect() as cluster:
            new = [NewTopic(name, partitions, configs=configs) for name in topics]
            for name, made in create_topics(cluster, new).items():
                if not isinstance(made, Exception):
                    self._note_created(name)
                elif not exists_already(made):
                    raise made
                elif name not in before and not is_ours:
                    others.append(name)
        if others:
            raise PipelineError(
                f"topics {', '.join(others)} exist on {self.servers}, and no run with the output "
                f"{self.output} has created them. Delete them with `odradek topic delete "
                f"{' '.join(others)} -b {self.servers}`, or use another broker"
            )

    def _created(self) -> set[str]:
        """Return the topics that runs with this output have created. Earlier versions noted none."""
        try:
            return set((self.output / CREATED).read_text(encoding="utf-8").splitlines())
        except FileNotFoundError:
            return set()

    def _note_created(self, topic: str) -> None:
        self.output.mkdir(parents=True, exist_ok=True)
        with (self.output / CREATED).open("a", encoding="utf-8") as file:
            file.write(f"{topic}\n")

    def send(self, topic: str, records: Iterable[tuple[str, str | None]]) -> int:
        """Write records of (key, value) to a topic, and return their number."""
        count = 0
        with self.connect() as cluster, Producer(cluster) as producer:
            for key, value in records:
                encoded = None if value is None else value.encode()
                producer.send(topic, encoded, key=key.encode())
                count += 1
        return count

    def read(self, topic: str, schema: str | None = None) -> DataFrame:
        """Return the committed records of a topic, or with a schema the fields of JSON values."""
        source = self.spark.read.format("odradek").options(**self.options)
        options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        records = source.options(**options).load()
        return records if schema is None else parsed(records, schema)

    def stream(
        self,
        topic: str,
        schema: str | None = None,
        per_batch: int | None = None,
        group: str | None = None,
    ) -> DataFrame:
        """Return a topic as a stream from its beginning.

        A micro-batch has at most `per_batch` records. The query commits its progress to the
        consumer group `group`. If several queries read a topic, give each its own group.
        """
        source = self.spark.readStream.format("odradek").options(**self.options)
        options = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
        if per_batch is not None:
            source = source.option("maxOffsetsPerTrigger", per_batch)
        if group is not None:
            source = source.option("groupId", group)
        records = source.options(subscribe=topic, **options).load()
        return records if schema is None else parsed(records, schema)

    def checkpoint(self, name: str) -> str:
        """Return the directory of a query's checkpoint."""
        return f"{self.checkpoints or self.output / 'checkpoints'}/{name}"

    def write(
        self, rows: DataFrame, topic: str, key: str | Column, *, to_the_end: bool = True
    ) -> StreamingQuery:
        """Start to write rows to a topic as JSON, exactly once.

        With `to_the_end` the query processes all records that are in the source now, and ends. This
        method waits for it. The name of the query is the topic.

        Raises:
            StoppedError: the user has stopped the pipeline.
        """
        writer = (
            as_json(rows, key)
            .writeStream.format("odradek")
            .queryName(topic)
            .options(**self.options)
            .option("topic", topic)
            .option("deliveryGuarantee", "exactly-once")
            .option("checkpointLocation", self.checkpoint(topic))
        )
        return self.start(writer, to_the_end=to_the_end)

    def start(self, writer: DataStreamWriter, *, to_the_end: bool) -> StreamingQuery:
        """Start a query: see `write`.

        Raises:
            StoppedError: the user has stopped the pipeline.
        """
        if not to_the_end:
            return writer.trigger(processingTime="1 second").start()
        query = writer.trigger(availableNow=True).start()
        self.wait_for(query)
        return query

    def wait_for(self, query: StreamingQuery) -> None:
        """Wait until a query has ended.

        Raises:
            StoppedError: the user has stopped the pipeline.
        """
        query.awaitTermination()
        if self.stopping.is_set():
            raise StoppedError("stopped")


def parsed(records: DataFrame, schema: str) -> DataFrame:
    """Return the fields of JSON values."""
    return records.select(sf.from_json(sf.col("value").cast("string"), schema).alias("v")).select(
        "v.*"
    )


def as_json(rows: DataFrame, key: str | Column) -> DataFrame:
    """Return records with a key, and the row as a JSON value."""
    column = sf.col(key) if isinstance(key, str) else key
    return rows.select(
        column.cast("string").alias("key"), sf.to_json(sf.struct("*"), TIMES).alias("value")
    )


def show(console: Console, lines: Iterable[Line]) -> int:
    """Print a table of what is reconciled. Return 0 if all lines agree, otherwise 1."""
    table = Table("reconciled", "expected", "found")
    is_exact = True
    for what, expected, found in lines:
        table.add_row(what, str(expected), str(found), style="" if expected == found else "red")
        is_exact &= expected == found
    console.print(table)
    return 0 if is_exact else 1
