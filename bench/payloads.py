"""Generates the record values that the clients send. All clients send the same values.

A file of payloads is a sequence of values. The length of each value precedes the value (four bytes,
big-endian). The values are cut from JSON events, so that codecs can compress them: zstd makes a
64 KB batch about four times smaller. All random numbers come from one seed.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SEED = 20_240_701
COUNT = 16_384
"""The number of values in a file. A batch holds fewer records, so no batch has a value twice."""
TAIL_MAX = 10_000
EVENTS = ("click", "view", "search", "purchase", "refund", "login", "logout", "error")


@dataclass(frozen=True)
class Shape:
    """A distribution of the sizes of values."""

    name: str
    """The name in file names."""
    title: str
    """The name in tables."""
    draw: Callable[[random.Random], int]
    """A function that returns a random size in bytes."""


UNIFORM = Shape("uniform", "40–160 B", lambda draw: draw.randint(40, 160))
LONG_TAILED = Shape(
    "long-tailed",
    "long-tailed to 10 KB",
    lambda draw: min(TAIL_MAX, max(40, round(draw.lognormvariate(5.0, 1.1)))),
)
"""Half of the values are smaller than 150 B, one in a hundred is larger than 1.9 KB."""


def draw_values(shape: Shape, count: int = COUNT) -> list[bytes]:
    """Return `count` values of this shape. Every call returns the same values."""
    draw = random.Random(SEED)
    sizes = [shape.draw(draw) for _ in range(count)]
    text = b"".join(events(draw, sum(sizes)))
    values = []
    position = 0
    for size in sizes:
        values.append(text[position : position + size])
        position += size
    return values


def write_payloads(shape: Shape, directory: Path) -> Path:
    """Write a file of payloads of this shape in `directory`, and return its path."""
    path = directory / f"{shape.name}.payloads"
    path.write_bytes(b"".join(struct.pack(">i", len(v)) + v for v in draw_values(shape)))
    return path


def read_payloads(path: Path) -> list[bytes]:
    """Return the values in a file of payloads."""
    data = path.read_bytes()
    values = []
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        values.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return values


def events(draw: random.Random, size: int) -> Iterator[bytes]:
    """Yield JSON events with a total size of at least `size` bytes."""
    made = 0
    moment = 1_700_000_000_000
    while made < size:
        moment += draw.randrange(1000)
        event = {
            "id": draw.randbytes(8).hex(),
            "type": draw.choice(EVENTS),
            "at": moment,
            "user": draw.randrange(100_000),
            "page": f"/shop/{draw.randrange(500)}/{draw.choice(EVENTS)}",
            "ms": draw.randrange(3000),
        }
        line = json.dumps(event).encode() + b"\n"
        made += len(line)
        yield line
