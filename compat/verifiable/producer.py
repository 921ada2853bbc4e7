"""Writes the values 0, 1, 2 and so on, and tells which of them were acknowledged."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial

from compat.verifiable.events import Stop, emit, kind_of, parser, settings_in
from odradek.client import Delivery, Producer
from odradek.client.errors import ClientError
from odradek.client.serializers import Text


class Writer:
    """A producer, and what became of its records."""

    def __init__(self, words: Sequence[str]) -> None:
        self.given = given = _options().parse_args(words)
        settings = {
            "acks": given.acks,
            "retries": 0,
            **settings_in(given.producer_config, given.command_config),
            "bootstrap.servers": given.bootstrap_server,
        }
        self.producer = Producer(settings, key_serializer=Text(), value_serializer=Text())
        self.sent = 0
        self.acked = 0

    def run(self, stop: Stop) -> None:
        """Write until all are written, or SIGTERM."""
        given = self.given
        emit("startup_complete")
        began = time.monotonic()
        while not stop.is_set and self.sent != given.max_messages:
            self._send(int((time.monotonic() - began) * 1000))
            if given.throughput > 0:
                time.sleep(max(0.0, began + self.sent / given.throughput - time.monotonic()))
            while given.throughput == 0 and not stop.is_set:
                time.sleep(0.05)
        self.producer.close()
        emit("shutdown_complete")
        emit(
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=given.throughput,
            avg_throughput=self.acked / max(time.monotonic() - began, 0.001),
        )

    def _send(self, elapsed_ms: int) -> None:
        given, number = self.given, self.sent
        value = str(number) if given.value_prefix is None else f"{given.value_prefix}.{number}"
        key = None if given.repeating_keys is None else str(number % given.repeating_keys)
        created_ms = given.message_create_time
        self.sent += 1
        try:
            self.producer.send(
                given.topic,
                value,
                key=key,
                timestamp=None if created_ms < 0 else created_ms + elapsed_ms,
                on_delivery=partial(self._delivered, key, value),
            )
        except ClientError as error:
            self._failed(key, value, error)

    def _delivered(self, key: str | None, value: str, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failed(key, value, delivery.error)
            return
        self.acked += 1
        emit(
            "producer_send_success",
            key=key,
            value=value,
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
        )

    def _failed(self, key: str | None, value: str, error: ClientError) -> None:
        emit(
            "producer_send_error",
            key=key,
            value=value,
            topic=self.given.topic,
            exception=f"class {kind_of(error)}",
            message=str(error),
        )


def _options() -> argparse.ArgumentParser:
    options = parser("producer", "--topic", "--bootstrap-server")
    options.add_argument("--throughput", type=int, default=-1)
    options.add_argument("--acks", type=int, default=-1, choices=(0, 1, -1))
    files = options.add_mutually_exclusive_group()
    files.add_argument("--producer.config", dest="producer_config")
    files.add_argument("--command-config")
    options.add_argument("--message-create-time", type=int, default=-1)
    options.add_argument("--value-prefix", type=int)
    options.add_argument("--repeating-keys", type=int)
    return options


def main(words: Sequence[str]) -> int:
    """Run the producer."""
    Writer(words).run(Stop())
    return 0
