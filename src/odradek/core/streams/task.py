"""One subtopology for one partition: processes records in a defined order, without IO.

A runner creates a task, restores its stores from their changelogs (`store`), and calls `start`. Then:

- `add` passes consumed records, `set_lag` what the broker still has;
- `step` processes one record, `punctuate` calls the functions that are due;
- `commit` writes what waits in caches. After it, `positions` are the offsets to commit;
- `take_output` returns the records to produce. All that were produced before a commit belong to it.

The time is an argument. A task that raised an error is not used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.core.streams.failures import Decision, Failure, dead_letter
from odradek.core.streams.model.context import NO_RECORD, TaskContext
from odradek.core.streams.model.errors import ProcessingError, StreamsError
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Produced, Record, RecordContext
from odradek.core.streams.partition_group import (
    Consumed,
    Head,
    PartitionGroup,
    PartitionQueue,
)
from odradek.core.streams.punctuation import PunctuationQueue
from odradek.core.streams.sinks import SinkNode, SourceNode
from odradek.core.streams.stores.base import Store
from odradek.core.streams.stores.cache import RecordCache
from odradek.core.streams.stores.making import make_store
from odradek.core.streams.topology.definition import (
    ProcessorDefinition,
    SinkDefinition,
    SourceDefinition,
    Topology,
)


class TaskSettings(NamedTuple):
    """Settings of tasks, with Kafka Streams' defaults."""

    cache_bytes: int = 10 * 1024 * 1024
    """`statestore.cache.max.bytes`; 0: each update is forwarded at once."""
    max_idle_ms: int = 0
    """`max.task.idle.ms`."""
    emit_interval_ms: int = 1000
    partition_count: Callable[[str], int] | None = None
    """Returns the number of partitions of an output topic, for partitioners of the program."""
    on_undecodable: Decision | None = None
    """Decides about records that cannot be decoded. None: the task stops."""
    on_error: Decision | None = None
    """Decides about errors of the program's functions. None: the task stops."""
    dead_letters: str | None = None
    """The topic for skipped records."""


