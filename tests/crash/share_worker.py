"""A member of a share group that writes down what it does: `python -m tests.crash.share_worker`.

Arguments: bootstrap servers, group, topic, seed, and the file for the lines. Each line has the time
in nanoseconds (`time.monotonic_ns`, which all processes of a machine share) and one of:

- `delivered BEGIN PARTITION OFFSET COUNT VALUE`: a poll that began at BEGIN has returned a record.
- `KIND PARTITION OFFSET`: the record is acknowledged; KIND is accept, release or reject.
- `stored PARTITION OFFSET KIND`: the broker has stored the acknowledgement.
- `failed PARTITION OFFSET KIND ERROR`: it has not, as far as the member knows.

The value of a record says how to acknowledge it: `accept`, `poison` (always released), `reject`, or
`retry` (released once). SIGTERM ends the member after the current batch.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from odradek.client.cluster import Cluster
from odradek.client.share.consumer import (
    AcknowledgementResult,
    ShareConsumer,
    ShareLimits,
    ShareRecord,
)


class Worker:
    """The member, and its file."""

    def __init__(self, group: str, topic: str, seed: int, path: str) -> None:
        self._group = group
        self._topic = topic
        self._chance = random.Random(seed)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._is_ending = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def _write(self, *lines: str) -> None:
        """Write lines at once: they survive a kill of this process."""
        now = time.monotonic_ns()
        os.write(self._file, "".join(f"{now} {line}\n" for line in lines).encode())

    def run(self, bootstrap: str) -> None:
        """Work until SIGTERM."""
        limits = ShareLimits(
            wait_ms_max=50, records_max=self._chance.choice((1, 5, 20)), is_record_limit=True
        )
        with (
            Cluster(bootstrap, timeout_ms=120_000) as cluster,
            ShareConsumer(
                cluster, self._group, [self._topic], limits=limits, on_acknowledged=self._note
            ) as consumer,
        ):
            while not self._is_ending:
                begin = time.monotonic_ns()
                records = consumer.poll(200)
                if records:
                    self._write(
                        *(
                            f"delivered {begin} {r.partition} {r.offset} {r.delivery_count} "
                            f"{(r.value or b'').decode()}"
                            for r in records
                        )
                    )
                for record in records:
                    self._process(consumer, record)
                if records and self._chance.random() < 0.2:
                    consumer.commit()

    def _process(self, consumer: ShareConsumer, record: ShareRecord) -> None:
        what = (record.value or b"").decode().partition("-")[0]
        kind, act = {
            "accept": ("accept", consumer.accept),
            "reject": ("reject", consumer.reject),
            "poison": ("release", consumer.release),
            "retry": ("accept", consumer.accept),
        }[what]
        if what == "retry" and record.delivery_count == 1:
            kind, act = "release", consumer.release
        if self._chance.random() < 0.1:
            time.sleep(self._chance.random() / 50)  # so that kills meet records in work
        self._write(f"{kind} {record.partition} {record.offset}")
        act(record)

    def _note(self, results: list[AcknowledgementResult]) -> None:
        for result in results:
            what = "stored" if result.error is None else "failed"
            why = "" if result.error is None else f" {type(result.error).__name__}"
            self._write(
                *(
                    f"{what} {result.partition} {offset} {kind.name.lower()}{why}"
                    for offset, kind in result.types.items()
                )
            )


if __name__ == "__main__":
    _, bootstrap, group, topic, seed, path = sys.argv
    Worker(group, topic, int(seed), path).run(bootstrap)
