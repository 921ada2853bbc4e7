"""Runs an application without a broker: records are piped in, and results are read at once.

The driver has the task core of the real runners, one partition for each topic, and a clock that moves
only when told. It commits after each record. So a test sees each result, in a defined order.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, NamedTuple, Self

from odradek.core.streams.model.durations import Duration, milliseconds
from odradek.core.streams.model.errors import StreamsError
from odradek.core.streams.model.records import Headers, Produced
from odradek.core.streams.model.serdes import Serde, serde_of
from odradek.core.streams.partition_group import Consumed
from odradek.core.streams.stores.base import Store
from odradek.core.streams.task import GlobalTask, Task, TaskSettings
from odradek.core.streams.topology.definition import SinkDefinition, SourceDefinition
from odradek.streams.app import App


class Result(NamedTuple):
    """A record that the application wrote. It equals a tuple of key, value and time."""

    key: Any
    value: Any
    timestamp: int | None


class TestDriver:
    """An application under test. Use it as a context manager, or call `close`.

    Args:
        app: the application.
        now: the time of the clock at the start, in milliseconds since 1970.
        **settings: fields of TaskSettings that differ from the application's.
    """

    __test__ = False  # pytest collects classes whose names begin with Test

    def __init__(self, app: App, now: int = 0, **settings: Any) -> None:
        self._now = now
        self._topology = app.topology()
        self._topics: dict[str, Topic] = {}
        self._offsets: dict[str, int] = {}
        names = [
            name
            for group in self._topology.groups()
            if not self._topology.is_global(group)
            for name in group
        ]
        order = {name: place for place, name in enumerate(self._topology.nodes)}
        names.sort(key=order.__getitem__)
        self._global = GlobalTask(self._topology)
        chosen: TaskSettings = app.task_settings()._replace(**settings)
        if chosen.partition_count is None:
            chosen = chosen._replace(partition_count=lambda _topic: 1)
        self._task = Task(self._topology, names, 0, 0, chosen, self._global.stores)
        for topic, partition in self._task.partitions():
            self._task.set_lag(topic, partition, 0)
        self._sources = {topic for topic, _ in self._task.partitions()}
        self._task.start(now)
        self._serdes = self._types()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    @property
    def now(self) -> int:
        """Return the time of the clock."""
        return self._now

    def topic(self, name: str, *, key: Any = None, value: Any = None) -> Topic:
        """Return a topic to pipe records into, or to read results from.

        The types are those of the application, unless given. An internal topic has its full name.
        """
        known = self._serdes.get(name)
        key_serde = serde_of(key) if key is not None else known[0] if known else serde_of(bytes)
        value_serde = (
            serde_of(value) if value is not None else known[1] if known else serde_of(bytes)
        )
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(self, name)
        topic.use(key_serde, value_serde)
        return topic

    def store(self, name: str) -> Store:
        """Return a store.

        Raises:
            StreamsError: there is no such store.
        """
        found = {**self._task.stores, **self._global.stores}.get(name)
        if found is None:
            raise StreamsError(
                f"there is no store {name!r}; there are {', '.join(sorted(self._task.stores))}"
            )
        return found

    def dropped(self) -> dict[str, int]:
        """Return how many records were dropped, by reason."""
        return dict(self._task.context.dropped)

    def advance(self, duration: Duration) -> None:
        """Move the clock, and call the functions that are due."""
        self._now += milliseconds(duration)
        self._task.punctuate_clock(self._now)
        self._commit()
        self._work()

    def topics(self) -> list[str]:
        """Return the topics that have got results."""
        return sorted(name for name, topic in self._topics.items() if topic.has_results)

    def close(self) -> None:
        """Commit, and close the processors."""
        self._commit()
        self._work()
        self._task.close()

    def pipe(self, topic: str, record: Consumed) -> None:
        """Pass an encoded record to the application. Its offset is chosen here."""
        if topic in self._sources:
            self._enqueue(topic, record)
            self._work()
        elif topic in self._global.topics():
            self._global.update(topic, 0, self._numbered(topic, record), self._now)
        else:
            raise StreamsError(f"the application does not read the topic {topic!r}")

    def _enqueue(self, topic: str, record: Consumed) -> None:
        self._task.add(topic, 0, [self._numbered(topic, record)])

    def _numbered(self, topic: str, record: Consumed) -> Consumed:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        return record._replace(offset=offset)

    def _work(self) -> None:
        self._capture()
        while self._task.step(self._now):
            self._task.punctuate_stream_time(self._now)
            self._commit()

    def _commit(self) -> None:
        self._task.commit(self._now)
        self._capture()

    def _capture(self) -> None:
        """Keep the results, and pass those of internal topics on."""
        for produced in self._task.take_output():
            topic = self._topics.get(produced.topic)
            if topic is None:
                topic = self.topic(produced.topic)
            topic.append(produced)
            timestamp = self._now if produced.timestamp is None else produced.timestamp
            record = Consumed(0, timestamp, produced.key, produced.value, produced.headers)
            if produced.topic in self._sources:
                self._enqueue(produced.topic, record)
            elif produced.topic in self._global.topics():
                self._global.update(
                    produced.topic, 0, self._numbered(produced.topic, record), self._now
                )

    def _types(self) -> dict[str, tuple[Serde, Serde]]:
        """Return the types of the topics that the application reads and writes."""
        found: dict[str, tuple[Serde, Serde]] = {}
        for node in self._topology.nodes.values():
            if isinstance(node, SinkDefinition) and node.topic is not None:
                found.setdefault(self._topology.full_name(node.topic), (node.key, node.value))
            elif isinstance(node, SourceDefinition):
                for topic in node.topics:
                    found.setdefault(self._topology.full_name(topic), (node.key, node.value))
        for store in self._topology.stores.values():
            changelog = self._topology.changelog_of(store)
            if changelog is not None:
                found.setdefault(changelog, (store.key, store.value))
        return found


class Topic:
    """A topic of an application under test."""

    def __init__(self, driver: TestDriver, name: str) -> None:
        self.name = name
        self._driver = driver
        self._key = serde_of(bytes)
        self._value = serde_of(bytes)
        self._results: deque[Produced] = deque()
        self.has_results = False

    def use(self, key: Serde, value: Serde) -> None:
        """Set the types."""
        self._key = key
        self._value = value

    def pipe(
        self,
        key: Any,
        value: Any,
        at: Duration | None = None,
        headers: Headers = (),
    ) -> None:
        """Pass a record to the application. `at` is its time: milliseconds or a text since 1970; the
        clock's time if it is not given."""
        timestamp = self._driver.now if at is None else milliseconds(at)
        self._driver.pipe(
            self.name,
            Consumed(0, timestamp, self._key.encode(key), self._value.encode(value), headers),
        )

    def append(self, produced: Produced) -> None:
        """Keep a result."""
        self._results.append(produced)
        self.has_results = True

    def read(self) -> list[Result]:
        """Return the results since the last call: key, value and time."""
        return [
            Result(self._key.decode(each.key), self._value.decode(each.value), each.timestamp)
            for each in self.read_raw()
        ]

    def read_raw(self) -> list[Produced]:
        """Return the results since the last call, encoded and with headers."""
        found = list(self._results)
        self._results.clear()
        return found

    def read_values(self) -> dict[Any, Any]:
        """Return the last value of each key among the results since the last call."""
        return {each.key: each.value for each in self.read()}