class Task:
    """Executes nodes of a topology for one partition.

    `nodes` are the names of the nodes, `partition` is that of the input topics, and `global_stores` are
    the tables that all tasks of a process share. `kept` are stores with content, of an earlier task or a
    standby; the others are made, and empty.
    """

    def __init__(
        self,
        topology: Topology,
        nodes: Iterable[str],
        subtopology: int,
        partition: int,
        settings: TaskSettings | None = None,
        global_stores: dict[str, Store] | None = None,
        kept: Mapping[str, Store] | None = None,
    ) -> None:
        self._settings = settings or TaskSettings()
        self.context = TaskContext(topology.application_id, subtopology, partition)
        self.context.settings["emit_interval_ms"] = self._settings.emit_interval_ms
        self.context.use_scheduler(self)
        if self._settings.on_error is not None:
            self.context.use_handler(self._failed)
        self._head: Head | None = None
        self._topology = topology
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, Store] = {}
        self._by_stream_time = PunctuationQueue()
        self._by_clock = PunctuationQueue()
        self.positions: dict[tuple[str, int], int] = {}
        """The offset behind the last processed record, by topic and partition."""
        self.needs_commit = False
        self.context.stores.update(global_stores or {})
        names = list(nodes)
        self._make_stores(names, kept or {})
        self._group = self._make_nodes(names)

    @property
    def stores(self) -> dict[str, Store]:
        """Return the task's own stores."""
        return self._stores

    @property
    def stream_time(self) -> int:
        """Return the highest time of processed records."""
        return self._group.stream_time

    @property
    def buffered(self) -> int:
        """Return the number of records that wait."""
        return self._group.buffered

    def partitions(self) -> list[tuple[str, int]]:
        """Return the topics and partitions that the task reads."""
        return self._group.partitions()

    def waiting(self, topic: str, partition: int) -> int:
        """Return the number of records of a partition that wait."""
        return len(self._group.queue(topic, partition))

    def partition_time(self, topic: str, partition: int) -> int:
        """Return the highest time of the processed records of a partition."""
        return self._group.queue(topic, partition).time

    def set_partition_time(self, topic: str, partition: int, time: int) -> None:
        """Continue with the time of an earlier run."""
        self._group.set_partition_time(topic, partition, time)

    def start(self, now_ms: int) -> None:
        """Initialize the processors. The stores have been restored."""
        self.context.set_time(now_ms)
        for name, node in self._nodes.items():
            try:
                node.init()
            except StreamsError:
                raise
            except Exception as error:
                raise ProcessingError(name, "the start", error) from error

    def add(self, topic: str, partition: int, records: Iterable[Consumed]) -> None:
        """Add consumed records."""
        self._group.add(topic, partition, records)
        self._pass_skipped(self._group.queue(topic, partition))

    def set_lag(self, topic: str, partition: int, lag: int | None) -> None:
        """Set how many records of a partition have not been consumed. None: unknown."""
        self._group.queue(topic, partition).set_lag(lag)

    def is_ready(self, now_ms: int) -> bool:
        """Return whether a record can be processed now."""
        return self._group.buffered > 0 and self._group.is_ready(now_ms)

    def step(self, now_ms: int) -> bool:
        """Process one record. Return False if there is none, or the task waits for other partitions.

        Raises:
            StreamsError: the record cannot be processed. The message has the operator and the record.
        """
        group = self._group
        if not self.is_ready(now_ms):
            return False
        found = group.next()
        if found is None:
            return False
        queue, head = found
        context = self.context
        if head.record is not None:
            context.set_time(now_ms)
            context.enter(head.context)
            self._head = head
            queue.node.process(head.record)
            self._head = None
            context.enter(NO_RECORD)
        self.positions[queue.topic, queue.partition] = head.context.offset + 1
        self.needs_commit = True
        if queue.skipped_to is not None:
            self._pass_skipped(queue)
        return True

    def punctuate_stream_time(self, now_ms: int) -> bool:
        """Call the functions that are due by stream time."""
        self.context.set_time(now_ms)
        time = self._group.stream_time
        if time == UNKNOWN_TIME or not self._by_stream_time.run(time):
            return False
        self.needs_commit = True
        return True

    def punctuate_clock(self, now_ms: int) -> bool:
        """Call the functions that are due by the clock."""
        self.context.set_time(now_ms)
        if not self._by_clock.run(now_ms):
            return False
        self.needs_commit = True
        return True

    def next_clock_time(self) -> int | None:
        """Return when the next function is due by the clock."""
        return self._by_clock.next_time()

    def commit(self, now_ms: int) -> None:
        """Write what waits in caches and buffers."""
        self.context.set_time(now_ms)
        for store in self._stores.values():
            store.flush_cache()
        for store in self._stores.values():
            store.flush_cache()  # what the caches before it have passed on
            store.flush()
        self.context.committed()
        self.needs_commit = False

    def take_output(self) -> list[Produced]:
        """Return the records that were produced since the last call."""
        return self.context.take_output()

    def close(self) -> None:
        """Close the processors."""
        for node in self._nodes.values():
            node.close()

    def schedule(
        self, interval_ms: int, by_stream_time: bool, call: Callable[[int], None]
    ) -> Callable[[], None]:
        """Call a function of a processor in intervals."""
        if by_stream_time:
            queue, first = self._by_stream_time, 0
        else:
            queue, first = self._by_clock, self.context.now_ms + interval_ms

        def punctuate(time: int) -> None:
            self.context.enter(RecordContext(None, -1, -1, time, ()))
            call(time)
            self.context.enter(NO_RECORD)

        return queue.schedule(first, interval_ms, punctuate)

    def _pass_skipped(self, queue: PartitionQueue) -> None:
        """Count records that were skipped when they were decoded as done, in the order of the partition.

        Then a dead letter belongs to the same commit as the offset behind its record.
        """
        offset = queue.skipped_to
        if offset is not None and offset > self.positions.get((queue.topic, queue.partition), 0):
            self.positions[queue.topic, queue.partition] = offset
            self.needs_commit = True

    def _undecodable(
        self, source: str, record: RecordContext, raw: Consumed, error: Exception
    ) -> bool:
        """Return whether to skip a record that cannot be decoded."""
        decide = self._settings.on_undecodable
        failure = Failure(source, record, raw.key, raw.value, error)
        if decide is None or not self._skips(decide, failure):
            return False
        self.context.drop("undecodable records")
        return True

    def _failed(self, _context: TaskContext, node: str, record: Record, error: Exception) -> bool:
        """Return whether to continue after an error of the program."""
        decide = self._settings.on_error
        assert decide is not None
        place, head = self.context.record, self._head
        if head is None or head.raw is None or head.context[:3] != place[:3]:
            return self._skips(decide, Failure(node, place, None, None, error))
        return self._skips(decide, Failure(node, place, head.raw.key, head.raw.value, error))

    def _skips(self, decide: Decision, failure: Failure) -> bool:
        if not decide(failure):
            return False
        topic = self._settings.dead_letters
        if topic is not None:
            self.context.output.append(dead_letter(topic, failure))
        return True

    def _make_stores(self, names: list[str], kept: Mapping[str, Store]) -> None:
        topology = self._topology
        cache_bytes = self._settings.cache_bytes
        cache = RecordCache(cache_bytes) if cache_bytes > 0 else None
        for name in topology.store_names(names):
            if name in topology.global_stores:
                continue
            definition = topology.stores[name]
            changelog = topology.changelog_of(definition)
            store = kept.get(name)
            if store is None:
                store = make_store(definition, self.context, changelog, cache)
            else:
                store.move_to(self.context, cache)
            self._stores[name] = store
            self.context.stores[name] = store

    def _make_nodes(self, names: list[str]) -> PartitionGroup:
        topology = self._topology
        queues: list[PartitionQueue] = []
        partition = self.context.partition
        for name in names:
            definition = topology.nodes[name]
            node: Node
            if isinstance(definition, SourceDefinition):
                node = SourceNode()
                for topic in definition.topics:
                    full_name = topology.full_name(topic)
                    queues.append(
                        PartitionQueue(full_name, partition, definition, node, self._undecodable)
                    )
            elif isinstance(definition, SinkDefinition):
                topic_name = None
                if definition.topic is not None:
                    topic_name = topology.full_name(definition.topic)
                node = SinkNode(definition, topic_name, self._settings.partition_count)
            else:
                assert isinstance(definition, ProcessorDefinition)
                node = definition.definition.make()
            node.attach(name, self.context)
            self._nodes[name] = node
            for parent in definition.parents:
                self._nodes[parent].add_child(node)
        return PartitionGroup(queues, self._settings.max_idle_ms)


