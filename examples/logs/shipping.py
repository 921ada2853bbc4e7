"""Reads log files, and writes each line to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from odradek.client.producer import Producer
from odradek.pipelines.inputs import DamagedError, Skipped, blocks, is_text, lines
from odradek.pipelines.places import Places

VALUE_BYTES_MAX = 900_000
"""Brokers accept records of 1 MiB."""


@dataclass
class Shipment:
    """What was sent, and what was not."""

    bytes_read: dict[str, int] = field(default_factory=dict)
    """The decompressed bytes of each file that was sent: a log may have grown since."""
    skipped: list[Skipped] = field(default_factory=list)
    too_long: list[tuple[str, int]] = field(default_factory=list)
    """The file and the number of lines that are no records, because they are too long."""
    sent: int = 0

    @property
    def lines_skipped(self) -> int:
        """The number of lines that were not sent, as far as it is known."""
        return sum(each.lines or 0 for each in self.skipped) + len(self.too_long)


def ship(places: Places, topic: str, files: Iterable[Path]) -> Shipment:
    """Write the lines of files to a topic. The key is the file, so its lines stay in order."""
    shipment = Shipment()
    with places.connect() as cluster, Producer(cluster) as producer:
        for path in files:
            name = str(path)
            try:
                if is_text(path):
                    _send(producer, topic, path, shipment)
                else:
                    count = sum(1 for _ in lines(blocks(path)))
                    shipment.skipped.append(Skipped(name, "it is not text", count))
            except PermissionError:
                shipment.skipped.append(Skipped(name, "you may not read it", None))
            except DamagedError as error:
                reason = f"it is damaged after its first {shipment.bytes_read.get(name, 0):,} bytes"
                shipment.skipped.append(Skipped(name, f"{reason}: {error}", None))
    return shipment


def _send(producer: Producer, topic: str, path: Path, shipment: Shipment) -> None:
    name = str(path)
    shipment.bytes_read[name] = 0

    def counted() -> Iterator[bytes]:
        try:
            for block in blocks(path):
                shipment.bytes_read[name] += len(block)
                yield block
        except DamagedError as error:
            damage.append(error)

    damage: list[DamagedError] = []
    for number, text in enumerate(lines(counted()), 1):
        line = {"file": name, "line": number, "text": text.decode("utf-8", "replace")}
        value = json.dumps(line).encode()
        if len(value) > VALUE_BYTES_MAX:
            shipment.too_long.append((name, number))
        else:
            producer.send(topic, value, key=name.encode())
            shipment.sent += 1
    if damage:
        raise damage[0]
