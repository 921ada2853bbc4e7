"""Reads log files, and writes each line to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from odradek.client.producer import Producer
from odradek.pipelines.places import Places

PROBE_BYTES = 4096


def log_files(directories: Iterable[Path]) -> list[Path]:
    """Return the readable text files of directories, and of their subdirectories."""
    found = {path for directory in directories for path in directory.rglob("*") if is_text(path)}
    return sorted(found)


def is_text(path: Path) -> bool:
    """Return whether a path is a readable, non-empty file without zero bytes at its beginning."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(PROBE_BYTES)
    except OSError:
        return False
    return bool(start) and b"\0" not in start and not start.startswith((b"\x1f\x8b", b"\xfd7zXZ"))


def ship(places: Places, topic: str, files: Iterable[Path]) -> dict[str, int]:
    """Write the complete lines of files to a topic, and return their number by file.

    The key is the file, so its lines stay in order.
    """
    counts = {}
    with places.connect() as cluster, Producer(cluster) as producer:
        for path in files:
            name = str(path)
            lines = path.read_bytes().decode("utf-8", "replace").split("\n")[:-1]
            for number, text in enumerate(lines, 1):
                line = {"file": name, "line": number, "text": text}
                producer.send(topic, json.dumps(line).encode(), key=name.encode())
            counts[name] = len(lines)
    return counts
