"""Where a distributed worker keeps configurations, states and offsets: in three topics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.client.errors import ClientError, RequestTimeoutError
from odradek.client.producer import Producer
from odradek.connect.clients import Clients
from odradek.connect.topic_log import TopicLog, TopicSpec
from odradek.core.connect.config_log import LogRecord
from odradek.core.connect.errors import ConfigError, ConnectError
from odradek.core.connect.herder_messages import NotPrivilegedError
from odradek.core.connect.offsets import OffsetMap, offset_value
from odradek.core.connect.status_log import (
    Status,
    StatusLog,
    Subject,
    TopicUse,
    no_topic_record,
    status_record,
    topic_record,
)
from odradek.core.connect.worker_config import WorkerConfig

log = logging.getLogger(__name__)

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]
_PURPOSES = {
    "config": "connector configurations",
    "offset": "source connector offsets",
    "status": "connector and task statuses",
}
WRITE_SECONDS = 30.0
_NOT_TOPIC_SETTINGS = ("topic", "partitions", "replication.factor")


def topic_spec(config: WorkerConfig, kind: str) -> TopicSpec:
    """Return the topic of a kind: `config`, `offset` or `status`."""
    prefix = f"{kind}.storage."
    given = config.with_prefix(prefix)
    return TopicSpec(
        config.text(prefix + "topic"),
        prefix + "topic",
        _PURPOSES[kind],
        1 if kind == "config" else config.number(prefix + "partitions"),
        config.number(prefix + "replication.factor"),
        {name: value for name, value in given.items() if name not in _NOT_TOPIC_SETTINGS},
    )


class ConfigStore:
    """The topic of configurations. What is read goes to the herder, in order.

    If the cluster has exactly-once sources, privileged records are written in transactions. The worker that
    claims the privilege fences the one that had it.
    """

    def __init__(
        self,
        config: WorkerConfig,
        clients: Clients,
        client_id: str,
        on_record: Callable[[str, bytes | None, int], None],
    ) -> None:
        support = config.text("exactly.once.source.support").lower()
        self._is_transactional = support != "disabled"
        self._clients = clients
        self._client_id = f"{client_id}configs"
        self._transactional_id = f"connect-cluster-{config.text('group.id')}"
        self._privileged: Producer | None = None

        def read(key: bytes, value: bytes | None, offset: int) -> None:
            on_record(key.decode("utf-8", "replace"), value, offset)

        self.log = TopicLog(
            topic_spec(config, "config"),
            clients,
            self._client_id,
            read,
            reads_committed=support == "enabled",
        )

    def start(self) -> None:
        """Read the topic to its end.

        Raises:
            ConnectError: it cannot be used.
        """
        self.log.start()
        if self.log.partitions > 1:
            raise ConfigError(
                f"Topic '{self.log.spec.name}' supplied via the 'config.storage.topic' property is "
                "required to have a single partition in order to guarantee consistency of connector "
                f"configurations, but found {self.log.partitions} partitions."
            )

    def stop(self) -> None:
        """Close the connections."""
        self._give_up()
        self.log.stop()

    def claim(self) -> None:
        """Become the only worker that writes privileged records.

        Raises:
            ConnectError: the coordinator of transactions refuses, or does not answer.
        """
        if not self._is_transactional or self._privileged is not None:
            return
        producer = self._clients.plain_producer(
            f"{self._client_id}-leader", transactional_id=self._transactional_id
        )
        try:
            producer.init_transactions(WRITE_SECONDS)
        except ClientError as error:
            producer.close(0)
            raise ConnectError(
                f"Failed to create and initialize fencable producer for config topic: {error}"
            ) from error
        self._privileged = producer

    def _give_up(self) -> None:
        producer, self._privileged = self._privileged, None
        if producer is not None:
            producer.close(0)

    def write(self, records: Sequence[LogRecord], *, is_privileged: bool) -> None:
        """Write records, and wait until they are in the topic.

        Raises:
            NotPrivilegedError: another worker has the privilege.
            ConnectError: they are not written, or that is not known.
        """
        pairs = [(each.key.encode(), each.value) for each in records]
        if not is_privileged or not self._is_transactional:
            self.log.write(pairs, WRITE_SECONDS)
            return
        producer = self._privileged
        if producer is None:
            raise NotPrivilegedError("this worker has not claimed the privilege to write")
        try:
            producer.begin_transaction()
            for key, value in pairs:
                producer.send(self.log.spec.name, value, key=key)
            producer.commit_transaction(WRITE_SECONDS)
        except ClientError as error:
            self._give_up()
            raise NotPrivilegedError(
                f"Failed to perform fencable send to config topic: {error}"
            ) from error


class _Sent:
    """A record on its way. `subject` is that of a state; None for the use of a topic."""

    def __init__(self, record: LogRecord, subject: Subject | None, generation: int) -> None:
        self.record = record
        self.subject = subject
        self.generation = generation


class TopicStatusStore:
    """The topic of states. Any thread may use it."""

    def __init__(self, config: WorkerConfig, clients: Clients, client_id: str) -> None:
        self._lock = threading.Lock()
        self._states = StatusLog()
        self._generation = -1
        """That of the last state."""
        self._used: set[tuple[str, str]] = set()
        """The topics that this worker has noted, by connector."""
        self._sent: dict[str, _Sent] = {}
        """What is on its way, by key."""
        self._failed: dict[str, _Sent] = {}
        """What was not written in time, by key."""
        self._log = TopicLog(
            topic_spec(config, "status"), clients, f"{client_id}statuses", self._read
        )

    @property
    def log(self) -> StatusLog:
        """What is known. It changes while it is read."""
        return self._states

    def start(self) -> None:
        """Read the topic to its end.

        Raises:
            ConnectError: it cannot be used.
        """
        self._log.start()

    def stop(self) -> None:
        """Close the connections."""
        self._log.stop()

    def _read(self, key: bytes, value: bytes | None, _offset: int) -> None:
        with self._lock:
            self._states.replay(key.decode("utf-8", "replace"), value)

    def _send(self, record: LogRecord, subject: Subject | None = None) -> None:
        sent = _Sent(record, subject, self._generation)
        with self._lock:
            self._sent[record.key] = sent
            self._failed.pop(record.key, None)
        self._log.send(record.key.encode(), record.value, lambda error: self._end(sent, error))

    def _end(self, sent: _Sent, error: ClientError | None) -> None:
        if error is not None:
            log.warning("topic %s: a record is not written: %s", self._log.spec.name, error)
        with self._lock:
            if self._sent.get(sent.record.key) is not sent:
                return  # there is a newer one
            del self._sent[sent.record.key]
            if isinstance(error, RequestTimeoutError) or (error is not None and error.retriable):
                self._failed[sent.record.key] = sent

    def send_again(self) -> None:
        """Send again what was not written in time, unless something newer was written since."""
        with self._lock:
            failed, self._failed = self._failed, {}
            wanted = [each for each in failed.values() if self._is_newest(each)]
        for each in wanted:
            self._send(each.record, each.subject)

    def _is_newest(self, sent: _Sent) -> bool:
        """Whether no worker has written a state of a later generation."""
        if sent.subject is None:
            return True
        known = self._states.of(sent.subject)
        return sent.generation == self._generation and (
            known is None or known.generation <= sent.generation
        )

    def write(self, subject: Subject, status: Status, *, safely: bool = False) -> None:
        """Write the state of a connector or task; see `status_log` about `safely`."""
        with self._lock:
            if safely and not self._states.may_write(subject, status):
                return
            self._generation = status.generation
        self._send(status_record(subject, status), subject)

    def used(self, use: TopicUse) -> None:
        """Note that a connector uses a topic."""
        with self._lock:
            key = use.connector, use.topic
            if key in self._used or self._states.uses(*key):
                return
            self._used.add(key)
        self._send(topic_record(use))

    def forget_topics(self, connector: str) -> None:
        """Forget the topics of a connector."""
        with self._lock:
            topics = [each.topic for each in self._states.topics(connector)]
            self._used = {each for each in self._used if each[0] != connector}
        for each in topics:
            self._send(no_topic_record(each, connector))

    def flush(self) -> None:
        """Wait until what was written is in the topic."""
        self._log.flush(WRITE_SECONDS)


class TopicOffsetStore:
    """A topic of offsets of sources. Any thread may use it."""

    def __init__(
        self,
        spec: TopicSpec,
        clients: Clients,
        client_id: str,
        *,
        reads_committed: bool,
        transactional_id: str | None = None,
    ) -> None:
        """With `transactional_id`, each `write` is a transaction."""
        self._lock = threading.Lock()
        self._map = OffsetMap()
        self._log = TopicLog(
            spec,
            clients,
            client_id,
            self._read,
            reads_committed=reads_committed,
            transactional_id=transactional_id,
        )

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._log.spec.name

    def start(self) -> None:
        """Read the topic to its end.

        Raises:
            ConnectError: it cannot be used.
        """
        self._log.start()

    def stop(self) -> None:
        """Close the connections."""
        self._log.stop()

    def _read(self, key: bytes, value: bytes | None, _offset: int) -> None:
        with self._lock:
            self._map.replay(key, value)

    def get(self, connector: str, partition: Partition) -> dict[str, Any] | None:
        """Return the offset of a partition of a source, as the topic has it now.

        Raises:
            ConnectError: the topic cannot be read.
        """
        self._log.read_to_end(WRITE_SECONDS)
        with self._lock:
            return self._map.get(connector, partition)

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Return all offsets of a connector, as the topic has them now.

        Raises:
            ConnectError: the topic cannot be read.
        """
        self._log.read_to_end(WRITE_SECONDS)
        with self._lock:
            return self._map.of_connector(connector)

    def encoded(
        self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> list[tuple[bytes, bytes | None]]:
        """Return the records of offsets. Known partitions keep the bytes of their keys.

        Raises:
            DataError: a partition or an offset has a value that is not primitive.
        """
        with self._lock:
            return [
                (self._map.key_of(connector, partition), offset_value(offset))
                for partition, offset in offsets
            ]

    def write(self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        """Store offsets; None removes one. When this returns, the topic has them.

        Raises:
            DataError: a partition or an offset has a value that is not primitive.
            ConnectError: the topic does not have them, or that is not known.
        """
        self._log.write(self.encoded(connector, offsets), WRITE_SECONDS)


class BothOffsetStores:
    """The offsets of a connector with a topic of its own (`offsets.storage.topic`), and those of the worker.

    What is in the connector's topic counts. Offsets are written there first, and removed there last.
    """

    def __init__(self, own: TopicOffsetStore, workers: TopicOffsetStore) -> None:
        self._own = own
        self._workers = workers

    @property
    def topic(self) -> str:
        """The name of the connector's topic."""
        return self._own.topic

    def get(self, connector: str, partition: Partition) -> dict[str, Any] | None:
        """See `TopicOffsetStore`."""
        found = self._own.get(connector, partition)
        return self._workers.get(connector, partition) if found is None else found

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """See `TopicOffsetStore`."""
        found = self._own.of_connector(connector)
        known = [partition for partition, _ in found]
        more = self._workers.of_connector(connector)
        return [*found, *(each for each in more if each[0] not in known)]

    def encoded(
        self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> list[tuple[bytes, bytes | None]]:
        """See `TopicOffsetStore`."""
        return self._own.encoded(connector, offsets)

    def write(self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        """See `TopicOffsetStore`."""
        removes = any(offset is None for _, offset in offsets)
        stores = (self._workers, self._own) if removes else (self._own, self._workers)
        for each in stores:
            each.write(connector, offsets)

    def written(self, connector: str, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        """Write to the worker's topic what a transaction has written to the connector's."""
        self._workers.write(connector, offsets)
