"""The verbs of librdkafka's driver for clients that stay connected for longer than a session of SASL lasts."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from compat.drivers.python.confluent_login import login_settings
from compat.drivers.python.lines import Command

READ_SECONDS = 30
PAUSE_SECONDS = 0.05


class Session:
    """A producer and a consumer with the same credentials, and what they say."""

    def __init__(self, login: Command) -> None:
        self.said: list[str] = []
        settings = {**login_settings(login), "error_cb": self._failed}
        self._partition = TopicPartition(login["topic"], 0)
        self._offset = -1
        self.producer = Producer({**settings, "linger.ms": 0})
        self.consumer = Consumer({**settings, "group.id": "not-used", "enable.auto.commit": False})

    def _failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            self.said.append(f"{error.name()}: {error.str()}")

    def _written(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.said.append(f"{error.name()}: {error.str()}")
        else:
            self._offset = message.offset()

    def step(self, *, is_first: bool = False) -> None:
        """Write a record, and read until it is there, or something is said."""
        self._offset = -1
        end = time.monotonic() + READ_SECONDS
        self.producer.produce(self._partition.topic, b"x", partition=0, on_delivery=self._written)
        while self._offset < 0 and not self.said and time.monotonic() < end:
            self.producer.poll(0.05)
        if is_first and not self.said:
            self._partition.offset = self._offset
            self.consumer.assign([self._partition])
        while not self.said:
            message: Any = self.consumer.poll(0.2)
            if message is not None and message.error() is None and message.offset() >= self._offset:
                return
            if time.monotonic() > end:
                self.said.append("the record was not read")


class Sessions:
    """The clients of some logins."""

    def __init__(self) -> None:
        self._open: list[Session] = []

    def open(self, command: Command) -> None:
        self._open = [Session(each) for each in command["logins"]]
        for each in self._open:
            each.step(is_first=True)

    def use(self, command: Command) -> Command:
        end = time.monotonic() + command["for_ms"] / 1000
        records = [0] * len(self._open)
        while time.monotonic() < end:
            for number, each in enumerate(self._open):
                if not each.said:
                    each.step()
                    records[number] += not each.said
            time.sleep(PAUSE_SECONDS)
        found = zip(records, self._open, strict=True)
        return {"used": [{"records": count, "said": each.said[:1]} for count, each in found]}

    def close(self) -> None:
        for each in self._open:
            each.producer.purge()
            each.consumer.close()
        self._open.clear()
