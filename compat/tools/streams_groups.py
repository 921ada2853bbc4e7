"""Kafka Streams with the Streams protocol (KIP-1071) and with classic groups, and their tools."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from compat.clients import DRIVERS
from compat.lab import java, maven
from compat.scenarios.stage import equal, eventually
from compat.tools.workbench import JVM_OPTIONS, Output, Workbench, check

TOOL = "streams.StreamsGroupCommand"
STREAMS = (
    f"org.apache.kafka:kafka-streams:{maven.KAFKA_VERSION}",
    "org.slf4j:slf4j-nop:1.7.36",
)
LINES = [f"the {word} and the {other}" for word in "abcdefgh" for other in "stuvwxyz"]
PARTITIONS = 3
PATIENCE_SECONDS = 120.0


class _Application:
    """A word count with some instances, which are processes."""

    def __init__(self, bench: Workbench, name: str, *settings: str) -> None:
        """`settings` are further settings of the instances, as NAME=VALUE."""
        self.bench = bench
        self._settings = settings
        self.name = f"tool-{name}"
        self.input = bench.topic(f"{self.name}-lines", PARTITIONS)
        self.output = bench.topic(f"{self.name}-counted")
        self.written = 0
        self.instances: dict[str, subprocess.Popen[str]] = {}
        jars = maven.jars(f"kafka-streams-{maven.KAFKA_VERSION}", STREAMS)
        lab = maven.kafka_jars()
        self._jars = jars
        self._classes = java.compiled([*lab, *jars], DRIVERS / "streams")

    def start(self, instance: str) -> None:
        """Start an instance."""
        words = java.command("WordCount", self._jars, self._classes, options=JVM_OPTIONS)
        words += self.bench.broker.bootstrap, self.name, self.input, self.output
        log = Path(self.bench.directory) / f"{self.name}-{instance}.log"
        state = Path(self.bench.directory) / f"{self.name}-{instance}-state"
        with log.open("w", encoding="utf-8") as file:
            self.instances[instance] = subprocess.Popen(
                [*words, str(state), *self._settings],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def kill(self, instance: str) -> None:
        """Kill an instance, which cannot tell anybody."""
        process = self.instances.pop(instance)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Stop all instances."""
        for process in self.instances.values():
            process.terminate()
        for process in self.instances.values():
            process.wait(timeout=PATIENCE_SECONDS)
        self.instances.clear()

    def write(self) -> None:
        """Write all lines once more."""
        self.bench.produce(self.input, *(f"{n}:{line}" for n, line in enumerate(LINES)))
        self.written += 1

    def counts(self) -> dict[str, int]:
        """The last count of each word, as transactions have committed it."""
        out = self.bench.try_tool(
            "consumer.ConsoleConsumer",
            *("--topic", self.output, "--from-beginning", "--timeout-ms", "3000"),
            *("--isolation-level", "read_committed"),
            *("--formatter-property", "print.key=true"),
        ).out
        return {
            word: int(count) for word, count in re.findall(r"^(\w+)\t(\d+)$", out, re.MULTILINE)
        }

    def expected(self) -> dict[str, int]:
        """The right counts."""
        words = Counter(word for line in LINES for word in line.split())
        return {word: count * self.written for word, count in words.items()}

    def await_counts(self) -> None:
        """Wait until every word that has been written is counted once."""
        eventually(self.counts, lambda found: found == self.expected(), "counts", PATIENCE_SECONDS)

    def await_members(self, count: int) -> None:
        """Wait until the group is stable with so many members."""
        eventually(
            lambda: self.tell("--state").out,
            lambda out: (
                re.search(rf"^{self.name} .*Stable +{count}$", out, re.MULTILINE) is not None
            ),
            f"a stable group of {count}",
            PATIENCE_SECONDS,
        )

    def tell(self, *words: str) -> Output:
        """What StreamsGroupCommand says of the group."""
        return self.bench.try_tool(TOOL, "--describe", "--group", self.name, *words)


@check("Streams word count")
def word_count(bench: Workbench) -> None:
    """Two instances count each word once, also when one of them is killed; the group is shown."""
    application = _Application(bench, "word-count")
    settings = ["--alter", "--entity-type", "groups", "--entity-name", application.name]
    added = "streams.session.timeout.ms=6000,streams.heartbeat.interval.ms=500"
    added += ",streams.num.standby.replicas=1"
    bench.tool("kafka.admin.ConfigCommand", *settings, "--add-config", added)
    try:
        application.start("one")
        application.write()
        application.await_counts()
        application.start("two")
        application.await_members(2)
        bench.tool(TOOL, "--list").says(rf"^{application.name}$")
        bench.tool(TOOL, "--list", "--state").says(rf"^{application.name} +Stable")
        bench.tool("GroupsCommand", "--list", "--streams").says(
            rf"^{application.name} +Streams +streams"
        )
        members = application.tell("--members", "--verbose")
        members.says(rf"^{application.name} .*ACTIVE:", r"STANDBY:")
        application.tell().says(rf"^{application.name} +{application.input} +0 ")
        application.write()
        application.await_counts()
        application.kill("one")
        application.write()
        application.await_counts()
        application.await_members(1)
        topics = bench.tool("TopicCommand", "--list").lines()
        internal = sorted(each for each in topics if each.startswith(f"{application.name}-words"))
        equal(internal, [f"{application.name}-words-repartition"], "repartition topics")
        bench.tool(
            "TopicCommand", "--describe", "--topic", f"{application.name}-counts-changelog"
        ).says(rf"PartitionCount: {PARTITIONS}", r"cleanup.policy=compact")
    finally:
        application.close()
    bench.try_tool(TOOL, "--delete", "--group", application.name).says_not(r"^Error")


@check("Streams word count, classic group")
def word_count_classic(bench: Workbench) -> None:
    """The same with the classic protocol, and the offsets and topics are reset at the end."""
    settings = ("group.protocol=classic", "session.timeout.ms=6000", "num.standby.replicas=1")
    application = _Application(bench, "word-count-classic", *settings)
    group = ("--describe", "--group", application.name, "--state")

    def is_stable(members: int) -> None:
        eventually(
            lambda: bench.try_tool("consumer.group.ConsumerGroupCommand", *group).out,
            lambda out: re.search(rf"stream +Stable +{members}\b", out) is not None,
            f"a stable group of {members}",
            PATIENCE_SECONDS,
        )

    try:
        application.start("one")
        application.write()
        application.await_counts()
        application.start("two")
        is_stable(2)
        application.write()
        application.await_counts()
        application.kill("one")
        application.write()
        application.await_counts()
        is_stable(1)
    finally:
        application.close()
    # With the classic protocol, Streams does not leave the group when it is closed.
    named = ("--application-id", application.name, "--input-topics", application.input)
    bench.tool("StreamsResetter", *named, "--force").says(r"Done\.")
    topics = bench.tool("TopicCommand", "--list").lines()
    internal = re.compile(rf"{application.name}-.*-(repartition|changelog)")
    equal([each for each in topics if internal.fullmatch(each)], [], "internal topics")
    offsets = ("--describe", "--group", application.name, "--offsets")
    bench.tool("consumer.group.ConsumerGroupCommand", *offsets).says(
        rf"^{application.name} +{application.input} +0 +0 "
    )
