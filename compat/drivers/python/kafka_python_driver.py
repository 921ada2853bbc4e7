"""kafka-python as a driver."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import cramjam
import kafka
import kafka.codec
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from compat.drivers.python.lines import (
    Command,
    UnsupportedVerb,
    decoded,
    headers_to_write,
    record_read,
    refuse_impossible,
    serve,
    value_to_write,
)

# kafka-python takes snappy from a package that is a thin layer over this one.
kafka.codec.snappy = SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
)

REQUEST_BYTES_MAX = 64 << 20
DELIVERY_SECONDS = 30
EARLIEST, LATEST = -2, -1
STRATEGIES = {
    "range": RangePartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
NAMES = {
    "MessageSizeTooLargeError": "MESSAGE_TOO_LARGE",
    "UnknownTopicOrPartitionError": "UNKNOWN_TOPIC_OR_PARTITION",
    "TopicAlreadyExistsError": "TOPIC_ALREADY_EXISTS",
    "InvalidConfigurationError": "INVALID_CONFIG",
    "InvalidTopicError": "INVALID_TOPIC_EXCEPTION",
    "InvalidPartitionsError": "INVALID_PARTITIONS",
}


class Driver:
    """The verbs of compat/drivers/README.md."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=40000)
        self.members: dict[str, Member] = {}
        self.transactional: list[KafkaProducer] = []

    def about(self, command: Command) -> Command:
        lacks = ["null key with null value", "null header values"]
        return {"client": "kafka-python", "version": kafka.__version__, "lacks": lacks}

    def create_topic(self, command: Command) -> None:
        options = {
            "num_partitions": command["partitions"],
            "replication_factor": 1,
            "configs": command.get("configs") or {},
        }
        self.admin.create_topics({command["topic"]: options})

    def delete_topic(self, command: Command) -> None:
        self.admin.delete_topics([command["topic"]])

    def add_partitions(self, command: Command) -> None:
        self.admin.create_partitions({command["topic"]: command["total"]})

    def topics(self, command: Command) -> Command:
        return {"topics": list(self.admin.list_topics())}

    def partitions(self, command: Command) -> Command:
        (topic,) = self.admin.describe_topics([command["topic"]])
        if topic["error_code"]:
            raise kafka.errors.for_code(topic["error_code"])(command["topic"])
        return {"partitions": len(topic["partitions"])}

    def describe_topic(self, command: Command) -> Command:
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"])
        described = self.admin.describe_configs([resource], config_filter="all")
        configs = described["topic"][command["topic"]]
        return {"configs": {name: entry["value"] for name, entry in configs.items()}}

    def alter_topic(self, command: Command) -> None:
        change = {command["name"]: command["value"]}
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"], configs=change)
        answer = self.admin.alter_configs([resource], raise_on_unknown=False)
        said = str(answer["topic"][command["topic"]])
        if "Error" in said:
            raise kafka.errors.InvalidConfigurationError(said)

    def delete_records(self, command: Command) -> None:
        partition = TopicPartition(command["topic"], command["partition"])
        self.admin.delete_records({partition: command["offset"]})

    def offset(self, command: Command) -> Command:
        at = {"earliest": EARLIEST, "latest": LATEST}.get(command["at"])
        partition = TopicPartition(command["topic"], command["partition"])
        wanted = {partition: int(command["at"]) if at is None else at}
        found = self.admin.list_partition_offsets(wanted)[partition]
        return {"offset": None if found is None or found.offset < 0 else found.offset}

    def produce(self, command: Command) -> Command:
        refuse_impossible(command["records"], "kafka-python")
        codec = command.get("codec", "none")
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks={-1: "all"}.get(command.get("acks", -1), command.get("acks")),
            enable_idempotence=command.get("idempotent", False),
            max_request_size=REQUEST_BYTES_MAX,
            linger_ms=20,
            delivery_timeout_ms=DELIVERY_SECONDS * 1000,
            request_timeout_ms=15000,
        )
        try:
            futures = [
                producer.send(
                    command["topic"],
                    partition=record["partition"],
                    key=decoded(record["key"]),
                    value=value_to_write(record["value"]),
                    headers=headers_to_write(record),
                    timestamp_ms=record.get("timestamp"),
                )
                for record in command["records"]
            ]
            sent = [future.get(DELIVERY_SECONDS + 5) for future in futures]
        finally:
            producer.close(timeout=10)
        if command.get("acks", -1) == 0:
            return {"offsets": [None] * len(sent)}
        return {"offsets": [each.offset for each in sent]}

    def produce_empty(self, command: Command) -> None:
        raise UnsupportedVerb("kafka-python makes no batch without a record")

    def read(self, command: Command) -> Command:
        isolation = "read_committed" if command.get("committed") else "read_uncommitted"
        consumer = self._consumer({"group_id": None, "isolation_level": isolation})
        wanted = [TopicPartition(command["topic"], index) for index in command["partitions"]]
        consumer.assign(wanted)
        for partition in wanted:
            consumer.seek(partition, command.get("from", 0))
        try:
            return {"records": _collect(consumer, command["count"], command["timeout_ms"])}
        finally:
            consumer.close()

    def transact(self, command: Command) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=command["id"])
        self.transactional.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        for record in command["records"]:
            producer.send(
                command["topic"],
                value_to_write(record["value"]),
                key=decoded(record["key"]),
                partition=record["partition"],
            ).get(30)
        if command["group"] is not None:
            offsets = {
                TopicPartition(command["topic"], 0): OffsetAndMetadata(command["offset"], "", -1)
            }
            producer.send_offsets_to_transaction(offsets, command["group"])
        if command["end"] == "commit":
            producer.commit_transaction()
        elif command["end"] == "abort":
            producer.abort_transaction()
        if command["end"] != "none":
            producer.close()

    def join(self, command: Command) -> None:
        if command.get("strategy", "range") == "server":
            raise UnsupportedVerb("kafka-python has no consumer protocol")
        strategy = STRATEGIES[command.get("strategy", "range")]
        consumer = self._consumer(
            {
                "group_id": command["group"],
                "group_instance_id": command.get("instance"),
                "session_timeout_ms": 10000,
                "heartbeat_interval_ms": 500,
                "partition_assignment_strategy": [strategy],
            }
        )
        consumer.subscribe(command["topics"])
        # kafka-python rejoins when its metadata changes after it has joined, and forgets that rejoin
        # if the poll that sent it times out: so its metadata is complete before it joins.
        consumer.topics()
        self.members[command["member"]] = Member(consumer)

    def poll(self, command: Command) -> Command:
        member = self.members[command["member"]]
        records = member.take(command["count"], command["timeout_ms"])
        return {"records": records, "assignment": member.assignment}

    def commit(self, command: Command) -> None:
        self.members[command["member"]].commit()

    def leave(self, command: Command) -> None:
        self.members.pop(command["member"]).close()

    def committed(self, command: Command) -> Command:
        found = self.admin.list_group_offsets([command["group"]])[command["group"]]
        return {
            "offsets": {
                str(partition.partition): known.offset
                for partition, known in found.items()
                if partition.topic == command["topic"] and known.offset >= 0
            }
        }

    def groups(self, command: Command) -> Command:
        return {"groups": [group["group_id"] for group in self.admin.list_groups()]}

    def delete_group(self, command: Command) -> None:
        said = str(self.admin.delete_groups([command["group"]]))
        if "Error" in said and "NoError" not in said:
            raise kafka.errors.KafkaError(said)

    def _consumer(self, more: dict[str, Any]) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            **more,
        )