class GlobalTask:
    """Maintains the global tables of a process: each record is stored at once."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.context = TaskContext(topology.application_id, -1, 0)
        self.stores: dict[str, Store] = {}
        self._nodes: dict[str, tuple[SourceDefinition, Node]] = {}
        for source_name, processor_name in topology.global_sources.items():
            source = topology.nodes[source_name]
            processor = topology.nodes[processor_name]
            assert isinstance(source, SourceDefinition)
            assert isinstance(processor, ProcessorDefinition)
            definition = topology.global_stores[processor.stores[0]]
            store = make_store(definition, self.context, None, None)
            self.stores[definition.name] = store
            self.context.stores[definition.name] = store
            node = processor.definition.make()
            node.attach(processor_name, self.context)
            node.init()
            self._nodes[source.topics[0]] = (source, node)

    def topics(self) -> list[str]:
        """Return the topics of the global tables."""
        return list(self._nodes)

    def update(self, topic: str, partition: int, record: Consumed, now_ms: int) -> None:
        """Store a record. One that cannot be decoded is skipped, as Kafka's test driver does."""
        source, node = self._nodes[topic]
        self.context.set_time(now_ms)
        place = RecordContext(topic, partition, record.offset, record.timestamp, record.headers)
        queue = PartitionQueue(topic, partition, source, node, self._skip)
        queue.add([record])
        head = queue.head
        if head is not None and head.record is not None:
            self.context.enter(place)
            node.process(head.record)

    def _skip(
        self, _source: str, _context: RecordContext, _record: Consumed, _error: Exception
    ) -> bool:
        self.context.drop("undecodable records")
        return True
