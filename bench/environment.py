"""The environment of an experiment: both brokers, the load, and the rounds."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from compat.lab import java, maven
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker
from compat.lab.dialogue import Dialogue
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT, free_port
from compat.lab.wire_client import WireClient

from bench.bare_timer import BareTimer, bare_timer
from bench.build import WHEEL, prepared
from bench.figures import OURS, THEIRS, Figure, Quantity, Sample
from bench.pauses import PauseWatch, Second
from bench.payloads import Shape, write_payloads

JAVA_SOURCES = Path(__file__).parent / "java"
JVM_OPTIONS = (
    *("-Xmx2G", "-Xms2G", "-XX:+AlwaysPreTouch"),
    *("-XX:+UseG1GC", "-Xmn1G"),
)
"""Of the client. Its memory is touched at its start (see `Environment.let_settle`), and its young
generation is large enough that no collection, which takes milliseconds of both processors, happens in a
timed part."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}
"""For both brokers. The first avoids a wait, the second frees the disk between rounds."""
GIVES_WAY = ("nice", "-n", "19")
"""Put before the command of the client: it represents other machines, and its hundreds of threads
must not keep a broker waiting for the processor."""
LOAD_SECONDS_MAX = 300.0
CALM_MS, CALM_SECONDS, SETTLE_SECONDS_MAX = 3.0, 4, 60.0
"""See `Environment.let_settle`."""

OTHER_WORK_SECONDS = 60
"""How long brokers are kept busy where a measure asks whether that makes them slower."""
BROKERS = ("odradek", "apache")


@dataclass(frozen=True)
class Contender:
    """One of the two brokers."""

    role: str
    """`ours` or `theirs`."""
    broker: Broker
    metrics_port: int | None = None


