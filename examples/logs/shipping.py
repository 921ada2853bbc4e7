"""Reads log files, and writes each line to a topic, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odradek.pipelines.follow.follower import Follower
from odradek.pipelines.follow.log import Log
from odradek.pipelines.inputs import End, blocks, is_text, lines
from odradek.pipelines.own.formats import FormatError
from odradek.pipelines.own.rows import VALUE_BYTES_MAX, Row
from odradek.pipelines.own.shipping import Shipment, Shipper, ship_files
from odradek.pipelines.places import Places

TOPIC = "logs"


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of a log: of one generation of its file."""

    file: str
    generation: int
    path: Path
    """Where the content is now. Of a file that is followed, this is a copy."""
    size_bytes: int
    """Decompressed. The file may have more, because logs grow."""
    times: Sequence[tuple[int, int]]
    """Numbers of last lines, and when the file was changed before these and the lines before them were
    sent, in ms since 1970."""

    def modified_ms(self, line: int) -> int:
        """Return the time of a line."""
        return next(at for last, at in self.times if line <= last)


@dataclass(frozen=True, slots=True)
class Shipped:
    """What is in the topic, and what is not."""

    contents: Sequence[Content]
    lines_sent: int
    lines_skipped: int
    """Lines that are too long."""
    lines_unread: int = 0
    """Known lines of files that are not read."""


LAST_LINE = 1 << 62


def ship(places: Places, files: Sequence[Path]) -> tuple[Shipped, Shipment]:
    """Write the lines that are not in the topic. The key is the file, so its lines stay in order."""
    bytes_read: dict[str, int] = {}
    modified_ms = _modified(places.output / "modified.json", files)

    def opened(path: Path) -> Iterator[Row]:
        if not is_text(path):
            raise FormatError("it is not text", sum(1 for _ in lines(blocks(path))))
        return _rows(path, modified_ms[str(path)], bytes_read)

    shipment = ship_files(Shipper(places, TOPIC, places.on_sent), files, opened)
    cut = {name: each.cut_at_bytes for name, each in shipment.positions.items()}
    contents = [
        Content(name, 1, Path(name), size, [(LAST_LINE, at)])
        for name, at in modified_ms.items()
        if (size := bytes_read.get(name, cut.get(name))) is not None
    ]
    unread = sum(each.lines or 0 for each in shipment.skipped)
    return Shipped(contents, shipment.sent, shipment.lines_skipped, unread), shipment


def followed(follower: Follower) -> Shipped:
    """Return what a follower has sent."""
    logs = sorted(follower.logs, key=lambda each: (each.file, each.generation))
    contents = [
        Content(each.file, each.generation, copies.path(each), each.bytes_read, copies.times(each))
        for copies in (follower.copies,)
        for each in logs
    ]
    sent, skipped = sum(each.sent for each in logs), sum(each.skipped for each in logs)
    return Shipped(contents, sent, skipped)


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
    end = End()

    def counted() -> Iterator[bytes]:
        for block in blocks(path):
            bytes_read[name] += len(block)
            yield block

    for number, text in enumerate(lines(counted(), end), 1):
        value = value_of(name, 1, number, text.decode("utf-8", "replace"), modified_ms)
        if len(value) > VALUE_BYTES_MAX:
            yield Row(number, "", "", "it is too long", end.cut_at_bytes)
        else:
            yield Row(number, name, value, cut_at_bytes=end.cut_at_bytes)


def value_of(file: str, generation: int, line: int, text: str, modified_ms: int) -> str:
    """Return the value of the record of a line."""
    row = {"file": file, "generation": generation, "line": line, "text": text}
    return json.dumps({**row, "modified": modified_ms})


def value_of_log(log: Log, line: int, text: str) -> str:
    """Return the value of the record of a line of a log that is followed."""
    return value_of(log.file, log.generation, line, text, log.modified_ms)
