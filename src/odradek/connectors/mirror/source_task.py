"""The task that copies records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from odradek.client.consuming.consumer import Consumer
from odradek.client.core.consumed_batch import Batch
from odradek.client.errors import ClientError
from odradek.client.producer import Delivery, Producer
from odradek.connectors.mirror import config as definitions
from odradek.connectors.mirror.clients import make_consumer, make_producer
from odradek.connectors.mirror.config import MirrorConfig
from odradek.connectors.mirror.formats import source_offset, source_partition
from odradek.connectors.mirror.offset_syncs import SyncQueue
from odradek.core.connect.api import Config, SourceTask
from odradek.core.connect.config_def import ConfigType, parse_value
from odradek.core.connect.data import BYTES, OPTIONAL_BYTES
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.records import Header, Headers, SourceRecord
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

_RECORDS_MAX = 2_000
"""How many records `poll` returns, unless one batch has more."""
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 5.0
_PAUSE_SECONDS = 0.5


class SyncWriter:
    """Writes offset syncs to their topic. Its producer tells in any thread what is written."""

    def __init__(self, topic: str, lag_max: int, producer: Producer) -> None:
        self._topic = topic
        self._producer = producer
        self._lock = threading.Lock()
        self._queue = SyncQueue(lag_max)

    def copied(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """Note a copied record, and write what is due."""
        with self._lock:
            self._queue.copied(partition, upstream, downstream)
        self._write()

    def commit(self) -> None:
        """Write what waits for the next commit."""
        with self._lock:
            self._queue.commit()
        self._write()

    def _write(self) -> None:
        with self._lock:
            due = self._queue.take()
        for each in due:
            try:
                self._producer.send(
                    self._topic,
                    each.value(),
                    key=each.key(),
                    partition=0,
                    on_delivery=self._on_delivery,
                )
            except ClientError as error:
                log.error("an offset sync cannot be written: %s", error)
                with self._lock:
                    self._queue.done()

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            log.error("an offset sync was not written: %s", delivery.error)
        with self._lock:
            self._queue.done()

    def close(self) -> None:
        """Close the producer after what is on its way."""
        self._producer.close(_CLOSE_SECONDS)


class MirrorSourceTask(SourceTask):
    """Reads some partitions of the source."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._reading = threading.Lock()
        """Held while the consumer is used."""
        self._config: MirrorConfig
        self._consumer: Consumer | None = None
        self._syncs: SyncWriter | None = None
        self._timeout_s = 0.0
        self._topics: dict[str, str] = {}
        """The names at the target."""

    def start(self, config: Config) -> None:
        """See `Task`."""
        found = MirrorConfig(definitions.SOURCE, config)
        self._config = found
        self._timeout_s = found.parsed["consumer.poll.timeout.ms"] / 1000
        partitions = task_partitions(config.get(definitions.TASK_PARTITIONS, ""))
        if found.parsed["emit.offset-syncs.enabled"]:
            place = "source" if found.syncs_are_at_source else "target"
            settings = found.client(place, "producer", f"offset-syncs-{place}-producer")
            self._syncs = SyncWriter(
                found.offset_syncs_topic,
                found.parsed["offset.lag.max"],
                make_producer(settings),
            )
        settings = found.client("source", "consumer", "replication-consumer")
        consumer = self._consumer = make_consumer(settings)
        consumer.assign([self._start_of(each) for each in partitions])
        log.info("%s copies %s partitions", found.label, len(partitions))

    def _start_of(self, partition: TopicPartition) -> tuple[str, int] | tuple[str, int, int]:
        """Return where reading begins: after the last record whose copy is certain."""
        key = source_partition(self._config.source, partition.topic, partition.partition)
        offset = (self.context.offset(key) or {}).get("offset")
        if offset is None or offset < 0:
            return partition
        return (*partition, int(offset) + 1)

    def poll(self) -> list[SourceRecord] | None:
        """See `SourceTask`."""
        with self._reading:
            if self._consumer is None or self._stopping.is_set():
                return None
            records = self._read(self._consumer)
        return records or None

    def _read(self, consumer: Consumer) -> list[SourceRecord]:
        """Return records of some batches. Those before an error are returned: the position is behind them."""
        records: list[SourceRecord] = []
        deadline = time.monotonic() + self._timeout_s
        while not self._stopping.is_set():
            try:
                batch = consumer.poll(0.0 if records else _LOOK_SECONDS)
                if batch is not None:
                    records += list(self._copies(batch))  # all of a batch, or nothing
            except ClientError as error:
                log.warning("%s: the source cannot be read: %s", self._config.label, error)
                if not records:
                    self._stopping.wait(_PAUSE_SECONDS)
                break
            is_full = len(records) >= _RECORDS_MAX
            if is_full or (batch is None and (records or time.monotonic() >= deadline)):
                break
        return records

    def _copies(self, batch: Batch) -> Iterable[SourceRecord]:
        topic = self._topics.get(batch.topic)
        if topic is None:
            topic = self._config.policy.remote_topic(self._config.source, batch.topic)
            self._topics[batch.topic] = topic
        index = batch.partition
        place = source_partition(self._config.source, batch.topic, index)
        for each in batch:
            yield SourceRecord(
                topic=topic,
                partition=index,
                key_schema=OPTIONAL_BYTES,
                key=each.key,
                value_schema=BYTES,
                value=each.value,
                timestamp=each.timestamp if each.timestamp >= 0 else None,
                headers=_headers(each.headers),
                source_partition=place,
                source_offset=source_offset(each.offset),
            )

    def commit(self) -> None:
        """See `SourceTask`."""
        if self._syncs is not None:
            self._syncs.commit()

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        """See `SourceTask`."""
        if self._stopping.is_set() or offset is None or self._syncs is None:
            return
        place, upstream = record.source_partition, record.source_offset
        assert place is not None, "all records of this task have one"
        assert upstream is not None, "all records of this task have one"
        partition = TopicPartition(place["topic"], place["partition"])
        self._syncs.copied(partition, upstream["offset"], offset)

    def stop(self) -> None:
        """See `Task`."""
        self._stopping.set()
        with self._reading:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close(_CLOSE_SECONDS)
        if self._syncs is not None:
            self._syncs.close()


def _headers(found: Iterable[tuple[str, bytes | None]]) -> Headers:
    return Headers(
        Header(name, OPTIONAL_BYTES if value is None else BYTES, value) for name, value in found
    )


def task_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in the configuration of a task.

    Raises:
        ConfigError: it is malformed.
    """
    found = []
    for each in parse_value(definitions.TASK_PARTITIONS, text, ConfigType.LIST):
        topic, _, index = each.rpartition("-")
        if not topic or not index.isdecimal():
            raise ConfigError.of(definitions.TASK_PARTITIONS, text, "write TOPIC-PARTITION,…")
        found.append(TopicPartition(topic, int(index)))
    return found
