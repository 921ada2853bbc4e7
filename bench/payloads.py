"""The values that the loads send: drawn once, written to a file, the same for every client.

A file of payloads is a sequence of values, each with its length (four bytes, big-endian) in front.
The values are cut from JSON events, so that a codec has something to compress: zstd makes a 64 KB
batch of them about four times smaller. All draws come from one seed.
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
"""Values in a file. A batch, compressed or not, holds fewer, and so never the same value twice."""
TAIL_MAX = 10_000
EVENTS = ("click", "view", "search", "purchase", "refund", "login", "logout", "error")


@dataclass(frozen=True)
class Shape:
    """How the sizes of values are distributed."""

    name: str
    """For file names."""
    title: str
    """For tables."""
    draw: Callable[[random.Random], int]
    """A size in bytes."""


UNIFORM = Shape("uniform", "40–160 B", lambda draw: draw.randint(40, 160))
LONG_TAILED = Shape(
    "long-tailed",
    "long-tailed to 10 KB",
    lambda draw: min(TAIL_MAX, max(40, round(draw.lognormvariate(5.0, 1.1)))),
)
"""Half of the values are smaller than 150 B, one in a hundred is larger than 1.9 KB."""


def draw_values(shape: Shape, count: int = COUNT) -> list[bytes]:
    """`count` values of that shape, the same at every call."""
    draw = random.Random(SEED)
    sizes = [shape.draw(draw) for _ in range(count)]
    text = b"".join(_events(draw, sum(sizes)))
    values = []
    position = 0
    for size in sizes:
        values.append(text[position : position + size])
        position += size
    return values


def write_payloads(shape: Shape, directory: Path) -> Path:
    """A file of payloads of that shape in `directory`; its path."""
    path = directory / f"{shape.name}.payloads"
    path.write_bytes(b"".join(struct.pack(">i", len(v)) + v for v in draw_values(shape)))
    return path


def read_payloads(path: Path) -> list[bytes]:
    """The values of a file of payloads."""
    data = path.read_bytes()
    values = []
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        values.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return values


def _events(draw: random.Random, size: int) -> Iterator[bytes]:
    """JSON events of at least `size` bytes together."""
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
