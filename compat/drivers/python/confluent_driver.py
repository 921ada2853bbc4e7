"""librdkafka, through confluent-kafka, as a driver."""

from __future__ import annotations

import importlib
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat.drivers.python.confluent_login import login
from compat.drivers.python.confluent_sessions import Sessions
from compat.drivers.python.confluent_share import ShareVerbs
from compat.drivers.python.lines import (
    Command,
    UnsupportedVerb,
    decoded,
    headers_to_write,
    record_read,
    serve,
    value_to_write,
)

admin: Any = importlib.import_module("confluent_kafka.admin")
"""Its annotations are for others: imported so, the type checker does not look at them."""

REQUEST_BYTES_MAX = 64 << 20
DELIVERY_SECONDS = 30
ADMIN_SECONDS = 40
SPECS = {"earliest": admin.OffsetSpec.earliest(), "latest": admin.OffsetSpec.latest()}


def _given() -> dict[str, str]:
    """Return the settings in the file that CLIENT_PROPERTIES names, if there is one."""
    file = os.environ.get("CLIENT_PROPERTIES")
    lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
    return dict(line.split("=", 1) for line in lines)


class Driver(ShareVerbs):
    """The verbs of compat/drivers/README.md."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__({**_given(), "bootstrap.servers": bootstrap})
        self.members: dict[str, Consumer] = {}
        self._sessions = Sessions()
        self.transactional: list[Producer] = []

    def about(self, command: Command) -> Command:
        return {"client": "librdkafka", "version": confluent_kafka.libversion()[0]}

    def create_topic(self, command: Command) -> None:
        topic = admin.NewTopic(
            command["topic"], command["partitions"], 1, config=command.get("configs") or {}
        )
        _wait(self.admin.create_topics([topic]))

    def delete_topic(self, command: Command) -> None:
        _wait(self.admin.delete_topics([command["topic"]]))

    def add_partitions(self, command: Command) -> None:
        _wait(
            self.admin.create_partitions([admin.NewPartitions(command["topic"], command["total"])])
        )

    def topics(self, command: Command) -> Command:
        return {"topics": list(self.admin.list_topics(timeout=ADMIN_SECONDS).topics)}

    def partitions(self, command: Command) -> Command:
        listed = self.admin.list_topics(command["topic"], timeout=ADMIN_SECONDS)
        topic = listed.topics[command["topic"]]
        if topic.error is not None:
            raise KafkaException(topic.error)
        return {"partitions": len(topic.partitions)}

    def describe_topic(self, command: Command) -> Command:
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, command["topic"])
        (described,) = _wait(self.admin.describe_configs([resource]))
        return {"configs": {name: entry.value for name, entry in described.items()}}

    def alter_topic(self, command: Command) -> None:
        entry = admin.ConfigEntry(
            command["name"], command["value"], incremental_operation=admin.AlterConfigOpType.SET
        )
        resource = admin.ConfigResource(
            admin.ResourceType.TOPIC, command["topic"], incremental_configs=[entry]
        )
        _wait(self.admin.incremental_alter_configs([resource]))

    def delete_records(self, command: Command) -> None:
        partition = TopicPartition(command["topic"], command["partition"], command["offset"])
        _wait(self.admin.delete_records([partition]))

    def offset(self, command: Command) -> Command:
        at = command["at"]
        spec = SPECS.get(at) or admin.OffsetSpec.for_timestamp(int(at))
        partition = TopicPartition(command["topic"], command["partition"])
        (found,) = _wait(self.admin.list_offsets({partition: spec}))
        return {"offset": found.offset if found.offset >= 0 else None}

    def produce(self, command: Command) -> Command:
        producer = Producer(
            {
                **self.connection,
                "compression.type": command.get("codec", "none"),
                "acks": command.get("acks", -1),
                "enable.idempotence": command.get("idempotent", False),
                "message.max.bytes": REQUEST_BYTES_MAX,
                "linger.ms": 20,
                "message.timeout.ms": DELIVERY_SECONDS * 1000,
            }
        )
        offsets: list[int | None] = [None] * len(command["records"])
        errors: list[KafkaError] = []

        def delivered(index: int, error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            elif command.get("acks", -1) != 0:
                offsets[index] = message.offset()

        for index, record in enumerate(command["records"]):
            producer.produce(
                command["topic"],
                partition=record["partition"],
                key=decoded(record["key"]),
                value=value_to_write(record["value"]),
                headers=cast("Any", headers_to_write(record)),
                timestamp=record.get("timestamp") or 0,
                on_delivery=partial(delivered, index),
            )
        left = producer.flush(DELIVERY_SECONDS + 5)
        if errors:
            raise KafkaException(errors[0])
        if left:
            raise TimeoutError(f"{left} records were not delivered")
        return {"offsets": offsets}

    def produce_empty(self, command: Command) -> None:
        raise UnsupportedVerb("librdkafka makes no batch without a record")

    def read(self, command: Command) -> Command:
        isolation = "read_committed" if command.get("committed") else "read_uncommitted"
        consumer = self._consumer("reads-alone", {"isolation.level": isolation})
        start = command.get("from", 0)
        consumer.assign(
            [TopicPartition(command["topic"], index, start) for index in command["partitions"]]
        )
        try:
            return {"records": _collect(consumer, command["count"], command["timeout_ms"])}
        finally:
            consumer.close()

    def transact(self, command: Command) -> None:
        producer = Producer({**self.connection, "transactional.id": command["id"]})
        self.transactional.append(producer)  # one that goes away would abort what is open
        producer.init_transactions(DELIVERY_SECONDS)
        producer.begin_transaction()
        for record in command["records"]:
            producer.produce(
                command["topic"],
                partition=record["partition"],
                key=decoded(record["key"]),
                value=value_to_write(record["value"]),
            )
        producer.flush(DELIVERY_SECONDS)
        if command["group"] is not None:
            consumer = self._consumer(command["group"], {})
            offsets = [TopicPartition(command["topic"], 0, command["offset"])]
            member = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, member, DELIVERY_SECONDS)
            consumer.close()
        if command["end"] == "commit":
            producer.commit_transaction(DELIVERY_SECONDS)
        elif command["end"] == "abort":
            producer.abort_transaction(DELIVERY_SECONDS)

    def join(self, command: Command) -> None:
        strategy = command.get("strategy", "range")
        settings: dict[str, Any] = {"group.protocol": "consumer"}
        if strategy != "server":
            settings = {
                "session.timeout.ms": 10000,
                "heartbeat.interval.ms": 500,
                "partition.assignment.strategy": strategy,
            }
        if command.get("instance"):
            settings["group.instance.id"] = command["instance"]
        consumer = self._consumer(command["group"], settings)
        pattern = command.get("pattern")
        consumer.subscribe(command["topics"] if pattern is None else [f"^{pattern}"])
        self.members[command["member"]] = consumer

    def poll(self, command: Command) -> Command:
        consumer = self.members[command["member"]]
        records = _collect(consumer, command["count"], command["timeout_ms"])
        owned = [f"{each.topic}-{each.partition}" for each in consumer.assignment()]
        return {"records": records, "assignment": owned}

    def commit(self, command: Command) -> None:
        consumer = self.members[command["member"]]
        positions = consumer.position(consumer.assignment())
        known = [position for position in positions if position.offset >= 0]
        if known:
            consumer.commit(offsets=known, asynchronous=False)

    def leave(self, command: Command) -> None:
        self.members.pop(command["member"]).close()

    def committed(self, command: Command) -> Command:
        topic = command["topic"]
        count = self.partitions(command)["partitions"]
        consumer = self._consumer(command["group"], {})
        wanted = [TopicPartition(topic, index) for index in range(count)]
        try:
            found = consumer.committed(wanted, timeout=ADMIN_SECONDS)
        finally:
            consumer.close()
        return {"offsets": {str(p.partition): p.offset for p in found if p.offset >= 0}}

    def groups(self, command: Command) -> Command:
        listed = self.admin.list_consumer_groups().result(ADMIN_SECONDS)
        return {"groups": [group.group_id for group in listed.valid]}

    def delete_group(self, command: Command) -> None:
        _wait(self.admin.delete_consumer_groups([command["group"]]))

    def login(self, command: Command) -> Command:
        return login(command)

    def open_sessions(self, command: Command) -> None:
        self._sessions.open(command)

    def use_sessions(self, command: Command) -> Command:
        return self._sessions.use(command)

    def close_sessions(self, command: Command) -> None:
        self._sessions.close()

    def _consumer(self, group: str, more: dict[str, Any]) -> Consumer:
        return Consumer(
            {
                **self.connection,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "message.max.bytes": REQUEST_BYTES_MAX,
                "fetch.wait.max.ms": 100,
                **more,
            }
        )


def _wait(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(ADMIN_SECONDS) for future in futures.values()]


def _collect(consumer: Consumer, count: int, timeout_ms: int) -> list[Command]:
    records: list[Command] = []
    deadline = time.monotonic() + timeout_ms / 1000
    while len(records) < count and (left := deadline - time.monotonic()) > 0:
        message: Any = consumer.poll(min(left, 0.1))
        if message is None:
            continue
        if message.error():
            if message.error().retriable():
                continue
            raise KafkaException(message.error())
        records.append(
            record_read(
                message.topic(),
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                message.headers() or (),
            )
        )
    return records


def name_of(error: BaseException) -> str:
    """Kafka's name of a client's exception."""
    if isinstance(error, KafkaException):
        name: str = error.args[0].name()
        return {"MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}.get(name, name)
    return type(error).__name__


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
