"""Clients that do their work while a node is attacked: `python -m tests.attacks.honest`.

Two pairs of librdkafka clients write and read a record every ten milliseconds, one pair over
PLAINTEXT and one over SASL_SSL. Two newcomers open ten connections a second and send a
request, one of them over SASL_SSL. The first argument is a file with the addresses and settings in
JSON. Each line of the output has a time of the monotonic clock, what was measured, and the
milliseconds; or `error` and a text. When the input ends, the consumers read all records, and the last
line has the numbers of records that were written and read.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from odradek.client.cluster import Cluster
from odradek.client.security import parse_security

PAUSE_SECONDS = 0.01
NEWCOMER_PAUSE_SECONDS = 0.1
POLL_SECONDS = 0.1
FLUSH_SECONDS = 120

_output = threading.Lock()


def say(what: str, value: object) -> None:
    """Write a line."""
    with _output:
        sys.stdout.write(f"{time.monotonic():.4f} {what} {value}\n")
        sys.stdout.flush()


class Pair:
    """A producer and a consumer of one topic. The value of a record is the time when it was sent."""

    def __init__(self, name: str, settings: dict[str, Any], stopping: threading.Event) -> None:
        self.name = name
        self.sent = self.acknowledged = 0
        self.received: set[bytes] = set()
        self._stopping = stopping
        common = {
            **settings,
            "log_level": 0,
            "error_cb": lambda error: say("error", f"{name}: {error}"),
        }
        self._producer = Producer({**common, "acks": "all", "linger.ms": 0})
        self._consumer = Consumer(
            {
                **common,
                "group.id": f"honest-{name}",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe([f"honest-{name}"])
        self.threads = [
            threading.Thread(target=self._produce), threading.Thread(target=self._consume),
        ]  # fmt: skip

    def _produce(self) -> None:
        while not self._stopping.is_set():
            next_time = time.monotonic() + PAUSE_SECONDS
            value = str(time.monotonic()).encode()
            self._producer.produce(f"honest-{self.name}", value, on_delivery=self._delivered)
            self.sent += 1
            while (rest := next_time - time.monotonic()) > 0:
                self._producer.poll(rest)
        self._producer.flush(FLUSH_SECONDS)

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            say("error", f"{self.name}: {error}")
            return
        self.acknowledged += 1
        say("write", (time.monotonic() - float(message.value())) * 1000)

    def _consume(self) -> None:
        while not (self._stopping.is_set() and len(self.received) >= self.sent):
            record = self._consumer.poll(POLL_SECONDS)
            if record is None:
                continue
            if record.error() is not None:
                say("error", f"{self.name}: {record.error()}")
                continue
            self.received.add(record.value() or b"")
            say("read", (time.monotonic() - float(record.value() or b"0")) * 1000)
        self._consumer.close()


def newcomer(settings: dict[str, str], stopping: threading.Event) -> None:
    """Open a connection again and again. The client then asks for the versions of the APIs."""
    security = parse_security({k: v for k, v in settings.items() if k != "bootstrap.servers"})
    while not stopping.wait(NEWCOMER_PAUSE_SECONDS):
        began = time.monotonic()
        try:
            with Cluster(settings["bootstrap.servers"], security=security) as cluster:
                cluster.any()
        except Exception as error:  # noqa: BLE001  whatever it is, it is reported
            say("error", f"newcomer: {error!r}")
        else:
            say("connect", (time.monotonic() - began) * 1000)


def main() -> None:
    """Run until the input ends."""
    places = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    stopping = threading.Event()
    pairs = [Pair(name, settings, stopping) for name, settings in places.items()]
    threads = [each for pair in pairs for each in pair.threads]
    threads += [
        threading.Thread(target=newcomer, args=(settings, stopping)) for settings in places.values()
    ]
    for each in threads:
        each.start()
    sys.stdin.read()
    stopping.set()
    for each in threads:
        each.join()
    sent = sum(each.sent for each in pairs)
    if sent != sum(each.acknowledged for each in pairs):
        say("error", "records were not acknowledged")
    say("end", f"{sent} {sum(len(each.received) for each in pairs)}")


if __name__ == "__main__":
    main()
