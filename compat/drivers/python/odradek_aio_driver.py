"""Our own client for asyncio as a driver; its event loop runs in a separate thread."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from compat.drivers.python.lines import (
    Command,
    UnsupportedVerb,
    decoded,
    headers_to_write,
    serve,
    value_to_write,
)
from compat.drivers.python.odradek_login import login_with_asyncio
from compat.drivers.python.odradek_sessions import AioSessions
from compat.drivers.python.odradek_verbs import (
    AdminVerbs,
    member_settings,
    name_of,
    producer_settings,
    read_record,
    reader_settings,
    transaction_offsets,
)
from odradek.client.aio import Consumer, Producer, ShareConsumer
from odradek.client.group_metadata import GroupMetadata
from odradek.client.share.leader import ShareLimits

Result = TypeVar("Result")
CALL_SECONDS = 60


class _Blocking:
    """A consumer of asyncio, whose calls wait for the event loop."""

    def __init__(
        self, consumer: ShareConsumer, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._consumer = consumer
        self._run = run

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._consumer, name)

        async def call(*arguments: Any, **keywords: Any) -> Any:
            result = method(*arguments, **keywords)
            return await result if inspect.isawaitable(result) else result

        return lambda *arguments, **keywords: self._run(call(*arguments, **keywords))


class Driver(AdminVerbs):
    """The verbs of compat/drivers/README.md."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="event loop", daemon=True).start()
        self._consumers: dict[str, Consumer] = {}
        self._sessions = AioSessions()
        self._open: list[Producer] = []
        """The producers of transactions that are left open."""

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def _share_consumer(
        self,
        group: str,
        topics: list[str],
        mode: Literal["explicit", "implicit"],
        limits: ShareLimits,
    ) -> Any:
        settings = {"bootstrap.servers": self.bootstrap}
        consumer = ShareConsumer(settings, group, topics, mode=mode, limits=limits)
        return _Blocking(consumer, self._run)

    def login(self, command: Command) -> Command:
        return self._run(login_with_asyncio(command))

    def open_sessions(self, command: Command) -> None:
        self._run(self._sessions.open(command))

    def use_sessions(self, command: Command) -> Command:
        return self._run(self._sessions.use(command))

    def close_sessions(self, command: Command) -> None:
        self._run(self._sessions.close())

    def produce(self, command: Command) -> Command:
        return {"offsets": self._run(self._produce(command))}

    async def _produce(self, command: Command) -> list[int | None]:
        async with Producer(producer_settings(self.bootstrap, command)) as producer:
            sent = [
                await producer.send(
                    command["topic"],
                    value_to_write(record["value"]),
                    key=decoded(record["key"]),
                    headers=headers_to_write(record),
                    partition=record["partition"],
                    timestamp=record.get("timestamp"),
                )
                for record in command["records"]
            ]
            found = [(await each).offset for each in sent]
        return [None if offset < 0 else offset for offset in found]

    def produce_empty(self, command: Command) -> None:
        raise UnsupportedVerb("the producer sends no batch without a record")

    def read(self, command: Command) -> Command:
        return {"records": self._run(self._read(command))}

    async def _read(self, command: Command) -> list[Command]:
        settings = reader_settings(self.bootstrap, committed=command.get("committed", False))
        async with Consumer(settings) as consumer:
            start = command.get("from", 0)
            consumer.assign((command["topic"], index, start) for index in command["partitions"])
            return await _collect(consumer, command)

    def transact(self, command: Command) -> None:
        self._run(self._transact(command))

    async def _transact(self, command: Command) -> None:
        producer = Producer(bootstrap_servers=self.bootstrap, transactional_id=command["id"])
        await producer.init_transactions()
        producer.begin_transaction()
        for record in command["records"]:
            await (
                await producer.send(
                    command["topic"],
                    value_to_write(record["value"]),
                    key=decoded(record["key"]),
                    partition=record["partition"],
                )
            )
        if command["group"] is not None:
            await producer.send_offsets_to_transaction(
                transaction_offsets(command), GroupMetadata(command["group"])
            )
        if command["end"] == "none":
            self._open.append(producer)
            return
        if command["end"] == "commit":
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
        await producer.close()

    def join(self, command: Command) -> None:
        self._run(self._join(command))

    async def _join(self, command: Command) -> None:
        consumer = Consumer(member_settings(self.bootstrap, command))
        if command.get("pattern") is not None:
            consumer.subscribe(pattern=command["pattern"])
        else:
            consumer.subscribe(command["topics"])
        self._consumers[command["member"]] = consumer

    def poll(self, command: Command) -> Command:
        consumer = self._consumers[command["member"]]
        records = self._run(_collect(consumer, command))
        return {"records": records, "assignment": [str(each) for each in consumer.assignment]}

    def commit(self, command: Command) -> None:
        self._run(self._consumers[command["member"]].commit())

    def leave(self, command: Command) -> None:
        self._run(self._consumers.pop(command["member"]).close())


async def _collect(consumer: Consumer, command: Command) -> list[Command]:
    """Read until there are enough records, or no time is left."""
    records: list[Command] = []
    deadline = time.monotonic() + command["timeout_ms"] / 1000
    while len(records) < command["count"] and (left := deadline - time.monotonic()) > 0:
        batch = await consumer.poll(min(left, 0.1))
        records += [read_record(each) for each in batch or ()]
    return records


if __name__ == "__main__":
    serve(Driver(sys.argv[1]), name_of)
