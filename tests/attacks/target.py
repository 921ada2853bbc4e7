"""The node that is attacked, what it may use, and the clients that must not notice."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from bench.build import PURE, prepared
from compat.lab.broker import Broker
from compat.lab.toolchain import ROOT, free_port
from tests.bad_input.target import create_topic
from tests.support.child import PYTHON, Child
from tests.tls.conftest import Authority

USER, PASSWORD = "honest", "honest-secret"
LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BUILD = os.environ.get("ODRADEK_ATTACK_BUILD", PURE)
"""`wheel`: the nodes are the wheel of this commit, as users install it. `pure`: they are the checkout."""
SAMPLE_SECONDS = 0.05
MEASURED_AGAIN = 2
"""So many times an attack is repeated if it misses the limit. The median counts."""
FINISH_SECONDS_MAX = 300.0
LIMIT_TIMES = 3
"""The limit of the p99 of the honest clients during an attack, relative to the p99 without it. It is
reported, not checked."""
CALM_COUNT = 3000
"""What the honest clients do in 8 s. So long they are measured before an attack, and again after it."""
LATE_COUNT = 200
"""What they do in half a second. So long they are not measured after an attack."""
FILES_KEPT = 500
"""File descriptors that this process and the node need for other things than connections."""
FILES_MORE = 8
"""The honest clients open and close connections all the time."""


def raise_file_limit() -> int:
    """Allow as many open files as possible; return how many connections an attack may open.

    The node inherits the limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard - FILES_KEPT


