"""Runs connectors in tests, without a worker and without Kafka.

    with SourceHarness(CounterConnector, {"topic": "numbers"}) as source:
        assert [record.value for record in source.take(3)] == [1, 2, 3]

    with SinkHarness(TableConnector, {"topics": "t", "table": "x"}) as sink:
        sink.put(["a", "b"])
        sink.commit()

The configuration is checked against the connector's definitions first. All calls are made in the thread of
the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Self, TypeVar

from odradek.core.connect.api import (
    Config,
    Connector,
    ErrantRecordReporter,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    Task,
    TransactionContext,
    check_task_count,
)
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.records import SinkRecord, SourceRecord
from odradek.model.topic_partition import TopicPartition

__all__ = ["SinkHarness", "SourceHarness"]

TaskT = TypeVar("TaskT", bound=Task)
_POLLS_MAX = 1_000


class _ConnectorContext:
    def __init__(self) -> None:
        self.asked = 0

    def request_task_reconfiguration(self) -> None:
        """See `ConnectorContext`."""
        self.asked += 1

    def raise_error(self, error: Exception) -> None:
        """See `ConnectorContext`."""
        raise error


class _Harness(Generic[TaskT]):
    """A connector with its first task."""

    def __init__(
        self, made: type[Connector], config: Mapping[str, str], max_tasks: int = 1
    ) -> None:
        """Check the configuration.

        Raises:
            ConfigError: it is wrong.
        """
        given = {"name": "test", **config}
        self.connector: Any = made()
        problems = [e for v in self.connector.validate(given).values() for e in v.errors]
        if problems:
            raise ConfigError("\n".join(problems))
        self._config: Config = given
        self._max_tasks = max_tasks
        self._context = _ConnectorContext()
        self.task_configs: Sequence[Config] = []
        """The configurations of all tasks."""
        self.task: TaskT

    def __enter__(self) -> Self:
        self.connector.initialize(self._context)
        self.connector.start(self._config)
        self.task_configs = self.connector.task_configs(self._max_tasks)
        check_task_count("test", len(self.task_configs), self._max_tasks)
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.task.stop()
        self.connector.stop()

    def restart(self) -> None:
        """Stop the first task, and start another one in its place."""
        self.task.stop()
        self._start()

    def _start(self) -> None:
        raise NotImplementedError


class _Offsets:
    def __init__(self) -> None:
        self._committed: dict[str, dict[str, Any]] = {}

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """See `SourceTaskContext`."""
        return self._committed.get(json.dumps(partition, sort_keys=True))

    @property
    def transaction(self) -> TransactionContext | None:
        """See `SourceTaskContext`."""
        return None

    def commit(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """Store an offset, as JSON does."""
        self._committed[json.dumps(partition, sort_keys=True)] = json.loads(json.dumps(offset))


class SourceHarness(_Harness[SourceTask]):
    """A source connector with its first task."""

    def __init__(
        self, made: type[SourceConnector], config: Mapping[str, str], max_tasks: int = 1
    ) -> None:
        super().__init__(made, config, max_tasks)
        self._offsets = _Offsets()
        self._records: list[SourceRecord] = []
        self._taken: list[SourceRecord] = []

    def _start(self) -> None:
        self._records, self._taken = [], []
        self.task = self.connector.task_class()
        self.task.initialize(self._offsets)
        self.task.start(self.task_configs[0])

    def take(self, count: int) -> list[SourceRecord]:
        """Poll until there are `count` records, and return them.

        Raises:
            AssertionError: there are fewer after a thousand polls.
        """
        for _ in range(_POLLS_MAX):
            if len(self._records) >= count:
                break
            self._records += list(self.task.poll() or ())
        assert len(self._records) >= count, f"only {len(self._records)} of {count} records"
        found, self._records = self._records[:count], self._records[count:]
        self._taken += found
        return found

    def commit(self) -> None:
        """Tell the task that all records which were taken are written, and commit their offsets."""
        for number, record in enumerate(self._taken):
            self.task.commit_record(record, number)
            if record.source_partition is not None and record.source_offset is not None:
                self._offsets.commit(record.source_partition, record.source_offset)
        self._taken = []
        self.task.commit()


class _SinkContext:
    """What a sink asks for is noted."""

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()
        self.seeks: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.timeout_ms: int | None = None
        self.commits = 0
        self.dead_letters: list[tuple[SinkRecord, BaseException]] = []

    def assignment(self) -> set[TopicPartition]:
        """See `SinkTaskContext`."""
        return set(self.assigned)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkTaskContext`."""
        self.seeks.update(offsets)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`."""
        self.paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `SinkTaskContext`."""
        self.paused.difference_update(partitions)

    def set_timeout(self, timeout_ms: int) -> None:
        """See `SinkTaskContext`."""
        self.timeout_ms = timeout_ms

    def request_commit(self) -> None:
        """See `SinkTaskContext`."""
        self.commits += 1

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """See `SinkTaskContext`."""
        return self

    def report(self, record: SinkRecord, error: BaseException) -> Future[None]:
        """See `ErrantRecordReporter`."""
        self.dead_letters.append((record, error))
        done: Future[None] = Future()
        done.set_result(None)
        return done


class SinkHarness(_Harness[SinkTask]):
    """A sink connector with its first task, which has one partition of the topic `topic`."""

    def __init__(
        self,
        made: type[SinkConnector],
        config: Mapping[str, str],
        max_tasks: int = 1,
        topic: str = "test",
    ) -> None:
        super().__init__(made, {"topics": topic, **config}, max_tasks)
        self.context = _SinkContext()
        """What the task has asked for: `seeks`, `paused`, `timeout_ms`, `commits`, `dead_letters`."""
        self._place = TopicPartition(topic, 0)
        self._next = 0

    def _start(self) -> None:
        self.task = self.connector.task_class()
        self.task.initialize(self.context)
        self.context.assigned.add(self._place)
        self.task.start(self.task_configs[0])
        self.task.open([self._place])

    def __exit__(self, *_: object) -> None:
        self.task.close([self._place])
        super().__exit__()

    def put(self, values: Iterable[Any]) -> list[SinkRecord]:
        """Deliver values, or whole records, and return the records."""
        records = []
        for each in values:
            record = each
            if not isinstance(each, SinkRecord):
                record = SinkRecord(
                    topic=self._place.topic,
                    partition=0,
                    value=each,
                    offset=self._next,
                    timestamp=0,
                    original_topic=self._place.topic,
                    original_offset=self._next,
                )
            self._next = record.offset + 1
            records.append(record)
        self.task.put(records)
        return records

    def commit(self) -> int | None:
        """Let the task flush. Return the offset that it lets commit, of the next record."""
        found = self.task.pre_commit({self._place: self._next})
        return found.get(self._place)
