"""The verbs of our own client's drivers for clients that stay connected for longer than a session of SASL lasts."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from compat.drivers.python.lines import Command
from compat.drivers.python.odradek_login import limits, login_settings
from odradek.client import Consumer, Producer, aio
from odradek.client.errors import ClientError

READ_SECONDS = 30
PAUSE_SECONDS = 0.05


class Sessions:
    """The blocking clients of some logins."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._open: list[tuple[str, Producer, Consumer]] = []

    def open(self, command: Command) -> None:
        for login in command["logins"]:
            settings = self._stack.enter_context(login_settings(login))
            producer, consumer = Producer(settings | limits(login)), Consumer(settings)
            self._stack.callback(producer.close)
            self._stack.callback(consumer.close)
            self._open.append((login["topic"], producer, consumer))
            offset = producer.send(login["topic"], b"x", partition=0).wait().offset
            consumer.assign([(login["topic"], 0, offset)])
            self._read(consumer, offset)

    def use(self, command: Command) -> Command:
        end = time.monotonic() + command["for_ms"] / 1000
        used: list[Command] = [{"records": 0, "said": []} for _ in self._open]
        while time.monotonic() < end:
            for found, (topic, producer, consumer) in zip(used, self._open, strict=True):
                if found["said"]:
                    continue
                try:
                    self._read(consumer, producer.send(topic, b"x", partition=0).wait().offset)
                    found["records"] += 1
                except ClientError as error:
                    found["said"].append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_SECONDS)
        return {"used": used}

    def close(self) -> None:
        self._open.clear()
        self._stack.close()

    def _read(self, consumer: Consumer, offset: int) -> None:
        end = time.monotonic() + READ_SECONDS
        while time.monotonic() < end:
            batch = consumer.poll(0.2)
            if batch is not None and batch.next_offset > offset:
                return
        raise ClientError("the record was not read")


class AioSessions:
    """The clients of asyncio of some logins."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._open: list[tuple[str, aio.Producer, aio.Consumer]] = []

    async def open(self, command: Command) -> None:
        for login in command["logins"]:
            settings = self._stack.enter_context(login_settings(login))
            producer, consumer = aio.Producer(settings | limits(login)), aio.Consumer(settings)
            self._stack.push_async_callback(producer.close)
            self._stack.push_async_callback(consumer.close)
            self._open.append((login["topic"], producer, consumer))
            offset = (await (await producer.send(login["topic"], b"x", partition=0))).offset
            consumer.assign([(login["topic"], 0, offset)])
            await self._read(consumer, offset)

    async def use(self, command: Command) -> Command:
        end = time.monotonic() + command["for_ms"] / 1000
        return {"used": await asyncio.gather(*(self._use(end, *each) for each in self._open))}

    async def close(self) -> None:
        self._open.clear()
        await self._stack.aclose()

    async def _use(
        self, end: float, topic: str, producer: aio.Producer, consumer: aio.Consumer
    ) -> Command:
        found: dict[str, Any] = {"records": 0, "said": []}
        while time.monotonic() < end and not found["said"]:
            try:
                offset = (await (await producer.send(topic, b"x", partition=0))).offset
                await self._read(consumer, offset)
                found["records"] += 1
            except ClientError as error:
                found["said"].append(f"{type(error).__name__}: {error}")
            await asyncio.sleep(PAUSE_SECONDS)
        return found

    async def _read(self, consumer: aio.Consumer, offset: int) -> None:
        async with asyncio.timeout(READ_SECONDS):
            while True:
                batch = await consumer.poll(0.2)
                if batch is not None and batch.next_offset > offset:
                    return
