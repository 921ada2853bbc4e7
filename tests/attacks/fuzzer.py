"""Passes damaged requests to a connection and a dispatcher: frames, headers and all decoders.

The requests are those of real clients, and generated ones of all APIs in all versions. Each is damaged
a few times, and arrives in pieces. The handlers do nothing, so that only what reads bytes is tested.
A request is dispatched, or its connection is closed; any exception is a bug. The memory of the
process is limited, so an allocation that follows a length instead of the bytes fails.

`python -m tests.attacks.fuzzer COUNT [SEED]` runs COUNT requests and prints what became of them.
"""

from __future__ import annotations

import gzip
import json
import logging
import random
import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from tests.network.scripted import Scripted
from tests.support.progress import report
from tests.support.run_seed import seeds
from tests.wire.sampling import Seeded, sample

from odradek.env.clock import SystemClock
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.entry import Binding, Bound
from odradek.handlers.registry import SERVED, Served
from odradek.model.errors import ErrorCode
from odradek.network.connection import Connection
from odradek.wire import quick_produce, single_offset_commit
from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader

FIXTURES = Path(__file__).parents[1] / "fixtures"
CAPTURED_BYTES_MAX = 3000
SAMPLES = 3
"""Of each version of each request."""
MEMORY_BYTES_MAX = 256 << 20
"""The process may use this much memory in addition."""
LENGTHS = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\x00\x0f\x42\x40", b"\x00\x0f\x42\x41",
    b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\x7f\xff", b"\x80\0", b"\0",
)  # fmt: skip
"""Lengths and counts, as integers and as varints: the largest, negative ones, and limits."""
REPORT_EVERY = 10_000


def requests() -> list[bytes]:
    """Valid requests without their lengths."""
    found = []
    for api in BY_KEY.values():
        for version in range(api.version_min, api.version_max + 1):
            head = RequestHeader(
                request_api_key=api.key, request_api_version=version, client_id="fuzz"
            ).encode(api.request_header_version(version))
            for seed in range(SAMPLES):
                body = sample(api.request_class().__name__, version, Seeded(seed)).encode(version)
                found.append(head + body)
    with gzip.open(FIXTURES / "frames.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            connection, _, direction, _, _, hexadecimal = json.loads(line)
            if (
                connection != "ctl"
                and direction == "req"
                and len(hexadecimal) < 2 * CAPTURED_BYTES_MAX
            ):
                found.append(bytes.fromhex(hexadecimal))
    return found


def _quick(decode: Callable[[memoryview, int, int], object], version_min: int) -> Any:
    def quick(peer: object, frame: memoryview, position: int, version: int, _: int) -> None:
        if version >= version_min:
            decode(frame, position, version)

    return quick


QUICK = {
    0: _quick(quick_produce.decode, quick_produce.VERSION_MIN),
    8: _quick(single_offset_commit.decode, single_offset_commit.VERSION_MIN),
}


class Fuzzer:
    """Damaged requests, and what became of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._requests = requests()
        self.outcomes: Counter[str] = Counter()
        self.decoded: Counter[int] = Counter()
        """The number of requests by API that had no error."""
        self._dispatcher = Dispatcher(
            {
                key: Binding(each.version_min, each.version_max, partial(self._bound, each))
                for key, each in SERVED.items()
            },
            SystemClock(),
        )
        for entry in self._dispatcher.entries.values():
            entry.load()
        self._scripted: Scripted | None = None

    def _bound(self, served: Served) -> Bound:
        return Bound(served.handler(), self._handle, QUICK.get(served.key))

    def _handle(self, context: Any, request: object) -> None:
        self.decoded[context.api_key] += 1
        repr(request)

    def _dispatch(self, connection: Connection, frame: memoryview) -> None:
        self._dispatcher(connection, frame)

    def run(self, count: int) -> None:
        """Pass so many damaged requests."""
        for number in range(count):
            self._one()
            if number % REPORT_EVERY == 0:
                report(number, count, "requests")
        for entry in self._dispatcher.entries.values():
            errors = entry.metrics.by_error
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in errors, f"{entry.name} raised an exception"

    def _one(self) -> None:
        scripted = self._scripted
        if scripted is None or scripted.connection.closed:
            scripted = self._scripted = Scripted(self._dispatch)
        data = self._damaged()
        before = self.decoded.total()
        scripted.receive(*self._pieces(data))
        if scripted.connection.closed:
            self.outcomes["closed"] += 1
        elif self.decoded.total() > before:
            self.outcomes["dispatched"] += 1
        else:  # the rest of the request would be awaited
            self.outcomes["incomplete"] += 1
            self._scripted = None

    def _damaged(self) -> bytes:
        """A request, damaged at up to four places, with its length, which may be wrong."""
        chance = self._random
        data = bytearray(chance.choice(self._requests))
        for _ in range(chance.randrange(5)):
            place = chance.randrange(len(data) + 1)
            match chance.randrange(7):
                case 0:
                    data[place : place + 1] = chance.randbytes(1)
                case 1 if place < len(data):
                    data[place] ^= 1 << chance.randrange(8)
                case 2:
                    lie = chance.choice(LENGTHS)
                    data[place : place + len(lie)] = lie
                case 3:
                    del data[place:]
                case 4:
                    data[place:place] = chance.randbytes(chance.randrange(20))
                case 5:
                    del data[place : place + chance.randrange(20)]
                case _:
                    other = chance.choice(self._requests)
                    data[place:] = other[chance.randrange(len(other)) :]
        size = len(data)
        if not chance.randrange(20):
            size = chance.choice((size + 1, size - 1, chance.randrange(-(2**31), 2**31), 2**31 - 1))
        return struct.pack(">i", size) + data

    def _pieces(self, data: bytes) -> list[bytes]:
        """The whole, or two or three pieces."""
        cuts = sorted(
            self._random.randrange(len(data) + 1) for _ in range(self._random.randrange(3))
        )
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        return [each for each in pieces if each]  # an empty one would be the end of the stream


def limit_memory() -> None:
    """Let this process use only `MEMORY_BYTES_MAX` more than now."""
    used = psutil.Process().memory_info().vms + MEMORY_BYTES_MAX
    resource.setrlimit(resource.RLIMIT_AS, (used, used))


def main() -> None:
    """Run the fuzzer."""
    logging.disable()
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else seeds(1)[0]
    fuzzer = Fuzzer(seed)
    limit_memory()
    fuzzer.run(count)
    counted = ", ".join(f"{number} {what}" for what, number in fuzzer.outcomes.items())
    print(f"{count} damaged requests with seed {seed}: {counted}")  # noqa: T201


if __name__ == "__main__":
    main()
