"""The effect of other load on a producer, compared with Apache Kafka: `python -m bench.isolation`.

A producer sends a thousand records per second. In the first phase ("quiet") there is no other load.
In the second phase ("beside") a consumer replays a topic that is not in the page cache, and the
broker compacts another topic of a gigabyte. The latency of a record is the time from the moment at
which the record was due to its acknowledgement. The results are the 99th percentiles of the latency
in both phases and the ratio of these percentiles.

The replayed topic is written to the device and dropped from the page cache before the quiet phase
and before each further pass. The result has the number of bytes that the broker's process read from
the device. The consumer represents another machine. It runs with the lowest priority, so
that it takes no processor time from the broker or from the measured producer. The JIT compiler of
the consumer must not take this time either. Therefore the first round of each broker is a warm-up.

At the same time a bare timer wakes up a thousand times per second and records its delays. The host
can stop a virtual machine for longer than a broker takes for a response. No broker can be better
than this timer. The quiet phase begins when the preparations no longer disturb the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from compat.lab.broker import BrokerFailed
from compat.lab.dialogue import Dialogue

from bench.bare_timer import timer_p99_ms
from bench.environment import GIVES_WAY, LOAD_SECONDS_MAX, Contender, Environment
from bench.figures import Figure, Quantity
from bench.measures.latency import PROPERTIES as TAIL_PROPERTIES
from bench.measures.latency import RATE
from bench.measures.latency import SIZE as TAIL_SIZE
from bench.measures.producing import PROPERTIES as BULK_PROPERTIES
from bench.programs import compare, parse_options, run

LIMIT = 2.0
"""The maximum ratio of Odradek's p99 in the second phase to the p99 in the quiet phase."""
SAMPLES = 10_000
COLD_BYTES = 2_000_000_000
COLD_SIZE = 1000
STEP_RECORDS = 200_000
REPLAY_BYTES_PER_SECOND = 100_000_000
"""About the throughput of a network of 1 Gbit/s."""
REPLAY_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-XX:+AlwaysPreTouch"),
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
)
"""The options of the consumer's JVM. Its GC and JIT compiler use few threads. Linux lets even a
process with the lowest priority run for milliseconds before another process gets the processor."""
KEYED_RECORDS, KEYED_SIZE, KEYS = 9_500_000, 100, 1_000_000
"""A little more than a gigabyte of batches."""
KEYED_SETTINGS = {"segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.01"}
BACKOFF_MS = 500
SETTINGS = {"log.cleaner.backoff.ms": str(BACKOFF_MS)}

QUIET_P50 = Quantity("produce p50, quiet", "ms")
QUIET = Quantity("produce p99, quiet", "ms")
BESIDE_P50 = Quantity("produce p50, beside", "ms")
BESIDE = Quantity("produce p99, beside", "ms")
QUIET_TIMER = Quantity("bare timer p99, quiet", "ms")
BESIDE_TIMER = Quantity("bare timer p99, beside", "ms")
TIMES = Quantity("p99 beside / quiet", "times", most=LIMIT)
SEEN = Quantity("send to receipt p99 beside / quiet", "times")
REPLAYED = Quantity("replayed", "MB/s", higher_is_better=True)
COLD = Quantity("of it from the device", "%")
CLEANED = Quantity("compaction of 1 GB", "s")
QUANTITIES = [
    *(QUIET_P50, QUIET, BESIDE_P50, BESIDE, TIMES, SEEN),
    *(QUIET_TIMER, BESIDE_TIMER, REPLAYED, COLD, CLEANED),
]


class Replay:
    """A consumer that reads a cold topic of one partition from its start, again and again."""

    def __init__(self, client: Dialogue, contender: Contender, topic: str, records: int) -> None:
        self._client = client
        self._contender = contender
        self._topic = topic
        self._records = records
        self._is_over = threading.Event()
        self.bytes = 0
        self.device_bytes = 0
        self.seconds = 0.0

    def run(self) -> None:
        """Replay in steps of `STEP_RECORDS` until `stop` is called. Use a separate thread."""
        broker = self._contender.broker
        before = broker.process.io_counters().read_bytes
        for offset in itertools.cycle(range(0, self._records, STEP_RECORDS)):
            if self._is_over.is_set():
                break
            if offset == 0 and self.bytes:
                write_out(self._contender, self._topic, drop=True)
            records = min(STEP_RECORDS, self._records - offset)
            done = self._client.ask(
                "consume",
                LOAD_SECONDS_MAX,
                bootstrap=self._contender.broker.bootstrap,
                topic=self._topic,
                records=records,
                offset=offset,
                rate=REPLAY_BYTES_PER_SECOND,
            )
            self.bytes += done["bytes"]
            self.seconds += done["seconds"]
        self.device_bytes = broker.process.io_counters().read_bytes - before

    def stop(self) -> None:
        """End `run` after the current step."""
        self._is_over.set()


