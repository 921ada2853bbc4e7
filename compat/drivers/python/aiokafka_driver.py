"""aiokafka as a driver; its event loop runs in a separate thread."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import for_code

from compat.drivers.python.aiokafka_login import login
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

Result = TypeVar("Result")
REQUEST_BYTES_MAX = 64 << 20
CALL_SECONDS = 60
NAMES = {
    "MessageSizeTooLargeError": "MESSAGE_TOO_LARGE",
    "UnknownTopicOrPartitionError": "UNKNOWN_TOPIC_OR_PARTITION",
    "TopicAlreadyExistsError": "TOPIC_ALREADY_EXISTS",
    "InvalidConfigurationError": "INVALID_CONFIG",
    "InvalidTopicError": "INVALID_TOPIC_EXCEPTION",
    "InvalidPartitionsError": "INVALID_PARTITIONS",
    "CorruptRecordException": "CORRUPT_MESSAGE",
}


class Driver:
    """The verbs of compat/drivers/README.md."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="event loop", daemon=True).start()
        self.admin: AIOKafkaAdminClient = self._run(self._start_admin())
        self.members: dict[str, AIOKafkaConsumer] = {}
        self.transactional: list[AIOKafkaProducer] = []
        self.starts: dict[str, Future[None]] = {}
        """A consumer's start ends with its first assignment, for which others may be needed."""

    def about(self, command: Command) -> Command:
        lacks = ["null key with null value"]
        return {"client": "aiokafka", "version": aiokafka.__version__, "lacks": lacks}

    def create_topic(self, command: Command) -> None:
        topic = NewTopic(
            command["topic"], command["partitions"], 1, topic_configs=command.get("configs") or {}
        )
        response = self._run(self.admin.create_topics([topic]))
        for name, code, message, *_ in response.topic_errors:
            _raise_for(code, f"{name}: {message}")

    def delete_topic(self, command: Command) -> None:
        response = self._run(self.admin.delete_topics([command["topic"]]))
        for name, code, *_ in response.topic_error_codes:
            _raise_for(code, name)

    def add_partitions(self, command: Command) -> None:
        total = NewPartitions(command["total"])
        self._run(self.admin.create_partitions({command["topic"]: total}))

    def topics(self, command: Command) -> Command:
        return {"topics": self._run(self.admin.list_topics())}

    def partitions(self, command: Command) -> Command:
        (topic,) = self._run(self.admin.describe_topics([command["topic"]]))
        _raise_for(topic["error_code"], command["topic"])
        return {"partitions": len(topic["partitions"])}

    def describe_topic(self, command: Command) -> Command:
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"])
        (response,) = self._run(self.admin.describe_configs([resource]))
        ((code, message, _, _, entries),) = response.resources
        _raise_for(code, message)
        return {"configs": {entry[0]: entry[1] for entry in entries}}

    def alter_topic(self, command: Command) -> None:
        change = {command["name"]: command["value"]}
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"], configs=change)
        for response in self._run(self.admin.alter_configs([resource])):
            for code, message, *_ in response.resources:
                _raise_for(code, message)

    def delete_records(self, command: Command) -> None:
        partition = TopicPartition(command["topic"], command["partition"])
        before = RecordsToDelete(before_offset=command["offset"])
        self._run(self.admin.delete_records({partition: before}))

    def offset(self, command: Command) -> Command:
        partition = TopicPartition(command["topic"], command["partition"])
        return {"offset": self._run(self._offset(partition, command["at"]))}

    def produce(self, command: Command) -> Command:
        refuse_impossible(command["records"], "aiokafka", headers=False)
        return {"offsets": self._run(self._produce(command))}

    def produce_empty(self, command: Command) -> None:
        self._run(self._produce_empty(command["topic"]))

    def read(self, command: Command) -> Command:
        return {"records": self._run(self._read(command))}

    def transact(self, command: Command) -> None:
        self._run(self._transact(command))

    def join(self, command: Command) -> None:
        if command.get("strategy", "range") == "server":
            raise UnsupportedVerb("aiokafka has no consumer protocol")
        if command.get("strategy", "range") != "range":
            raise UnsupportedVerb("aiokafka has no cooperative rebalance")
        name = command["member"]
        self.members[name] = self._run(self._member(command))
        self.starts[name] = asyncio.run_coroutine_threadsafe(self.members[name].start(), self.loop)

    def poll(self, command: Command) -> Command:
        consumer = self.members[command["member"]]
        try:
            self.starts[command["member"]].result(command["timeout_ms"] / 1000)
        except FutureTimeout:
            return {"records": [], "assignment": []}
        records = self._run(_collect(consumer, command["count"], command["timeout_ms"]))
        owned = [f"{each.topic}-{each.partition}" for each in consumer.assignment()]
        return {"records": records, "assignment": owned}

    def commit(self, command: Command) -> None:
        self._run(self.members[command["member"]].commit())

    def leave(self, command: Command) -> None:
        self.starts.pop(command["member"]).result(CALL_SECONDS)
        self._run(self.members.pop(command["member"]).stop())

    def committed(self, command: Command) -> Command:
        found = self._run(self.admin.list_consumer_group_offsets(command["group"]))
        return {
            "offsets": {
                str(partition.partition): known.offset
                for partition, known in found.items()
                if partition.topic == command["topic"] and known.offset >= 0
            }
        }

    def groups(self, command: Command) -> Command:
        return {"groups": [group for group, _ in self._run(self.admin.list_consumer_groups())]}

    def delete_group(self, command: Command) -> None:
        raise UnsupportedVerb("aiokafka cannot delete a group")

    def login(self, command: Command) -> Command:
        return self._run(login(command))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_SECONDS)

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=40000)
        await admin.start()
        return admin

    async def _offset(self, partition: TopicPartition, at: str) -> int | None:
        consumer = await self._consumer({})
        try:
            if at == "earliest":
                return int((await consumer.beginning_offsets([partition]))[partition])
            if at == "latest":
                return int((await consumer.end_offsets([partition]))[partition])
            found = (await consumer.offsets_for_times({partition: int(at)}))[partition]
            return None if found is None else int(found.offset)
        finally:
            await consumer.stop()

    async def _produce(self, command: Command) -> list[int | None]:
        codec = command.get("codec", "none")
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks={-1: "all"}.get(command.get("acks", -1), command.get("acks")),
            enable_idempotence=command.get("idempotent", False),
            max_request_size=REQUEST_BYTES_MAX,
            linger_ms=20,
            request_timeout_ms=15000,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    command["topic"],
                    partition=record["partition"],
                    key=decoded(record["key"]),
                    value=value_to_write(record["value"]),
                    headers=headers_to_write(record),
                    timestamp_ms=record.get("timestamp"),
                )
                for record in command["records"]
            ]
            sent = await asyncio.gather(*futures)
        finally:
            await producer.stop()
        if command.get("acks", -1) == 0:
            return [None] * len(sent)
        return [each.offset for each in sent]

    async def _produce_empty(self, topic: str) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap)
        await producer.start()
        try:
            batch = producer.create_batch()
            batch.close()
            await (await producer.send_batch(batch, topic, partition=0))
        finally:
            await producer.stop()

    async def _transact(self, command: Command) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=command["id"]
        )
        self.transactional.append(producer)
        await producer.start()
        await producer.begin_transaction()
        for record in command["records"]:
            await producer.send_and_wait(
                command["topic"],
                value_to_write(record["value"]),
                key=decoded(record["key"]),
                partition=record["partition"],
            )
        if command["group"] is not None:
            offsets = {TopicPartition(command["topic"], 0): command["offset"]}
            await producer.send_offsets_to_transaction(offsets, command["group"])
        if command["end"] == "commit":
            await producer.commit_transaction()
        elif command["end"] == "abort":
            await producer.abort_transaction()
        if command["end"] != "none":
            await producer.stop()

    async def _read(self, command: Command) -> list[Command]:
        isolation = "read_committed" if command.get("committed") else "read_uncommitted"
        consumer = await self._consumer({"isolation_level": isolation})
        wanted = [TopicPartition(command["topic"], index) for index in command["partitions"]]
        try:
            consumer.assign(wanted)
            for partition in wanted:
                consumer.seek(partition, command.get("from", 0))
            return await _collect(consumer, command["count"], command["timeout_ms"])
        finally:
            await consumer.stop()

    async def _member(self, command: Command) -> AIOKafkaConsumer:
        return self._stopped_consumer(
            {
                "group_id": command["group"],
                "group_instance_id": command.get("instance"),
                "session_timeout_ms": 10000,
                "heartbeat_interval_ms": 500,
                "partition_assignment_strategy": (RangePartitionAssignor,),
            },
            *command["topics"],
        )

    async def _consumer(self, more: dict[str, Any]) -> AIOKafkaConsumer:
        consumer = self._stopped_consumer(more)
        await consumer.start()
        return consumer

    def _stopped_consumer(self, more: dict[str, Any], *topics: str) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=REQUEST_BYTES_MAX,
            fetch_max_wait_ms=100,
            **more,
        )


def _raise_for(code: int, message: str) -> None:
    if code:
        raise for_code(code)(message)


async def _collect(consumer: AIOKafkaConsumer, count: int, timeout_ms: int) -> list[Command]:
    records: list[Command] = []
    deadline = time.monotonic() + timeout_ms / 1000
    while len(records) < count and (left := deadline - time.monotonic()) > 0:
        wait_ms = min(100, int(left * 1000) + 1)
        batches = await consumer.getmany(timeout_ms=wait_ms, max_records=count - len(records))
        records.extend(
            record_read(
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
            )
            for batch in batches.values()
            for record in batch
        )
    return records


def name_of(error: BaseException) -> str:
    """Kafka's name of a client's exception."""
    name = type(error).__name__
    return NAMES.get(name, name)


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
