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
"""The JVM options of the client. The JVM touches its memory when it starts (see
`Environment.let_settle`). The young generation is so large that no garbage collection happens in a
timed part. A collection would use both processors for milliseconds."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}
"""Settings of both brokers. The first setting avoids a wait. The second frees disk space between
rounds."""
GIVES_WAY = ("nice", "-n", "19")
"""The prefix of the client's command. It lowers the priority of the client, because the client
represents other machines. Its hundreds of threads must not delay a broker."""
LOAD_SECONDS_MAX = 300.0
CALM_MS, CALM_SECONDS, SETTLE_SECONDS_MAX = 3.0, 4, 60.0
"""See `Environment.let_settle`."""

OTHER_WORK_SECONDS = 60
"""How long the other work of the experiment `raw_fetch` lasts."""
BROKERS = ("odradek", "apache")


@dataclass(frozen=True)
class Contender:
    """One of the two brokers."""

    role: str
    """`ours` or `theirs`."""
    broker: Broker
    metrics_port: int | None = None


class Environment:
    """Both running brokers and a warm client.

    Use it in a `with` statement, which ends all processes at its end.
    """

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
        listeners: Sequence[str] = (),
    ) -> None:
        """`settings` are settings of both brokers in addition to `SETTINGS`. `before_client` is the
        prefix of the client's command. `mode` is one of `bench.build.MODES`. `listeners` are the
        names of listeners besides PLAINTEXT.

        Raises:
            Missing: the wheel cannot be built.
        """
        self.rounds = rounds
        self.quick = quick
        self.other_work_seconds = other_work_seconds
        self._before_client = before_client
        self._listeners = listeners
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
        """Start another JVM with the client. `before` is the prefix of its command."""
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
        """Return the longest delay of the bare timer since the last call, in ms."""
        assert self._timer is not None
        return self._timer.longest_ms()

    def watch_pauses(self) -> None:
        """Start to request the longest pause of the event loop from the node every second."""
        port = self.contenders[0].metrics_port
        if port is not None:
            watch = PauseWatch(port, self.longest_standstill_ms)
            self._watch = self._stack.enter_context(watch)

    def pauses(self) -> list[Second]:
        """Return the pauses since `watch_pauses` was called; an empty list without this call."""
        return [] if self._watch is None else list(self._watch.seconds)

    @property
    def names(self) -> dict[str, str]:
        """The names of the brokers by role."""
        return {role: kind.name for role, kind in self._kinds.items()}

    @contextlib.contextmanager
    def fresh(self, role: str, *, started: bool = True) -> Iterator[Contender]:
        """Yield another broker of this role with an empty data directory. Stop it at the end."""
        settings = dict(self._settings)
        metrics_port = None
        if issubclass(self._kinds[role], OdradekNode):
            metrics_port = free_port()
            settings["odradek.metrics.port"] = str(metrics_port)
        listeners = [f"{name}://127.0.0.1:{free_port()}" for name in self._listeners]
        broker = self._kinds[role](settings=settings, listeners=listeners)
        try:
            if started:
                broker.start()
            yield Contender(role, broker, metrics_port)
        finally:
            broker.close()

    def described(self) -> dict[str, object]:
        """Return the setup of the brokers and the client, for the stored results."""
        return {
            "kind": "setup",
            **{each.role: each.broker.described() for each in self.contenders},
            "client_jvm_options": list(JVM_OPTIONS),
            "rounds": self.rounds,
            "quick": self.quick,
            "other_work_seconds": self.other_work_seconds,
        }

    def scaled(self, amount: int) -> int:
        """Return an amount of work, or a tenth of it in a quick run."""
        return max(1, amount // 10) if self.quick else amount

    def load(self, contender: Contender, verb: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to the Java client, and return its result.

        The client uses the usual listener, unless `arguments` has another address as `bootstrap`.
        """
        assert self._load is not None
        arguments.setdefault("bootstrap", contender.broker.bootstrap)
        return self._load.ask(verb, LOAD_SECONDS_MAX, **arguments)

    def payloads(self, shape: Shape) -> Path:
        """Return the file with the values of this shape. Clients read the file."""
        if shape not in self._payloads:
            directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._payloads[shape] = write_payloads(shape, directory)
        return self._payloads[shape]

    @contextlib.contextmanager
    def client(self, command: Sequence[str | Path]) -> Iterator[Callable[..., dict[str, Any]]]:
        """Run another client program. Yield a function with the parameters of `load`."""
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

    def let_settle(self) -> None:
        """Wait until the bare timer has been on time for some seconds, for a minute at most.

        The host of a virtual machine takes memory back some seconds after the memory was freed, and
        returns the memory page by page. During this time the whole machine can stop for hundreds of
        milliseconds. Without this wait, the gigabytes that an experiment frees would disturb the
        next experiment.
        """
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        calm = 0
        self.longest_standstill_ms()
        while calm < CALM_SECONDS and time.monotonic() < deadline:
            time.sleep(1)
            calm = calm + 1 if self.longest_standstill_ms() < CALM_MS else 0

    def tool(self, contender: Contender, name: str, *words: str) -> str:
        """Run a tool of Apache Kafka in the warm JVM, and return the tool's output."""
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
        """Create a topic, and yield its name when the broker serves all partitions.

        The topic is deleted at the end of the `with` statement.

        Apache Kafka responds to CreateTopics before it serves all partitions. An idempotent Java
        producer that starts too early can hang until its delivery timeout.
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
        """Run rounds with both brokers. The order of the brokers changes in every round.

        `one_round` returns the value of each quantity by name. The results of the first `warm_ups`
        rounds are not used.
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
    text = ", ".join(f"{name} {value:.4g}" for name, value in sample.items())
    print(f"{bench:16} {round_name:8} {contender.broker.name:20} {text}", flush=True)


class CpuMeter:
    """Counts the processor seconds of a broker since the meter was created."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._start = broker.cpu_seconds()

    def seconds(self) -> float:
        """Return the user and system time so far, in seconds."""
        return self._broker.cpu_seconds() - self._start
