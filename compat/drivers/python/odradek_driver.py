"""Our own blocking client as a driver."""

from __future__ import annotations

import sys
import time

from compat.drivers.python.lines import (
    Command,
    UnsupportedVerb,
    decoded,
    headers_to_write,
    serve,
    value_to_write,
)
from compat.drivers.python.odradek_login import login
from compat.drivers.python.odradek_sessions import Sessions
from compat.drivers.python.odradek_verbs import (
    AdminVerbs,
    member_settings,
    name_of,
    producer_settings,
    read_record,
    reader_settings,
    transaction_offsets,
)
from odradek.client import Consumer, Producer
from odradek.client.group_metadata import GroupMetadata


class Driver(AdminVerbs):
    """The verbs of compat/drivers/README.md."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._consumers: dict[str, Consumer] = {}
        self._sessions = Sessions()
        self._open: list[Producer] = []
        """The producers of transactions that are left open."""

    def login(self, command: Command) -> Command:
        return login(command)

    def open_sessions(self, command: Command) -> None:
        self._sessions.open(command)

    def use_sessions(self, command: Command) -> Command:
        return self._sessions.use(command)

    def close_sessions(self, command: Command) -> None:
        self._sessions.close()

    def produce(self, command: Command) -> Command:
        with Producer(producer_settings(self.bootstrap, command)) as producer:
            sent = [
                producer.send(
                    command["topic"],
                    value_to_write(record["value"]),
                    key=decoded(record["key"]),
                    headers=headers_to_write(record),
                    partition=record["partition"],
                    timestamp=record.get("timestamp"),
                )
                for record in command["records"]
            ]
            found = [each.wait().offset for each in sent]
        return {"offsets": [None if offset < 0 else offset for offset in found]}

    def produce_empty(self, command: Command) -> None:
        raise UnsupportedVerb("the producer sends no batch without a record")

    def read(self, command: Command) -> Command:
        settings = reader_settings(self.bootstrap, committed=command.get("committed", False))
        with Consumer(settings) as consumer:
            start = command.get("from", 0)
            consumer.assign((command["topic"], index, start) for index in command["partitions"])
            return {"records": _collect(consumer, command)}

    def transact(self, command: Command) -> None:
        producer = Producer(bootstrap_servers=self.bootstrap, transactional_id=command["id"])
        producer.init_transactions()
        producer.begin_transaction()
        for record in command["records"]:
            producer.send(
                command["topic"],
                value_to_write(record["value"]),
                key=decoded(record["key"]),
                partition=record["partition"],
            ).wait()
        if command["group"] is not None:
            producer.send_offsets_to_transaction(
                transaction_offsets(command), GroupMetadata(command["group"])
            )
        if command["end"] == "none":
            self._open.append(producer)
            return
        if command["end"] == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        producer.close()

    def join(self, command: Command) -> None:
        consumer = Consumer(member_settings(self.bootstrap, command))
        if command.get("pattern") is not None:
            consumer.subscribe(pattern=command["pattern"])
        else:
            consumer.subscribe(command["topics"])
        self._consumers[command["member"]] = consumer

    def poll(self, command: Command) -> Command:
        consumer = self._consumers[command["member"]]
        records = _collect(consumer, command)
        return {"records": records, "assignment": [str(each) for each in consumer.assignment]}

    def commit(self, command: Command) -> None:
        self._consumers[command["member"]].commit()

    def leave(self, command: Command) -> None:
        self._consumers.pop(command["member"]).close()


def _collect(consumer: Consumer, command: Command) -> list[Command]:
    """Read until there are enough records, or no time is left."""
    records: list[Command] = []
    deadline = time.monotonic() + command["timeout_ms"] / 1000
    while len(records) < command["count"] and (left := deadline - time.monotonic()) > 0:
        batch = consumer.poll(min(left, 0.1))
        records += [read_record(each) for each in batch or ()]
    return records


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