class Environment:
    """Both brokers running, and a warm client. A context manager: it ends what it started."""

    def __init__(
        self,
        *,
        ours: str,
        rounds: int,
        quick: bool,
        settings: Mapping[str, str] | None = None,
        before_client: Sequence[str] = GIVES_WAY,
        mode: str = WHEEL,
        other_work_seconds: int = OTHER_WORK_SECONDS,
    ) -> None:
        """`settings` are given to both brokers besides `SETTINGS`; `before_client` is put before
        the command of the client; `mode` is one of `bench.build.MODES`.

        Raises:
            Missing: the wheel cannot be built.
        """
        self.rounds = rounds
        self.quick = quick
        self.other_work_seconds = other_work_seconds
        self._before_client = before_client
        self._settings = {**SETTINGS, **(settings or {})}
        node = ApacheKafka if ours == "apache" else prepared(mode).node()
        self._kinds: dict[str, type[Broker]] = {OURS: node, THEIRS: ApacheKafka}
        self._stack = contextlib.ExitStack()
        self._topics = itertools.count()
        self.contenders: list[Contender] = []
        self._load: Dialogue | None = None
        self._timer: BareTimer | None = None
        self._watch: PauseWatch | None = None
        self._payloads: dict[Shape, Path] = {}

    def __enter__(self) -> Self:
        try:
            for role in (OURS, THEIRS):
                self.contenders.append(self._stack.enter_context(self.fresh(role)))
            self._load = self.another_client(*self._before_client)
            self._timer = self._stack.enter_context(bare_timer())
        except BaseException:
            self._stack.close()
            raise
        return self

    def another_client(self, *before: str, options: Sequence[str] = JVM_OPTIONS) -> Dialogue:
        """Another JVM with the load, for work at the same time; `before` is put before its command."""
        jars = maven.kafka_jars()
        classes = java.compiled(jars, JAVA_SOURCES)
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        words = java.command("Load", jars, classes, options=options)
        client = Dialogue([*before, *words], log=directory / "load.log")
        self._stack.callback(client.close)
        return client

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def longest_standstill_ms(self) -> float:
        """The longest delay of a bare timer beside the brokers since the last call."""
        assert self._timer is not None
        return self._timer.longest_ms()

    def watch_pauses(self) -> None:
        """From now on, ask our node every second how long its loop paused."""
        port = self.contenders[0].metrics_port
        if port is not None:
            watch = PauseWatch(port, self.longest_standstill_ms)
            self._watch = self._stack.enter_context(watch)

    def pauses(self) -> list[Second]:
        """What `watch_pauses` has seen; nothing without it."""
        return [] if self._watch is None else list(self._watch.seconds)

    @property
    def names(self) -> dict[str, str]:
        """Role to the broker's name."""
        return {role: kind.name for role, kind in self._kinds.items()}

    @contextlib.contextmanager
    def fresh(self, role: str, *, started: bool = True) -> Iterator[Contender]:
        """Another broker of that role with an empty data directory, ended at the end."""
        settings = dict(self._settings)
        metrics_port = None
        if issubclass(self._kinds[role], OdradekNode):
            metrics_port = free_port()
            settings["odradek.metrics.port"] = str(metrics_port)
        broker = self._kinds[role](settings=settings)
        try:
            if started:
                broker.start()
            yield Contender(role, broker, metrics_port)
        finally:
            broker.close()

    def described(self) -> dict[str, object]:
        """How brokers and client are run, for the record."""
        return {
            "kind": "setup",
            **{each.role: each.broker.described() for each in self.contenders},
            "client_jvm_options": list(JVM_OPTIONS),
            "rounds": self.rounds,
            "quick": self.quick,
            "other_work_seconds": self.other_work_seconds,
        }

    def scaled(self, amount: int) -> int:
        """An amount of work, a tenth of it in a quick run."""
        return max(1, amount // 10) if self.quick else amount

    def load(self, contender: Contender, verb: str, **arguments: Any) -> dict[str, Any]:
        """Have the Java client do something to a broker."""
        assert self._load is not None
        bootstrap = contender.broker.bootstrap
        return self._load.ask(verb, LOAD_SECONDS_MAX, bootstrap=bootstrap, **arguments)

    def payloads(self, shape: Shape) -> Path:
        """The file of the values of that shape, for clients."""
        if shape not in self._payloads:
            directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._payloads[shape] = write_payloads(shape, directory)
        return self._payloads[shape]

    @contextlib.contextmanager
    def client(self, command: Sequence[str | Path]) -> Iterator[Callable[..., dict[str, Any]]]:
        """Run another client's program; call what is yielded as `load` is called."""
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory) / "client.log"
            program = Dialogue([*GIVES_WAY, *map(str, command)], log=log, directory=ROOT)

            def ask(contender: Contender, verb: str, **arguments: Any) -> dict[str, Any]:
                bootstrap = contender.broker.bootstrap
                return program.ask(verb, LOAD_SECONDS_MAX, bootstrap=bootstrap, **arguments)

            try:
                yield ask
            finally:
                program.close()

    def touch_memory(self, amount: int) -> None:
        """Make the machine have free pages for `amount` bytes that are about to be written.

        A virtual machine returns memory that was free for some seconds to its host. Getting a page
        back takes longer than filling it, and counts as processor time of the process that writes.
        The pieces are small, because a write cannot be interrupted and both brokers are running.
        """
        piece = bytes(1 << 16)
        with tempfile.TemporaryFile() as scratch:
            for _ in range(amount // len(piece)):
                scratch.write(piece)

    def let_settle(self) -> None:
        """Wait until a bare timer has been on time for some seconds, for a minute at most.

        The host of a virtual machine takes memory back some seconds after it was freed, and
        returns it page by page; meanwhile the whole machine can stop for hundreds of milliseconds.
        Without this wait, gigabytes that one experiment frees disturb the next one.
        """
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        calm = 0
        self.longest_standstill_ms()
        while calm < CALM_SECONDS and time.monotonic() < deadline:
            time.sleep(1)
            calm = calm + 1 if self.longest_standstill_ms() < CALM_MS else 0

    def tool(self, contender: Contender, name: str, *words: str) -> str:
        """Run one of Apache Kafka's tools in the warm JVM; what it printed."""
        assert self._load is not None
        arguments = ["--bootstrap-server", contender.broker.bootstrap, *words]
        tool = f"org.apache.kafka.tools.{name}"
        done = self._load.ask("run", LOAD_SECONDS_MAX, tool=tool, arguments=arguments)
        if done["code"] != 0:
            raise RuntimeError(f"{name} ended with {done['code']}: {done['err'][:500]}")
        out: str = done["out"]
        return out

    @contextlib.contextmanager
    def topic(
        self,
        contender: Contender,
        partitions: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[str]:
        """A new topic, served in all its partitions, deleted at the end.

        Apache Kafka answers before it serves all; an idempotent Java producer that comes in
        between can be stuck until its delivery timeout.
        """
        name = f"bench-{next(self._topics)}"
        made = {"partitions": partitions, "settings": dict(settings or {})}
        self.load(contender, "create_topic", topic=name, **made)
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        with WireClient(contender.broker.port) as wire:
            while wire.serving(name, partitions) < partitions:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{contender.broker.name} does not serve {name}")
                time.sleep(0.02)
        try:
            yield name
        finally:
            self.load(contender, "delete_topic", topic=name)

    def play(
        self,
        bench: str,
        quantities: Sequence[Quantity],
        one_round: Callable[[Contender], Mapping[str, float]],
        *,
        warm_ups: int = 1,
        rounds: int | None = None,
    ) -> list[Figure]:
        """Rounds in turns: both brokers in each, the other one first in every second round.

        `one_round` gives the value of each quantity by name. The first `warm_ups` rounds are
        played and forgotten.
        """
        figures = {quantity.name: Figure(bench, quantity) for quantity in quantities}
        total = rounds or self.rounds
        for index in range(-warm_ups, total):
            order = self.contenders if index % 2 == 0 else self.contenders[::-1]
            for contender in order:
                sample = dict(one_round(contender))
                _say(bench, index, total, contender, sample)
                if index < 0:
                    continue
                for name, value in sample.items():
                    figures[name].values.setdefault(contender.role, []).append(value)
        return list(figures.values())


def _say(bench: str, index: int, total: int, contender: Contender, sample: Sample) -> None:
    round_name = "warm-up" if index < 0 else f"{index + 1}/{total}"
    told = ", ".join(f"{name} {value:.4g}" for name, value in sample.items())
    print(f"{bench:16} {round_name:8} {contender.broker.name:20} {told}", flush=True)


class CpuMeter:
    """Processor seconds of a broker since the meter was made."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._start = broker.cpu_seconds()

    def seconds(self) -> float:
        """User and system time so far."""
        return self._broker.cpu_seconds() - self._start
