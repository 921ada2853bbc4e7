"""The classes that a connector is made of.

    class Numbers(SourceConnector):
        task_class = NumbersTask

A connector says which tasks there are. Tasks copy data. The methods of a connector and of a task are
called by one thread, or in one process, one after the other: a task that blocks stops nothing but
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from odradek.core.connect.config_def import ConfigDef, ConfigValue
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.records import SinkRecord, SourceRecord
from odradek.model.topic_partition import TopicPartition

Config = Mapping[str, str]
Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class ConnectorContext(Protocol):
    """What a connector can ask of the worker."""

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Let the connector fail."""
        ...


class Connector:
    """What sources and sinks have in common."""

    task_class: ClassVar[type[Task]]
    version: ClassVar[str] = ""
    java_name: ClassVar[str] = ""
    """The name of the Java class whose configuration this connector understands."""
    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Take what the connector can ask. This is called before `start`."""
        self.context = context

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the definitions of the configuration."""
        return ConfigDef()

    def validate(self, config: Config) -> dict[str, ConfigValue]:
        """Return the values with their errors; by default those that the definitions find."""
        return self.config().validate(config)

    def start(self, config: Config) -> None:
        """Start with a configuration. This is called before anything but `validate`."""

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """Return the configuration of each task: between none and `max_tasks`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop what `start` has begun."""


class SourceConnector(Connector):
    """Reads from a system into topics."""

    task_class: ClassVar[type[SourceTask]]

    def exactly_once_support(self, config: Config) -> bool | None:
        """Return whether the offsets of this connector make it exact; None if it does not say."""
        return None

    def can_define_transaction_boundaries(self, config: Config) -> bool:
        """Return whether tasks say where transactions end."""
        return False

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """Check offsets that a user wants. Return whether the connector knows them.

        Raises:
            ConnectError: they are wrong.
        """
        return False


class SinkConnector(Connector):
    """Writes records of topics into a system."""

    task_class: ClassVar[type[SinkTask]]

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check offsets that a user wants, and set them in the other system if they are there.

        Raises:
            ConnectError: they are wrong.
        """
        return False


class Task:
    """What tasks of sources and sinks have in common."""

    def start(self, config: Config) -> None:
        """Start with a configuration."""

    def stop(self) -> None:
        """Close what `start` has opened. A source's `poll` may be running in another thread."""


class TransactionContext(Protocol):
    """Ends transactions, if `transaction.boundary=connector`."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the current batch, or after a record of it."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort after the current batch, or after a record of it."""
        ...


class SourceTaskContext(Protocol):
    """What a source task can ask of the worker."""

    def offset(self, partition: Partition) -> dict[str, Any] | None:
        """Return the last committed offset of a partition of the source."""
        ...

    @property
    def transaction(self) -> TransactionContext | None:
        """The transactions; None if the task does not end them."""
        ...


class SourceTask(Task):
    """Reads records."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Take what the task can ask. This is called before `start`."""
        self.context = context

    def poll(self) -> Iterable[SourceRecord] | None:
        """Return new records. Block for about a second if there are none, and return None.

        Raises:
            RetriableError: call again later.
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Note that the offsets of the records so far are committed."""

    def commit_record(self, record: SourceRecord, offset: int | None) -> None:
        """Note that a record is written, with its offset in the topic; None if it was dropped."""


class Written(Protocol):
    """A record on its way to the dead letters."""

    def result(self, timeout: float | None = None) -> None:
        """Wait until it is written; at most `timeout` seconds."""
        ...


class ErrantRecordReporter(Protocol):
    """Takes records that a sink cannot write."""

    def report(self, record: SinkRecord, error: BaseException) -> Written:
        """Pass a record on to the dead letters. Return how to wait for it.

        Raises:
            ConnectError: errors are not tolerated.
        """
        ...


class SinkTaskContext(Protocol):
    """What a sink task can ask of the worker."""

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the task has."""
        ...

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read on from other offsets."""
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop the records of partitions."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Get records of partitions again."""
        ...

    def set_timeout(self, timeout_ms: int) -> None:
        """Wait at most so long until `put` is called again, with the same records after RetriableError."""
        ...

    def request_commit(self) -> None:
        """Commit soon."""
        ...

    @property
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Where bad records go; None if errors are not tolerated and there is no dead letter topic."""
        ...


class SinkTask(Task):
    """Writes records."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Take what the task can ask. This is called before `start`."""
        self.context = context

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the task has got partitions."""

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the task gives partitions up."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records. There may be none.

        Raises:
            RetriableError: the same records come again later.
        """
        raise NotImplementedError

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write everything that `put` has got, before these offsets are committed."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed; by default all, after `flush`."""
        self.flush(offsets)
        return offsets


class TooManyTasksError(ConnectError):
    """A connector wants more tasks than `tasks.max`."""


def check_task_count(connector: str, count: int, most: int) -> None:
    """Check how many tasks a connector wants.

    Raises:
        TooManyTasksError: more than `tasks.max`.
    """
    if count > most:
        raise TooManyTasksError(
            f"The connector {connector} has generated {count} tasks, which is greater than {most}, "
            "the maximum number of tasks it is configured to create. This behaviour should be considered "
            "a bug and is disallowed. If necessary, it can be permitted by reconfiguring the connector "
            "with 'tasks.max.enforce' set to false; however, this option will be removed in a future "
            "release of Kafka Connect."
        )
