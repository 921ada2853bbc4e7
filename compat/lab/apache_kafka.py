"""Runs Apache Kafka 4.3.0 or 4.4.0, with broker and controller in one process, as its start script does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.lab import java
from compat.lab.broker import Broker
from compat.lab.maven import KAFKA_VERSION, NEXT_VERSION, kafka_jars, next_jars
from compat.lab.toolchain import free_port, require
from odradek.model import uuids

JVM_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The options that bin/kafka-server-start.sh and bin/kafka-run-class.sh set for heap and GC."""

BRIEF_JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For brokers that run for seconds or minutes. A start needs half the processor time."""

LOGGING = """\
status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
"""

SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class ApacheKafka(Broker):
    """A single Apache Kafka node in combined mode.

    Raises:
        Missing: Java is not installed, or the jars cannot be fetched.
    """

    name = f"Apache Kafka {KAFKA_VERSION}"
    jvm_options: Sequence[str] = JVM_OPTIONS
    format_options: Sequence[str] = ()

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        port: int | None = None,
        listeners: Sequence[str] = (),
    ) -> None:
        require("java")
        self._jars = self.find_jars()
        super().__init__(settings=settings, directory=directory, port=port, listeners=listeners)
        self._controller_port = free_port()

    @staticmethod
    def find_jars() -> list[Path]:
        """Return the jars of the node's version."""
        return kafka_jars()

    @property
    def properties(self) -> Path:
        """The path of the configuration file."""
        return self.directory / "server.properties"

    def prepare(self) -> None:
        """Write the configuration and format the data directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        controller = f"127.0.0.1:{self._controller_port}"
        listeners = ",".join(
            (f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://{controller}", *self.listeners)
        )
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **SINGLE_NODE,
            **self.settings,
        }
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.properties.write_text(lines, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        if not (self.data / "meta.properties").exists():
            self._format()

    def command(self) -> Sequence[str]:
        """Return the command that runs `kafka.Kafka` with the flags of the start script."""
        return [*self._java("kafka.Kafka", self.jvm_options), str(self.properties)]

    def described(self) -> dict[str, object]:
        """Return the versions of Kafka and Java, the JVM options and the settings."""
        said = subprocess.run(
            [require("java"), "-version"], capture_output=True, text=True, check=False
        )
        return {
            "name": self.name,
            "java": said.stderr.splitlines()[0],
            "jvm_options": list(self.jvm_options),
            "settings": self.settings,
        }

    def _format(self) -> None:
        tool = self._java("kafka.tools.StorageTool", ("-Xmx128m", "-XX:TieredStopAtLevel=1"))
        identity = uuids.to_text(uuids.make(b"\0" + os.urandom(15)))  # "-" would begin an option
        words = ["format", "--standalone", "-t", identity, "-c", str(self.properties)]
        words += self.format_options
        subprocess.run([*tool, *words], capture_output=True, text=True, check=True)

    def _java(self, main_class: str, options: Sequence[str]) -> list[str]:
        # Without this property, a broker reads no keys of an issuer of tokens.
        urls = [value for name, value in self.settings.items() if name.endswith("endpoint.url")]
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"
        logging = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"
        return java.command(main_class, self._jars, options=[*options, logging, allowed])


class BriefApacheKafka(ApacheKafka):
    """An `ApacheKafka` that starts quickly and is not fast."""

    jvm_options: Sequence[str] = BRIEF_JVM_OPTIONS


class NextApacheKafka(BriefApacheKafka):
    """A `BriefApacheKafka` of the next version."""

    name = f"Apache Kafka {NEXT_VERSION}"

    @staticmethod
    def find_jars() -> list[Path]:
        """Return the jars of the node's version."""
        return next_jars()
