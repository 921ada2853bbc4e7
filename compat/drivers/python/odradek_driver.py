"""Our own client as a driver, for the scenarios of share groups."""

from __future__ import annotations

import base64
import sys

import odradek
from compat.drivers.python.lines import (
    Command,
    UnsupportedVerb,
    decoded,
    headers_to_write,
    serve,
    value_to_write,
)
from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError
from odradek.client.producer import Producer
from odradek.client.share.consumer import (
    AcknowledgementResult,
    AcknowledgeType,
    ShareConsumer,
    ShareLimits,
    ShareRecord,
)
from odradek.model.config_resource import ResourceType

LIMITED = "record_limit"


class Member:
    """A member, and what it has polled, by offset."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self.consumer = consumer
        self.polled: dict[int, ShareRecord] = {}


class Driver:
    """The verbs of share groups in compat/drivers/README.md, and what their scenarios need."""

    def __init__(self, bootstrap: str) -> None:
        self._cluster = Cluster(bootstrap)
        self._members: dict[str, Member] = {}

    def about(self, command: Command) -> Command:
        return {"client": "odradek", "version": odradek.__version__}

    def create_topic(self, command: Command) -> None:
        topic = NewTopic(command["topic"], command["partitions"], configs=command["configs"])
        (result,) = create_topics(self._cluster, [topic]).values()
        if isinstance(result, Exception):
            raise result

    def produce(self, command: Command) -> Command:
        if command.get("codec", "none") != "none" or command.get("acks", -1) != -1:
            raise UnsupportedVerb("the driver writes no compressed records, and waits for all")
        with Producer(self._cluster) as producer:
            for record in command["records"]:
                producer.send(
                    command["topic"],
                    value_to_write(record["value"]),
                    key=decoded(record["key"]),
                    headers=headers_to_write(record),
                    partition=record["partition"],
                    timestamp=record.get("timestamp"),
                )
        return {"offsets": [None] * len(command["records"])}

    def alter_group(self, command: Command) -> None:
        group = Resource(ResourceType.GROUP, command["group"])
        changes = [Change(name, value) for name, value in command["configs"].items()]
        (error,) = alter_configs(self._cluster, {group: changes}).values()
        if error is not None:
            raise error

    def share_join(self, command: Command) -> None:
        configs = command["configs"]
        is_explicit = configs.get("share.acknowledgement.mode") == "explicit"
        usual = ShareLimits()
        consumer = ShareConsumer(
            self._cluster,
            command["group"],
            command["topics"],
            mode="explicit" if is_explicit else "implicit",
            limits=ShareLimits(
                records_max=int(configs.get("max.poll.records", usual.records_max)),
                is_record_limit=configs.get("share.acquire.mode") == LIMITED,
            ),
        )
        self._members[command["member"]] = Member(consumer)

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


def _name(result: AcknowledgementResult) -> str:
    return "" if result.error is None else name_of(result.error)


def name_of(error: BaseException) -> str:
    """Kafka's name of an exception."""
    return error.code.name if isinstance(error, BrokerError) else type(error).__name__


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
