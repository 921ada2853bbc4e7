"""Reads metrics of the machine and of one process from /proc (Linux), and writes them to a topic."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from odradek.client.producer import Producer
from odradek.pipelines.places import Places

INTERVAL_S = 0.25
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
CLOCK = "clock"
"""The name of the last record. Its time is far in the future, so that all windows end."""
CLOCK_AHEAD_MS = 24 * 3600 * 1000


class Rate:
    """The growth of a counter per second since the last call."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._last = (time.monotonic(), read())

    def __call__(self) -> float:
        """Return the growth per second."""
        (then, before), now = self._last, time.monotonic()
        after = self._read()
        self._last = (now, after)
        return (after - before) / max(now - then, 1e-3)


def _busy_seconds() -> float:
    """Return the processor time of all processors, in processors, without idle time."""
    fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS / (os.cpu_count() or 1)


def _context_switches() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("ctxt "):
            return float(line.split()[1])
    raise ValueError("/proc/stat has no line ctxt")


def _received_bytes() -> float:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return float(sum(int(line.partition(":")[2].split()[0]) for line in lines))


def _used_memory() -> float:
    """Return the part of the memory that is not available."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
    }
    return 1 - sizes["MemAvailable"] / sizes["MemTotal"]


def _process_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident_bytes(pid: int) -> float:
    return float(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES)


def meters(broker_pid: int | None) -> dict[str, Callable[[], float]]:
    """Return a function for each metric."""
    found: dict[str, Callable[[], float]] = {
        "system.cpu": Rate(_busy_seconds),
        "system.load": lambda: os.getloadavg()[0],
        "system.memory": _used_memory,
        "system.context_switches_per_s": Rate(_context_switches),
        "network.received_bytes_per_s": Rate(_received_bytes),
    }
    if broker_pid is not None:
        found["broker.cpu"] = Rate(lambda: _process_seconds(broker_pid))
        found["broker.resident_bytes"] = lambda: _resident_bytes(broker_pid)
    return found


class Sampler(threading.Thread):
    """Writes a record for each metric every `INTERVAL_S`, and a record of the clock at the end."""

    def __init__(self, places: Places, topic: str) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[tuple[str, int, float]] = []
        """The name, the time in ms and the value of what was written, without the clock."""
        self.error: Exception | None = None
        self._places = places
        self._topic = topic
        self._meters = meters(places.broker_process_id)
        self._ending = threading.Event()

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            with self._places.connect() as cluster, Producer(cluster) as producer:
                while not self._ending.wait(INTERVAL_S):
                    for name, time_ms, value in self._samples():
                        sample = {"name": name, "time": time_ms, "value": value}
                        producer.send(self._topic, json.dumps(sample).encode(), key=name.encode())
                        self.samples.append((name, time_ms, value))
                    producer.poll()
                end = {"name": CLOCK, "time": _now_ms() + CLOCK_AHEAD_MS, "value": 0.0}
                producer.send(self._topic, json.dumps(end).encode(), key=CLOCK.encode())
        except Exception as error:  # noqa: BLE001  (raised again by `end`)
            self.error = error

    def end(self) -> None:
        """Write the last record, and wait until all records are written."""
        self._ending.set()
        self.join()
        if self.error is not None:
            raise self.error

    def _samples(self) -> Iterator[tuple[str, int, float]]:
        now_ms = _now_ms()
        for name, read in self._meters.items():
            yield name, now_ms, read()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