def percentile_99(values: list[float]) -> float:
    """The value that one of a hundred exceeds; 0 if there are none."""
    return sorted(values)[len(values) * 99 // 100] if values else 0.0


class Honest:
    """The process of the honest clients."""

    def __init__(self, directory: Path, places: Mapping[str, Mapping[str, str]]) -> None:
        file = directory / "honest.json"
        file.write_text(json.dumps(places), encoding="utf-8")
        self.errors: list[str] = []
        self.measured: list[tuple[float, str, float]] = []
        self.counts: list[int] = []
        """The records that were written and read, at the end."""
        self._process = Child(
            [*PYTHON, "tests.attacks.honest", file],
            output=directory / "honest.log",
            talks=True,
            hears=True,
            directory=ROOT,
        )
        self._reader = threading.Thread(target=self._read, name="honest")
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.lines():
            moment, what, value = line.split(" ", 2)
            if what == "error":
                self.errors.append(value)
            elif what == "end":
                self.counts = [int(each) for each in value.split()]
            else:
                self.measured.append((float(moment), what, float(value)))

    def p99(self, *periods: tuple[float, float]) -> dict[str, float]:
        """The 99th percentiles in milliseconds of what began in periods of time."""
        found: dict[str, list[float]] = {"write": [], "read": [], "connect": []}
        for moment, what, value in list(self.measured):
            if any(begin <= moment - value / 1000 < end for begin, end in periods):
                found[what].append(value)
        return {what: percentile_99(values) for what, values in found.items()}

    def wait_for(self, count: int) -> None:
        """Wait until the clients have done so many things more."""
        wanted = len(self.measured) + count
        self._process.until(lambda: len(self.measured) >= wanted, math.inf)

    def finish(self) -> None:
        """End the clients after they have read everything."""
        self._process.finish(FINISH_SECONDS_MAX)
        self._reader.join()
        self._process.close()


class Used(NamedTuple):
    """What the node used during an attack, and the p99 of the honest clients in milliseconds."""

    seconds: float
    rss_bytes: int
    """The growth of its resident memory, at most, with that of its child processes."""
    calm: dict[str, float]
    """Before and after the attack."""
    busy: dict[str, float]
    """During the attack."""

    @property
    def times(self) -> float:
        """How many times the p99 was longer during the attack; the worst of the three."""
        return max(busy / self.calm[what] for what, busy in self.busy.items())

    def __str__(self) -> str:
        p99 = ", ".join(
            f"{what} {self.calm[what]:.1f} | {busy:.1f} ms ({busy / self.calm[what]:.1f})"
            for what, busy in self.busy.items()
        )
        verdict = "kept" if self.times <= LIMIT_TIMES else "missed"
        return (
            f"{self.seconds:.0f} s: memory grew by {self.rss_bytes >> 20} MB; "
            f"p99 before and after | during (times): {p99}; {LIMIT_TIMES} times: {verdict}"
        )


class Victim:
    """A node with all kinds of listeners."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        authority = Authority(directory)
        self.authority_file = authority.certificate
        key = authority.issue("/CN=server")
        self.ports = {name: free_port() for name in LISTENERS}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        users = f'user_{USER}="{PASSWORD}"'
        self.node: Broker = prepared(BUILD).node()(
            directory=directory / "node",
            listeners=listeners,
            settings={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(key),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                **{
                    name: value
                    for listener in ("sasl_plaintext", "sasl_ssl")
                    for name, value in (
                        (
                            f"listener.name.{listener}.plain.sasl.jaas.config",
                            f"{PLAIN_MODULE} required {users};",
                        ),
                        (
                            f"listener.name.{listener}.scram-sha-256.sasl.jaas.config",
                            f"{SCRAM_MODULE} required;",
                        ),
                    )
                },
                **(settings or {}),
            },
        )
        self.honest: Honest | None = None
        self._directory = directory

    @property
    def port(self) -> int:
        """The port of the listener without TLS and SASL."""
        return self.node.port

    def start(self) -> None:
        """Start the node."""
        self.node.start()
        self.ports["PLAINTEXT"] = self.node.port

    def start_honest_clients(self) -> None:
        """Start the honest clients, and wait until they work. Attackers get the lowest priority."""
        for name in ("plain", "secure"):
            create_topic(self.port, f"honest-{name}", {})
        places = {
            "plain": {"bootstrap.servers": self.node.bootstrap},
            "secure": {
                "bootstrap.servers": f"127.0.0.1:{self.ports['SASL_SSL']}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(self.authority_file),
            },
        }
        self.honest = Honest(self._directory, places)
        self.honest.wait_for(1000)
        if sys.platform == "linux":
            # Attackers represent other machines. So the node and the honest clients get the
            # processors as soon as they can run.
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    def rss_bytes(self) -> int:
        """The resident memory of the node and of its child processes."""
        total = 0
        for process in (self.node.process, *self.node.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def files(self) -> int:
        """The number of open file descriptors of the node."""
        return int(self.node.process.num_fds())

    def check_log(self) -> None:
        """Check that the node runs, and has reported no bug."""
        assert self.node.alive(), self.node.last_words()
        said = self.node.log.read_text(encoding="utf-8")
        assert "Traceback" not in said, said[said.index("Traceback") - 500 :][:4000]

    def attacked(self, growth_max_bytes: int, attack: Callable[[Victim], object]) -> Used:
        """Run an attack against this node, and check the node after that.

        File descriptors must be closed after an attack.
        """
        honest = self.honest
        assert honest is not None
        begin = time.monotonic()
        honest.wait_for(CALM_COUNT)
        memory_bytes = self.rss_bytes()
        with self.closes_files():
            attacked = time.monotonic()
            watch = _Watch(self)
            try:
                attack(self)
            finally:
                peak_bytes = watch.stop()
            ended = time.monotonic()
        honest.wait_for(LATE_COUNT)
        calm_again = time.monotonic()
        honest.wait_for(CALM_COUNT)
        used = Used(
            ended - attacked,
            peak_bytes - memory_bytes,
            calm=honest.p99((begin, attacked), (calm_again, time.monotonic())),
            busy=honest.p99((attacked, ended)),
        )
        self.check_log()
        assert used.rss_bytes < growth_max_bytes, str(used)
        assert not honest.errors, honest.errors[:10]
        return used

    @contextlib.contextmanager
    def closes_files(self) -> Iterator[None]:
        """Wait at the end until the node has closed the files that it has opened meanwhile."""
        files = self.files()
        yield
        while self.files() > files + FILES_MORE:  # files of topics that an attack created
            time.sleep(SAMPLE_SECONDS)

    def close(self) -> None:
        """End the honest clients, which must have lost nothing, and the node."""
        try:
            if self.honest is not None:
                self.honest.finish()
                sent, received = self.honest.counts
                assert sent == received
                assert not self.honest.errors, self.honest.errors[:10]
        finally:
            self.node.close()


class _Watch:
    """Notes the highest resident memory of a node, in a thread."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self._peak = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._peak = max(self._peak, self._victim.rss_bytes())

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join()
        self._sample()
        return self._peak
