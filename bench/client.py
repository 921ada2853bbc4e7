"""The client beside confluent-kafka and aiokafka: `python -m bench.client`.

Each client reads and writes the same records on one node, in a process of its own. The figures are the CPU time of
the client's process (user and system, all threads) in µs a record, and beside them the time that passed. The
rounds are interleaved: in each, every client does its works once. All clients use batches of 1 MB and 5 ms of
linger time, and otherwise their defaults (`bench.clients.python_client`).

Records have 40 to 160 bytes or 1 KB, without keys, or 40 to 160 bytes with 16-byte keys and lz4.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from compat.lab.broker import BrokerFailed
from compat.lab.toolchain import Missing

from bench.build import Build, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.machine import facts
from bench.programs import CANNOT_RUN, parse_options, run
from bench.results import conclude
from odradek.client import Admin, Producer

PROGRAM = Path(__file__).parent / "clients" / "python_client.py"
SECONDS_MAX = 600
SETTINGS = {"log.segment.delete.delay.ms": "0"}


class Shape(NamedTuple):
    """The records of a run."""

    name: str
    records: int
    sizes: tuple[int, int]
    has_keys: bool = False
    codec: str = "none"


SMALL, LARGE, KEYED = "40–160 B", "1 KB", "40–160 B, keys, lz4"
SHAPES = (
    Shape(SMALL, 100_000, (40, 160)),
    Shape(LARGE, 40_000, (1_000, 1_000)),
    Shape(KEYED, 100_000, (40, 160), True, "lz4"),
)


class Pair(NamedTuple):
    """A work of ours and the one beside it, with the limits of the ratio for small and large records."""

    name: str
    ours: str
    theirs: str
    small: float
    large: float | None

    def limit(self, shape: Shape) -> float | None:
        """Return the limit of the ratio; None if there is none."""
        return {SMALL: self.small, LARGE: self.large}.get(shape.name)


PAIRS = (
    Pair("batches() / consume", "our_records_of_batches", "their_consume", 0.40, 0.75),
    Pair("for record / poll", "our_records", "their_poll", 0.60, 0.85),
    Pair("batch.values() / consume", "our_values", "their_consume", 0.30, 0.65),
    Pair("to_arrow / consume", "our_arrow", "their_consume", 0.33, 1.0),
    Pair("send / produce", "our_send", "their_produce", 0.40, 0.65),
    Pair("send_values / produce_batch", "our_send_values", "their_produce_batch", 0.20, 0.60),
    Pair("send_arrow / produce_batch", "our_send_arrow", "their_produce_batch", 0.25, None),
    Pair("aio: consume / aiokafka", "our_aio_consume", "aiokafka_consume", 0.25, 0.4),
    Pair("aio: send / aiokafka", "our_aio_produce", "aiokafka_produce", 0.15, 0.3),
)
WRITING = {"our_send", "our_send_values", "our_send_arrow", "our_aio_produce"} | {
    *("their_produce", "their_produce_batch", "aiokafka_produce"),
}
WITHOUT_KEYS = {"our_send_values", "our_send_arrow", "their_produce_batch"}
LIBRARIES = ("our_", "their_", "aiokafka_")


class Measured(NamedTuple):
    """What a work has cost, in µs a record."""

    cpu: float
    wall: float


def libraries() -> dict[str, object]:
    """Return the versions of the other clients."""
    return {"libraries": {name: version(name) for name in ("confluent-kafka", "aiokafka")}}


def works(shape: Shape) -> dict[str, list[str]]:
    """Return the works of each library."""
    names = dict.fromkeys(name for pair in PAIRS for name in (pair.ours, pair.theirs))
    return {
        library: [
            name
            for name in names
            if name.startswith(library) and not (shape.has_keys and name in WITHOUT_KEYS)
        ]
        for library in LIBRARIES
    }


def fill(bootstrap: str, shape: Shape, topic: str) -> None:
    """Write the records that are read."""
    with Producer(
        {"bootstrap.servers": bootstrap, "batch.size": 1_000_000, "compression.type": shape.codec}
    ) as producer:
        draw = random.Random(2)
        pool = draw.randbytes(1 << 16)
        for _ in range(shape.records):
            at = draw.randrange(len(pool) - shape.sizes[1])
            key = draw.randbytes(16) if shape.has_keys else None
            producer.send(topic, pool[at : at + draw.randint(*shape.sizes)], key=key)


def one_run(
    build: Build, admin: Admin, bootstrap: str, shape: Shape, library: str, filled: str
) -> Iterator[tuple[str, Measured]]:
    """Let a client do its works. Yield what they cost."""
    topics = {}
    made = []
    for name in works(shape)[library]:
        topics[name] = filled
        if name in WRITING:
            topics[name] = f"to-{uuid.uuid4().hex[:8]}"
            made.append(topics[name])
            admin.create_topic(topics[name], partitions=1)
    given = {
        "bootstrap": bootstrap,
        "codec": shape.codec,
        "seed": 1,
        "sizes": shape.sizes,
        "records": shape.records,
        "has_keys": shape.has_keys,
        "works": topics,
    }
    done = subprocess.run(
        [str(build.python), "-I", str(PROGRAM), json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise BrokerFailed(f"{library} has failed: {done.stderr[-2000:]}")
    for line in done.stdout.splitlines():
        found = json.loads(line)
        per_record = 1e6 / shape.records
        yield found["work"], Measured(found["cpu"] * per_record, found["wall"] * per_record)
    if made:
        admin.delete_topics(made)


def measure(build: Build, bootstrap: str, rounds: int, shapes: Sequence[Shape]) -> list[Figure]:
    """Run the rounds, and return the figures."""
    figures: dict[tuple[str, str], tuple[Figure, Figure]] = {}
    with Admin(bootstrap_servers=bootstrap) as admin:
        for shape in shapes:
            filled = f"from-{uuid.uuid4().hex[:8]}"
            admin.create_topic(filled, partitions=1)
            fill(bootstrap, shape, filled)
            for number in range(rounds):
                found: dict[str, Measured] = {}
                for library in LIBRARIES:
                    found.update(one_run(build, admin, bootstrap, shape, library, filled))
                for pair in PAIRS:
                    if pair.ours in found:
                        _note(figures, shape, pair, found)
                print(f"{shape.name}: round {number + 1} of {rounds}", flush=True)
    return [figure for some in figures.values() for figure in some]


def _note(
    figures: dict[tuple[str, str], tuple[Figure, Figure]],
    shape: Shape,
    pair: Pair,
    found: dict[str, Measured],
) -> None:
    name = f"{shape.name}: {pair.name}"
    if (shape.name, pair.name) not in figures:
        figures[shape.name, pair.name] = (
            Figure("client", Quantity(f"{name}, CPU", "µs", limit=pair.limit(shape))),
            Figure("client", Quantity(f"{name}, time", "µs", limit=1.0, primary=False)),
        )
    cpu, wall = figures[shape.name, pair.name]
    for role, work in ((OURS, pair.ours), (THEIRS, pair.theirs)):
        cpu.add(role, found[work].cpu)
        wall.add(role, found[work].wall)


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options(
        "client", __doc__, rounds=5, quick="one round with a tenth of the records"
    )
    shapes: Sequence[Shape] = SHAPES
    if options.quick:
        options.rounds = 1
        shapes = [each._replace(records=each.records // 10) for each in SHAPES]
    machine = facts()
    try:
        build = prepared(options.mode)
        node = build.node()(settings=SETTINGS, listeners=())
        try:
            node.start()
            figures = measure(build, node.bootstrap, options.rounds, shapes)
            setup = {"kind": "setup", "ours": node.described(), **libraries()}
        finally:
            node.close()
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    names = {OURS: "odradek", THEIRS: "confluent-kafka, aiokafka"}
    return conclude(figures, names, machine, setup, is_trial=options.quick, output=options.output)


if __name__ == "__main__":
    run(main)
