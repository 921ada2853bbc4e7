"""The first and last nodes of a task."""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.streams.model.errors import EncodingError, StreamsError
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import Produced, Record
from odradek.core.streams.model.serdes import SessionSerde, WindowedSerde
from odradek.core.streams.topology.definition import SinkDefinition


class SourceNode(Node):
    """Forwards the records of its topics."""

    def process(self, record: Record) -> None:
        """Forward the record."""
        self._visit(record, self.children)


class SinkNode(Node):
    """Encodes records for a topic."""

    def __init__(
        self,
        definition: SinkDefinition,
        topic: str | None,
        partition_count: Callable[[str], int] | None,
    ) -> None:
        super().__init__()
        self._definition = definition
        self._topic = topic
        self._partition_count = partition_count
        self._encode_key = definition.key.encode
        self._encode_value = definition.value.encode
        key = definition.key
        self._inner = key.inner if isinstance(key, WindowedSerde | SessionSerde) else None

    def process(self, record: Record) -> None:
        """Produce the record.

        Raises:
            StreamsError: key or value do not have the declared type, or the time is negative.
        """
        topic = self._topic
        definition = self._definition
        if topic is None:
            assert definition.chooser is not None
            topic = definition.chooser(
                record.key, record.value, self.context.record._replace(headers=record.headers)
            )
        try:
            key = self._encode_key(record.key)
            value = self._encode_value(record.value)
        except EncodingError as error:
            raise self._wrong(topic, record, error) from error
        if record.timestamp < 0:
            raise StreamsError(f"{self.name}: a record has the negative time {record.timestamp}")
        partition: int | None = None
        partition_key: bytes | None = None
        if definition.partitioner is not None and self._partition_count is not None:
            count = self._partition_count(topic)
            partition = definition.partitioner(topic, record.key, record.value, count)
        elif self._inner is not None and record.key is not None:
            partition_key = self._inner.encode(record.key.key)
        self.context.output.append(
            Produced(topic, partition, key, value, record.timestamp, record.headers, partition_key)
        )

    def _wrong(self, topic: str, record: Record, error: EncodingError) -> StreamsError:
        what = "value"
        try:
            self._encode_key(record.key)
        except EncodingError:
            what = "key"
        return StreamsError(
            f"{self.name} cannot write to {topic}: the {what} {error}. Say which type it has, for "
            f"instance {what}={type(getattr(record, what)).__name__}, where the stream gets it"
        )