class Member:
    """A member of a group, polled by a thread of its own.

    kafka-python joins and rejoins in `poll` only, and starts over when it is polled in slices that
    are too short; a rebalance of several members needs all of them to poll at once.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.assignment: list[str] = []
        self._records: queue.Queue[Command] = queue.Queue()
        self._positions: dict[TopicPartition, int] = {}
        self._work: queue.Queue[tuple[Callable[[], None], Future[None]]] = queue.Queue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def take(self, count: int, timeout_ms: int) -> list[Command]:
        """Up to `count` records that the thread has read."""
        records: list[Command] = []
        deadline = time.monotonic() + timeout_ms / 1000
        while len(records) < count and (left := deadline - time.monotonic()) > 0:
            try:
                record = self._records.get(timeout=left)
            except queue.Empty:
                break
            records.append(record)
            partition = TopicPartition(record["topic"], record["partition"])
            self._positions[partition] = record["offset"] + 1
        return records

    def commit(self) -> None:
        """Commit all that was taken, between two polls."""
        done: Future[None] = Future()
        self._work.put((self._commit, done))
        done.result(DELIVERY_SECONDS)

    def close(self) -> None:
        """Leave the group."""
        self._ended.set()
        self._thread.join()
        self.consumer.close(autocommit=False)

    def _poll(self) -> None:
        while not self._ended.is_set():
            for record in _polled(self.consumer, 200):
                self._records.put(record)
            self.assignment = [f"{p.topic}-{p.partition}" for p in self.consumer.assignment()]
            while not self._work.empty():
                work, done = self._work.get()
                try:
                    done.set_result(work())
                except kafka.errors.KafkaError as error:
                    done.set_exception(error)

    def _commit(self) -> None:
        owned = self.consumer.assignment()
        offsets = {
            partition: OffsetAndMetadata(offset, "", -1)
            for partition, offset in self._positions.items()
            if partition in owned
        }
        if offsets:
            self.consumer.commit(offsets)


def _collect(consumer: KafkaConsumer, count: int, timeout_ms: int) -> list[Command]:
    records: list[Command] = []
    deadline = time.monotonic() + timeout_ms / 1000
    while len(records) < count and (left := deadline - time.monotonic()) > 0:
        records += _polled(consumer, min(100, int(left * 1000) + 1))
    return records


def _polled(consumer: KafkaConsumer, timeout_ms: int) -> list[Command]:
    return [
        record_read(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for batch in consumer.poll(timeout_ms=timeout_ms).values()
        for record in batch
    ]


def name_of(error: BaseException) -> str:
    """Kafka's name of a client's exception."""
    name = type(error).__name__
    return NAMES.get(name, name)


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
