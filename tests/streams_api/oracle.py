"""Runs Kafka Streams' TopologyTestDriver in a JVM (java/TopologyOracle.java).

A request has `settings`, a `topology` (a list of operators; `from` are places in it) and a `history`:
`[topic, key, value, time, headers]` or `[milliseconds]` by which the clock advances.
"""

from __future__ import annotations

import json
from pathlib import Path

from compat.lab.java import command, compiled
from compat.lab.maven import KAFKA_VERSION, jars, kafka_jars
from tests.support.child import Child

ARTIFACTS = (
    f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
    "org.slf4j:slf4j-nop:1.7.36",
)
SETTINGS = {"cache": 0, "idle": 0, "emit": 0, "optimize": "none", "in_memory": True}


class TopologyOracle:
    """The running program. Call `close` at the end.

    Raises:
        Missing: Java or Maven is not installed.
    """

    def __init__(self, state: Path) -> None:
        found = jars(f"kafka-streams-test-utils-{KAFKA_VERSION}", ARTIFACTS)
        classes = compiled([*found, *kafka_jars()], Path(__file__).with_name("java"))
        options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx600m")
        words = command(
            "TopologyOracle", found, classes, options=(*options, f"-Dstate.dir={state}")
        )
        self._process = Child(words, talks=True, hears=True)

    def ask(self, requests: list[dict]) -> list[dict]:
        """Return the answers to requests. A refused one has the key `error`."""
        answers = []
        for request in requests:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, f"the JVM is gone: {self._process.last_words}"
            answers.append(json.loads(line))
        return answers

    def close(self) -> None:
        """End the program."""
        self._process.finish(30)
        self._process.close()
