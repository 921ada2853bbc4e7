"""A topic as a log that a worker reads from the beginning, follows, and writes.

    write:  ----------------> topic ----> thread that follows ----> on_record
    read_to_end:  which offset is the end?    ... waits until the thread is there

The three topics of a worker must be compacted, or records would be lost that nobody writes again. The
worker creates those that do not exist, and checks those that do.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from odradek.client.admin.configs import Resource, describe_configs
from odradek.client.admin.topics import NewTopic, create_topics, describe_topics, exists_already
from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.client.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from odradek.client.producer import Delivery, Producer
from odradek.connect.clients import Clients
from odradek.core.connect.errors import ConfigError, ConnectError
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

OnRecord = Callable[[bytes, bytes | None, int], None]
"""Gets key, value and offset of each record, in the thread that follows."""
_POLL_SECONDS = 0.1
_RETRY_SECONDS = 1.0
START_SECONDS = 120.0
"""How long the first reading may take without any progress."""


class TopicSpec:
    """What a topic is for, and how it is created. `setting` is the worker's setting with its name."""

    def __init__(
        self,
        name: str,
        setting: str,
        purpose: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
    ) -> None:
        self.name = name
        self.setting = setting
        self.purpose = purpose
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.configs = dict(configs)

    def ensure(self, cluster: Cluster) -> int:
        """Create the topic, or check it. Return the number of its partitions.

        Raises:
            ConfigError: the topic is not compacted only.
            ConnectError: the cluster refuses.
        """
        wanted = NewTopic(
            self.name,
            self.partitions,
            self.replication_factor,
            {**self.configs, "cleanup.policy": "compact"},
        )
        try:
            made = create_topics(cluster, [wanted])[self.name]
            if isinstance(made, ClientError):
                if not exists_already(made):
                    self._look(cluster, made)
                self._check_policy(cluster)
            found = describe_topics(cluster, [self.name])[self.name]
        except ClientError as error:
            raise ConnectError(f"topic {self.name} ({self.setting}): {error}") from error
        if isinstance(found, ClientError):
            raise ConnectError(f"topic {self.name} ({self.setting}): {found}") from found
        return len(found.partitions)

    def _look(self, cluster: Cluster, refusal: ClientError) -> None:
        """Use a topic that exists, if this user may not create one."""
        found = describe_topics(cluster, [self.name])[self.name]
        if isinstance(found, ClientError):
            raise ConnectError(
                f"topic {self.name} ({self.setting}) cannot be created: {refusal}"
            ) from refusal

    def _check_policy(self, cluster: Cluster) -> None:
        resource = Resource(ResourceType.TOPIC, self.name)
        found = describe_configs(cluster, [resource], names=["cleanup.policy"])[resource]
        if isinstance(found, ClientError):
            log.info("the cleanup policy of topic %s cannot be checked: %s", self.name, found)
            return
        policies = {p.strip().lower() for e in found for p in (e.value or "").split(",")} - {""}
        if policies and policies != {"compact"}:
            shown = ",".join(sorted(policies))
            raise ConfigError(
                f"Topic '{self.name}' supplied via the '{self.setting}' property is required to have "
                "'cleanup.policy=compact' to guarantee consistency and durability of "
                f"{self.purpose}, but found the topic currently has 'cleanup.policy={shown}'. Continuing "
                f"would likely result in eventually losing {self.purpose} and problems restarting this "
                f"Connect cluster in the future. Change the '{self.setting}' property in the Connect "
                "worker configurations to use a topic with 'cleanup.policy=compact'."
            )


