"""The verbs of our own client's drivers that are the same in both: administration and share groups."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal

import odradek
from compat.drivers.python.lines import Command, record_read
from odradek.client import Admin
from odradek.client.admin.configs import Change, Resource
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, SomeFailedError
from odradek.client.offsets import EARLIEST, LATEST
from odradek.client.share.consumer import (
    AcknowledgementResult,
    AcknowledgeType,
    ShareConsumer,
    ShareLimits,
    ShareRecord,
)
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition

LIMITED = "record_limit"
REQUEST_BYTES_MAX = 64 << 20
_TIMES = {"earliest": EARLIEST, "latest": LATEST}


class Member:
    """A member of a share group, and what it has polled, by offset."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.polled: dict[int, ShareRecord] = {}


class AdminVerbs:
    """The verbs of compat/drivers/README.md about topics, groups and share groups."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._cluster = Cluster(bootstrap)
        self._admin = Admin(self._cluster)
        self._members: dict[str, Member] = {}

    def about(self, command: Command) -> Command:
        return {"client": "odradek", "version": odradek.__version__}

    # -- topics ---------------------------------------------------------------------------------

    def create_topic(self, command: Command) -> None:
        self._admin.create_topic(
            command["topic"], command["partitions"], 1, configs=command.get("configs") or {}
        )

    def delete_topic(self, command: Command) -> None:
        self._admin.delete_topic(command["topic"])

    def add_partitions(self, command: Command) -> None:
        self._admin.create_partitions({command["topic"]: command["total"]})

    def topics(self, command: Command) -> Command:
        return {"topics": [each.name for each in self._admin.list_topics(internal=True)]}

    def partitions(self, command: Command) -> Command:
        (topic,) = self._admin.describe_topics([command["topic"]]).values()
        return {"partitions": len(topic.partitions)}

    def describe_topic(self, command: Command) -> Command:
        resource = Resource(ResourceType.TOPIC, command["topic"])
        (entries,) = self._admin.describe_configs([resource]).values()
        return {"configs": {each.name: each.value for each in entries}}

    def alter_topic(self, command: Command) -> None:
        resource = Resource(ResourceType.TOPIC, command["topic"])
        change = Change(command["name"], command["value"])
        self._admin.incremental_alter_configs({resource: [change]})

    def delete_records(self, command: Command) -> None:
        partition = TopicPartition(command["topic"], command["partition"])
        self._admin.delete_records({partition: command["offset"]})

    def offset(self, command: Command) -> Command:
        partition = TopicPartition(command["topic"], command["partition"])
        at = command["at"]
        time_ms = _TIMES[at] if at in _TIMES else int(at)
        (found,) = self._admin.list_offsets({partition: time_ms}).values()
        return {"offset": None if found.offset < 0 else found.offset}

    # -- groups -----------------------------------------------------------------------------------

    def committed(self, command: Command) -> Command:
        found = self._admin.list_consumer_group_offsets(command["group"])
        return {
            "offsets": {
                str(partition.partition): each.offset
                for partition, each in found.items()
                if partition.topic == command["topic"]
            }
        }

    def groups(self, command: Command) -> Command:
        return {"groups": [each.id for each in self._admin.list_consumer_groups()]}

    def delete_group(self, command: Command) -> None:
        self._admin.delete_consumer_groups([command["group"]])

    def alter_group(self, command: Command) -> None:
        group = Resource(ResourceType.GROUP, command["group"])
        changes = [Change(name, value) for name, value in command["configs"].items()]
        self._admin.incremental_alter_configs({group: changes})

    # -- share groups -----------------------------------------------------------------------------

    def share_join(self, command: Command) -> None:
        configs = command["configs"]
        is_explicit = configs.get("share.acknowledgement.mode") == "explicit"
        limits = ShareLimits(
            records_max=int(configs.get("max.poll.records", ShareLimits().records_max)),
            is_record_limit=configs.get("share.acquire.mode") == LIMITED,
        )
        consumer = self._share_consumer(
            command["group"], command["topics"], "explicit" if is_explicit else "implicit", limits
        )
        self._members[command["member"]] = Member(consumer)

    def _share_consumer(
        self,
        group: str,
        topics: list[str],
        mode: Literal["explicit", "implicit"],
        limits: ShareLimits,
    ) -> Any:
        """Return a consumer that blocks."""
        return ShareConsumer(self._cluster, group, topics, mode=mode, limits=limits)

    def share_poll(self, command: Command) -> Command:
        member = self._members[command["member"]]
        records = member.consumer.poll(command["timeout_ms"])
        member.polled.update((each.offset, each) for each in records)
        return {
            "records": [
                {
                    "partition": each.partition,
                    "offset": each.offset,
                    "deliveries": each.delivery_count,
                    "value": base64.b64encode(each.value or b"").decode(),
                }
                for each in records
            ]
        }

    def share_acknowledge(self, command: Command) -> Command:
        member = self._members[command["member"]]
        consumer = member.consumer
        act = {
            AcknowledgeType.ACCEPT: consumer.accept,
            AcknowledgeType.RELEASE: consumer.release,
            AcknowledgeType.REJECT: consumer.reject,
        }
        renewed: list[ShareRecord] = []
        for offset, name in command["types"].items():
            kind = AcknowledgeType[name]
            record = member.polled[int(offset)]
            if kind is AcknowledgeType.RENEW:
                renewed.append(record)
            else:
                act[kind](record)
        results = consumer.commit()
        if renewed:
            consumer.renew(*renewed)
        return {"errors": [_name(each) for each in results if each.error is not None]}

    def share_leave(self, command: Command) -> None:
        self._members.pop(command["member"]).consumer.close()


def producer_settings(bootstrap: str, command: Command) -> dict[str, object]:
    """The settings of a producer for the verb `produce`."""
    return {
        "bootstrap.servers": bootstrap,
        "compression.type": command.get("codec", "none"),
        "acks": command.get("acks", -1),
        "enable.idempotence": command.get("idempotent", False),
        "max.request.size": REQUEST_BYTES_MAX,
        "buffer.memory": 4 * REQUEST_BYTES_MAX,
        "linger.ms": 20,
    }


def reader_settings(bootstrap: str, *, committed: bool) -> dict[str, object]:
    """The settings of a consumer without a group."""
    return {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "max.partition.fetch.bytes": REQUEST_BYTES_MAX,
        "fetch.max.wait.ms": 100,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
    }


def member_settings(bootstrap: str, command: Command) -> dict[str, object]:
    """The settings of a member of a group for the verb `join`."""
    strategy = command.get("strategy", "range")
    settings: dict[str, object] = {
        **reader_settings(bootstrap, committed=False),
        "group.id": command["group"],
        "group.instance.id": command.get("instance"),
        "enable.auto.commit": False,
    }
    if strategy == "server":
        return {**settings, "group.protocol": "consumer"}
    classic = {
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 500,
    }
    return {**settings, **classic}


def read_record(record: Any) -> Command:
    """A record of the consumer in the drivers' protocol."""
    return record_read(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )


def transaction_offsets(command: Command) -> Mapping[TopicPartition, int]:
    """The offsets of the verb `transact`."""
    return {TopicPartition(command["topic"], 0): command["offset"]}


def _name(result: AcknowledgementResult) -> str:
    return "" if result.error is None else name_of(result.error)


def name_of(error: BaseException) -> str:
    """Kafka's name of an exception."""
    if isinstance(error, SomeFailedError):
        error = next(iter(error.errors.values()))
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__