def write_out(contender: Contender, topic: str, *, drop: bool) -> None:
    """Write a topic's segments to the device. With `drop`, drop them from the page cache."""
    for path in contender.broker.data.glob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            if drop:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def seconds_until_clean(contender: Contender, topic: str, started: float) -> float:
    """Wait until the cleaner checkpoint contains partition 0 of the topic.

    Return the seconds since `started`.

    Raises:
        BrokerFailed: the broker does not compact the topic in time.
    """
    checkpoint = contender.broker.data / "cleaner-offset-checkpoint"
    while not (checkpoint.exists() and f"{topic} 0 " in checkpoint.read_text(encoding="utf-8")):
        if time.monotonic() - started > LOAD_SECONDS_MAX:
            raise BrokerFailed(f"{contender.broker.name} does not compact {topic}")
        time.sleep(0.05)
    return time.monotonic() - started


@contextlib.contextmanager
def filled(
    environment: Environment,
    contender: Contender,
    records: int,
    size: int,
    keys: int = 0,
    settings: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Create and fill a topic, and yield its name. Delete the topic at the end."""
    with environment.topic(contender, settings=settings) as topic:
        environment.load(
            contender,
            "produce",
            topic=topic,
            records=records,
            size=size,
            keys=keys,
            properties=BULK_PROPERTIES,
        )
        yield topic


def tail(environment: Environment, contender: Contender, topic: str) -> dict[str, float]:
    """Return percentiles of the latency of a steady load, and the p99 of a simultaneous timer."""
    samples = environment.scaled(SAMPLES)
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        timer = processes.submit(timer_p99_ms, samples, RATE)
        done = environment.load(
            contender,
            "paced",
            topic=topic,
            samples=samples,
            rate=RATE,
            size=TAIL_SIZE,
            properties=TAIL_PROPERTIES,
        )
    acknowledged = done["acknowledged"]
    return {
        "p50": acknowledged["p50_ms"],
        "p99": acknowledged["p99_ms"],
        "seen": done["p99_ms"],
        "timer": timer.result(),
    }


def one_round(
    environment: Environment, contender: Contender, client: Dialogue, cold: str, cold_records: int
) -> Mapping[str, float]:
    """Run both phases for a broker, and return the values of `QUANTITIES`."""
    keyed = environment.scaled(KEYED_RECORDS)
    with (
        environment.topic(contender) as topic,
        filled(environment, contender, keyed, KEYED_SIZE, KEYS, KEYED_SETTINGS) as compacted,
        ThreadPoolExecutor() as threads,
    ):
        write_out(contender, compacted, drop=False)
        write_out(contender, cold, drop=True)
        environment.let_settle()
        quiet = tail(environment, contender, topic)
        compact = {"cleanup.policy": "compact"}
        environment.load(contender, "configure_topic", topic=compacted, settings=compact)
        started = time.monotonic()
        cleaned = threads.submit(seconds_until_clean, contender, compacted, started)
        replay = Replay(client, contender, cold, cold_records)
        replayed = threads.submit(replay.run)
        time.sleep(2 * BACKOFF_MS / 1000)
        try:
            beside = tail(environment, contender, topic)
            was_at_work = not cleaned.done()
        finally:
            replay.stop()
        replayed.result()
        seconds = cleaned.result()
        if not was_at_work:
            print(f"  compaction took {seconds:.1f} s, less than the records at the tail")
    return {
        QUIET_P50.name: quiet["p50"],
        QUIET.name: quiet["p99"],
        BESIDE_P50.name: beside["p50"],
        BESIDE.name: beside["p99"],
        TIMES.name: beside["p99"] / quiet["p99"],
        SEEN.name: beside["seen"] / quiet["seen"],
        QUIET_TIMER.name: quiet["timer"],
        BESIDE_TIMER.name: beside["timer"],
        REPLAYED.name: replay.bytes / replay.seconds / 1e6,
        COLD.name: replay.device_bytes / replay.bytes * 100,
        CLEANED.name: seconds,
    }


def measure(environment: Environment) -> list[Figure]:
    """Fill the replayed topics, and run the rounds."""
    records = environment.scaled(COLD_BYTES) // COLD_SIZE
    client = environment.another_client(*GIVES_WAY, options=REPLAY_OPTIONS)
    with contextlib.ExitStack() as stack:
        cold = {
            each.role: stack.enter_context(filled(environment, each, records, COLD_SIZE))
            for each in environment.contenders
        }
        for each in environment.contenders:
            # Write the topic now, so that the writes do not disturb the other broker's rounds.
            write_out(each, cold[each.role], drop=False)
        return environment.play(
            "isolation",
            QUANTITIES,
            lambda each: one_round(environment, each, client, cold[each.role], records),
        )


def main() -> int:
    """Run the experiment, and return the exit code (`programs`)."""
    options = parse_options("isolation", __doc__, rounds=5)
    return compare(measure, options, settings=SETTINGS, before_client=())


if __name__ == "__main__":
    run(main)
