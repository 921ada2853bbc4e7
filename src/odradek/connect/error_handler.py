"""Repeats what fails, tolerates errors of records, and writes dead letters (KIP-298)."""

from __future__ import annotations

import logging
import random
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from odradek.client.admin.topics import NewTopic, create_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer import Delivery, Producer
from odradek.core.connect.config_log import TaskId
from odradek.core.connect.errors import ConnectError, RetriableError
from odradek.core.connect.records import SinkRecord
from odradek.core.connect.retry import TOLERATED, RetryPlan, Stage
from odradek.records.record import Record

log = logging.getLogger(__name__)

T = TypeVar("T")
Headers = Sequence[tuple[str, bytes | None]]
_PREFIX = "__connect.errors."


class ErrorCounts:
    """What a task counts (`task-error-metrics` in Kafka)."""

    def __init__(self) -> None:
        self.failures = 0
        self.retries = 0
        self.skipped = 0
        self.dead_letters = 0
        self.last_error_ms = 0

    def failed(self, now_ms: int) -> None:
        """Count a failure."""
        self.failures += 1
        self.last_error_ms = now_ms

    def retried(self) -> None:
        """Count a retry."""
        self.retries += 1

    def dropped(self) -> None:
        """Count a record that was dropped."""
        self.skipped += 1

    def buried(self) -> None:
        """Count a dead letter."""
        self.dead_letters += 1


class Skipped(Exception):
    """A record is dropped, because errors are tolerated."""


class ErrorHandler:
    """The errors of one task."""

    def __init__(
        self,
        task: TaskId,
        config: Mapping[str, str],
        stopping: threading.Event,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self._task = task
        self._plan = RetryPlan(
            int(config.get("errors.retry.timeout", "0")),
            int(config.get("errors.retry.delay.max.ms", "60000")),
        )
        self.is_tolerant = config.get("errors.tolerance", "none").strip().lower() == "all"
        self._logs = config.get("errors.log.enable", "false").strip().lower() == "true"
        self._shows = config.get("errors.log.include.messages", "false").strip().lower() == "true"
        self._stopping = stopping
        self._dead_letters = dead_letters
        self.counts = ErrorCounts()

    @property
    def reports(self) -> bool:
        """Whether a task may report bad records."""
        return self.is_tolerant or self._dead_letters is not None

    def run(self, stage: Stage, function: Callable[[], T], record: object = None) -> T:
        """Return the result of `function`, which is repeated after a RetriableError.

        Raises:
            Skipped: it failed, and the record is dropped.
            ConnectError: it failed, and errors are not tolerated.
        """
        began = time.monotonic()
        attempt = 0
        failure: Exception
        while True:
            try:
                return function()
            except RetriableError as error:
                attempt += 1
                elapsed_ms = int((time.monotonic() - began) * 1000)
                delay = self._plan.delay_ms(attempt, elapsed_ms, random.randrange)
                if delay is None or self._stopping.wait(delay / 1000):
                    failure = error
                    break
                self.counts.retried()
            except Exception as error:  # noqa: BLE001 - user code may raise anything
                failure = error
                break
        self.counts.failed(round(time.time() * 1000))
        self._failed(stage, failure, record)
        raise Skipped

    def _failed(self, stage: Stage, error: Exception, record: object) -> None:
        if stage not in TOLERATED and not isinstance(error, RetriableError):
            raise error
        self.tolerate(stage, error, record)

    def tolerate(self, stage: Stage, error: BaseException, record: object) -> Future[None] | None:
        """Log an error of a record, and write a dead letter.

        Raises:
            ConnectError: errors are not tolerated.
        """
        if self._logs or not self.is_tolerant:
            shown = f": {record}" if self._shows else ""
            log.error("task %s: error in %s%s", self._task, stage.value, shown, exc_info=error)
        written: Future[None] | None = None
        if self._dead_letters is not None and isinstance(record, SinkRecord | tuple):
            written = self._dead_letters.write(stage, error, record)
            self.counts.buried()
        if not self.is_tolerant:
            raise ConnectError("Tolerance exceeded in error handler") from error
        self.counts.dropped()
        return written


class DeadLetters:
    """Writes records that failed to a topic, with their original bytes."""

    def __init__(
        self,
        task: TaskId,
        topic: str,
        producer: Producer,
        *,
        has_context: bool,
        originals: Callable[[str, int, int], Record | None],
    ) -> None:
        """`originals` returns the record at an offset of a partition, if it is still known."""
        self._task = task
        self._topic = topic
        self._producer = producer
        self._has_context = has_context
        self._originals = originals
        self._waiting: list[Future[None]] = []

    def write(self, stage: Stage, error: BaseException, record: Any) -> Future[None]:
        """Write a record of a sink, or a topic, a partition and the bytes. The future ends when it is done."""
        done: Future[None] = Future()
        if isinstance(record, SinkRecord):
            place = (record.original_topic, record.original_partition, record.original_offset)
            original = self._originals(*place)
        else:
            topic, partition, original = record
            place = (topic, partition, original.offset)
        if original is None:
            done.set_exception(ConnectError(f"the bytes of {place} are not known any more"))
            return done
        headers: list[tuple[str, bytes | None]] = list(original.headers)
        if self._has_context:
            headers += self._context(stage, error, place)

        def finish(delivery: Delivery) -> None:
            if delivery.error is None:
                done.set_result(None)
            else:
                done.set_exception(delivery.error)

        self._producer.send(
            self._topic,
            original.value,
            key=original.key,
            headers=headers,
            timestamp=max(original.timestamp, 0),
            on_delivery=finish,
        )
        self._waiting.append(done)
        return done

    def flush(self) -> None:
        """Wait until all are written.

        Raises:
            ClientError: one is not.
        """
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.result(120)

    def _context(
        self, stage: Stage, error: BaseException, place: tuple[str, int, int]
    ) -> list[tuple[str, bytes | None]]:
        topic, partition, offset = place
        kind = type(error)
        values: dict[str, str | None] = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(offset),
            "connector.name": self._task.connector,
            "task.id": str(self._task.task),
            "stage": stage.value,
            "class.name": f"{kind.__module__}.{kind.__qualname__}",
            "exception.class.name": f"{kind.__module__}.{kind.__qualname__}",
            "exception.message": str(error) or None,
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return [
            (_PREFIX + name, None if value is None else value.encode())
            for name, value in values.items()
        ]

    def close(self) -> None:
        """Close the producer."""
        self._producer.close(5.0)


def create_dead_letter_topic(cluster: Cluster, topic: str, replication_factor: int) -> None:
    """Create the topic if it does not exist: one partition.

    Raises:
        ConnectError: it cannot be created.
    """
    try:
        found = create_topics(cluster, [NewTopic(topic, 1, replication_factor)])[topic]
    except ClientError as error:
        raise ConnectError(f"Could not initialize dead letter queue with topic={topic}") from error
    if isinstance(found, ClientError) and not exists_already(found):
        raise ConnectError(
            f"Could not initialize dead letter queue with topic={topic}: {found}"
        ) from found