class TopicLog:
    """See the module. Any thread may write and read to the end."""

    def __init__(
        self,
        spec: TopicSpec,
        clients: Clients,
        client_id: str,
        on_record: OnRecord,
        *,
        reads_committed: bool = False,
        transactional_id: str | None = None,
    ) -> None:
        """With `transactional_id`, each `write` is a transaction."""
        self._transactional_id = transactional_id
        self.spec = spec
        self._clients = clients
        self._client_id = client_id
        self._on_record = on_record
        self._isolation = READ_COMMITTED if reads_committed else READ_UNCOMMITTED
        self._positions: dict[TopicPartition, int] = {}
        self._moved = threading.Condition()
        self._failure: Exception | None = None
        self._is_stopping = False
        self._cluster: Cluster | None = None
        self._cluster_lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._thread = threading.Thread(
            target=self._follow, name=f"{client_id}-reader", daemon=True
        )
        self.partitions = 0
        """How many partitions the topic has; 0 before the start."""

    def start(self) -> None:
        """Make sure of the topic, and read it to its end.

        Raises:
            ConnectError: the topic cannot be used or read.
        """
        self._cluster = self._clients.plain_cluster(self._client_id)
        self.partitions = self.spec.ensure(self._cluster)
        self._consumer = self._clients.plain_consumer(
            self._client_id, reads_committed=self._isolation == READ_COMMITTED
        )
        self._producer = self._clients.plain_producer(self._client_id, self._transactional_id)
        starts = [(self.spec.name, each, 0) for each in range(self.partitions)]
        self._consumer.assign(starts)
        self._thread.start()
        self.read_to_end(START_SECONDS, per_step=True)

    def stop(self) -> None:
        """Stop following, and close the connections."""
        self._is_stopping = True
        if self._thread.is_alive():
            self._thread.join()
        for each in (self._consumer, self._producer):
            if each is not None:
                each.close()
        if self._cluster is not None:
            self._cluster.close()

    def _follow(self) -> None:
        consumer = self._consumer
        assert consumer is not None, "the thread is started with a consumer"
        while not self._is_stopping:
            try:
                batch = consumer.poll(_POLL_SECONDS)
                for record in batch or ():
                    self._on_record(record.key or b"", record.value, record.offset)
                found = consumer.positions
            except ClientError as error:
                log.warning("topic %s cannot be read: %s", self.spec.name, error)
                time.sleep(_RETRY_SECONDS)
                continue
            except BaseException as error:
                with self._moved:
                    self._failure = error if isinstance(error, Exception) else None
                    self._moved.notify_all()
                raise
            with self._moved:
                if found != self._positions:
                    self._positions = dict(found)
                    self._moved.notify_all()

    def read_to_end(self, timeout_s: float, *, per_step: bool = False) -> None:
        """Wait until everything that the topic has now is read.

        With `per_step`, the time begins anew whenever something was read.

        Raises:
            ConnectError: it takes longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        name = self.spec.name
        wanted = [TopicPartition(name, each) for each in range(self.partitions)]
        assert self._cluster is not None, "the log is started"
        try:
            with self._cluster_lock:
                ends = offsets_at(self._cluster, wanted, LATEST, isolation=self._isolation)
        except ClientError as error:
            raise ConnectError(f"the end of topic {name} is not known: {error}") from error
        with self._moved:
            while any(self._positions.get(each, 0) < end for each, end in ends.items()):
                if self._failure is not None:
                    raise ConnectError(f"topic {name} is not read any more") from self._failure
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise ConnectError(f"topic {name} was not read to its end within {timeout_s} s")
                if self._moved.wait(left_s) and per_step:
                    deadline = time.monotonic() + timeout_s

    def write(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> None:
        """Write records, and wait until they are in the topic.

        Raises:
            ConnectError: they are not, or that is not known.
        """
        deliveries: list[Delivery] = []
        assert self._producer is not None, "the log is started"
        try:
            if self._transactional_id is not None:
                with self._producer.transaction():
                    for key, value in records:
                        self._producer.send(self.spec.name, value, key=key)
                return
            for key, value in records:
                deliveries.append(self._producer.send(self.spec.name, value, key=key))
            for each in deliveries:
                each.wait(timeout_s)
        except ClientError as error:
            raise ConnectError(f"topic {self.spec.name} cannot be written: {error}") from error

    def send(
        self, key: bytes, value: bytes | None, on_end: Callable[[ClientError | None], None]
    ) -> None:
        """Write a record, without waiting for it. Any thread calls `on_end`, with the error of a failure."""
        assert self._producer is not None, "the log is started"
        try:
            self._producer.send(
                self.spec.name, value, key=key, on_delivery=lambda found: on_end(found.error)
            )
        except ClientError as error:
            on_end(error)

    def flush(self, timeout_s: float) -> None:
        """Wait until everything that was sent is written, or has failed, but not longer."""
        assert self._producer is not None, "the log is started"
        try:
            self._producer.flush(timeout_s)
        except ClientError as error:
            log.warning("topic %s: not all records are written: %s", self.spec.name, error)
