"""The verbs of share groups for librdkafka's share consumer (a preview)."""

from __future__ import annotations

import importlib
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

from compat.drivers.python.lines import Command, UnsupportedVerb, encoded

api: Any = confluent_kafka
admin: Any = importlib.import_module("confluent_kafka.admin")
"""Their annotations are incomplete."""

ADMIN_SECONDS = 40
COMMIT_SECONDS = 30
ACQUIRE_MODE = "share.acquire.mode"


class ShareVerbs:
    """The members of share groups. A member is called by one thread only."""

    def __init__(self, connection: dict[str, str]) -> None:
        self.connection = connection
        self.admin = admin.AdminClient(connection)
        self._members: dict[str, Any] = {}
        self._polled: dict[tuple[str, int], Any] = {}
        """The records by member and offset."""

    def alter_group(self, command: Command) -> None:
        entries = [
            admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
            for name, value in command["configs"].items()
        ]
        group = admin.ConfigResource(
            admin.ResourceType.GROUP, command["group"], incremental_configs=entries
        )
        for future in self.admin.incremental_alter_configs([group]).values():
            future.result(ADMIN_SECONDS)

    def share_join(self, command: Command) -> None:
        if ACQUIRE_MODE in command["configs"]:
            raise UnsupportedVerb(f"librdkafka has no {ACQUIRE_MODE}")
        settings = {**self.connection, "group.id": command["group"], **command["configs"]}
        consumer = api.ShareConsumer(settings)
        consumer.subscribe(command["topics"])
        self._members[command["member"]] = consumer

    def share_poll(self, command: Command) -> Command:
        member = command["member"]
        records = []
        for message in self._members[member].poll(command["timeout_ms"] / 1000):
            if message.error():
                raise KafkaException(message.error())
            self._polled[member, message.offset()] = message
            records.append(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "deliveries": message.delivery_count(),
                    "value": encoded(message.value() or b""),
                }
            )
        return {"records": records}

    def share_acknowledge(self, command: Command) -> Command:
        member = command["member"]
        if "RENEW" in command["types"].values():
            raise UnsupportedVerb("librdkafka renews no locks")
        consumer = self._members[member]
        for offset, kind in command["types"].items():
            consumer.acknowledge(
                self._polled.pop((member, int(offset))), getattr(api.AcknowledgeType, kind)
            )
        results = consumer.commit_sync(COMMIT_SECONDS)
        return {"errors": [each.args[0].name() for each in results.values() if each is not None]}

    def share_leave(self, command: Command) -> None:
        self._members.pop(command["member"]).close()
