"""Reads log files, and writes each line to a topic, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odradek.pipelines.inputs import blocks, is_text, lines
from odradek.pipelines.own.formats import FormatError
from odradek.pipelines.own.rows import VALUE_BYTES_MAX, Row
from odradek.pipelines.own.shipping import Shipment, Shipper, ship_files
from odradek.pipelines.places import Places


@dataclass(frozen=True, slots=True)
class Shipped:
    """What is in the topic."""

    shipment: Shipment
    bytes_read: dict[str, int] = field(default_factory=dict)
    """The decompressed bytes of each file that were read: a log may have grown since."""
    modified_ms: dict[str, int] = field(default_factory=dict)
    """When each file was changed last before its first line was sent, in ms since 1970."""


def ship(places: Places, topic: str, files: Sequence[Path]) -> Shipped:
    """Write the lines that are not in the topic. The key is the file, so its lines stay in order."""
    bytes_read: dict[str, int] = {}
    modified_ms = _modified(places.output / "modified.json", files)

    def opened(path: Path) -> Iterator[Row]:
        if not is_text(path):
            raise FormatError("it is not text", sum(1 for _ in lines(blocks(path))))
        return _rows(path, modified_ms[str(path)], bytes_read)

    shipment = ship_files(Shipper(places, topic, places.on_sent), files, opened)
    return Shipped(shipment, bytes_read, modified_ms)


def _modified(path: Path, files: Sequence[Path]) -> dict[str, int]:
    """Return when files were changed, and keep it for a run that continues."""
    known: dict[str, int] = {}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    found = {str(each): each.stat().st_mtime_ns // 1_000_000 for each in files}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found | known), encoding="utf-8")
    return found | known


def _rows(path: Path, modified_ms: int, bytes_read: dict[str, int]) -> Iterator[Row]:
    name = str(path)
    bytes_read[name] = 0

    def counted() -> Iterator[bytes]:
        for block in blocks(path):
            bytes_read[name] += len(block)
            yield block

    for number, text in enumerate(lines(counted()), 1):
        value = value_of(name, number, text.decode("utf-8", "replace"), modified_ms)
        if len(value) > VALUE_BYTES_MAX:
            yield Row(number, "", "", "it is too long")
        else:
            yield Row(number, name, value)


def value_of(file: str, line: int, text: str, modified_ms: int) -> str:
    """Return the value of the record of a line."""
    return json.dumps({"file": file, "line": line, "text": text, "modified": modified_ms})
