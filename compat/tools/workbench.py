"""A workbench on which Apache Kafka's tools are run, and the checks that are made on it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from compat.access_tokens import allowed_urls
from compat.lab import java, maven
from compat.lab.broker import Broker
from compat.lab.dialogue import Dialogue
from compat.lab.wire_client import WireClient
from compat.scenarios.stage import CheckFailed, equal

TOOL_PACKAGE = "org.apache.kafka.tools."
JVM_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
TOOL_SECONDS = 75.0


@dataclass(frozen=True)
class Output:
    """What a tool left: its exit code and what it printed."""

    tool: str
    code: int
    out: str
    err: str

    def says(self, *patterns: str) -> Self:
        """Each pattern must be found in what was printed (regular expressions, line-wise)."""
        for pattern in patterns:
            if not re.search(pattern, self.out, re.MULTILINE):
                raise CheckFailed(f"{self.tool}: no {pattern!r} in {self.shown()}")
        return self

    def says_not(self, *patterns: str) -> Self:
        """None of the patterns may be found."""
        for pattern in patterns:
            if re.search(pattern, self.out, re.MULTILINE):
                raise CheckFailed(f"{self.tool}: {pattern!r} in {self.shown()}")
        return self

    def find(self, pattern: str) -> re.Match[str]:
        """The first match, which must be there."""
        found = re.search(pattern, self.out, re.MULTILINE)
        if found is None:
            raise CheckFailed(f"{self.tool}: no {pattern!r} in {self.shown()}")
        return found

    def lines(self) -> list[str]:
        """What was printed to standard output, without empty lines."""
        return [line for line in self.out.splitlines() if line.strip()]

    def shown(self) -> str:
        """Both outputs, shortened, for a message."""
        text = f"{self.out.strip()} {self.err.strip()}"
        return repr(text if len(text) <= 600 else f"{text[:600]}…")


class Workbench:
    """Runs tools against one broker: most in one warm JVM, some as processes of their own."""

    def __init__(self, broker: Broker, log_directory: Path) -> None:
        self.broker = broker
        self.directory = log_directory
        self.token_file = log_directory.absolute() / "access-token"
        """The file from which tools may read an access token."""
        self._jars = maven.kafka_jars()
        self._classes = java.compiled(self._jars)
        options = (*JVM_OPTIONS, allowed_urls(self.token_file.as_uri()))
        words = java.command("Tools", self._jars, self._classes, options=options)
        self._command = words
        self._jvm: Dialogue | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._jvm is not None:
            self._jvm.close()

    def try_tool(
        self, tool: str, *arguments: str, given: str = "", bootstrap: bool = True
    ) -> Output:
        """Run a tool with these arguments, behind the broker's address, whatever comes out."""
        if self._jvm is None or not self._jvm.alive():
            self._jvm = Dialogue(self._command, log=self.directory / "java-tools.log")
        name = tool if tool.startswith("kafka.") else TOOL_PACKAGE + tool
        address = ["--bootstrap-server", self.broker.bootstrap] if bootstrap else []
        words = [*address, *arguments]
        done = self._jvm.ask("run", TOOL_SECONDS, tool=name, arguments=words, input=given)
        return Output(tool.rsplit(".", 1)[-1], done["code"], done["out"], done["err"])

    def tool(self, tool: str, *arguments: str, given: str = "", bootstrap: bool = True) -> Output:
        """Run a tool, which must end with code 0."""
        output = self.try_tool(tool, *arguments, given=given, bootstrap=bootstrap)
        equal(output.code, 0, f"exit code of {output.tool}, which said {output.shown()}")
        return output

    def broker_id(self) -> int:
        """The node id of the broker."""
        with WireClient(self.broker.port) as wire:
            node_id: int = wire.metadata().brokers[0].node_id
            return node_id

    def topic(self, name: str, partitions: int = 1, *more: str) -> str:
        """A new topic, made by TopicCommand."""
        words = ["--create", "--topic", name, "--partitions", str(partitions), *more]
        self.tool("TopicCommand", *words).says(f"Created topic {re.escape(name)}")
        return name

    def produce(self, topic: str, *lines: str) -> None:
        """Write lines `key:value` with ConsoleProducer."""
        words = ["--topic", topic, "--reader-property", "parse.key=true"]
        words += ["--reader-property", "key.separator=:"]
        self.tool("ConsoleProducer", *words, given="".join(f"{line}\n" for line in lines))

    def reads_log(self, topic: str, formatter: str) -> Output:
        """All of an internal topic, in the words of one of Apache Kafka's formatters."""
        return self.try_tool(
            "consumer.ConsoleConsumer",
            *("--topic", topic, "--from-beginning", "--timeout-ms", "4000"),
            *("--formatter", f"{TOOL_PACKAGE}consumer.{formatter}"),
        )

    def file(self, name: str, text: str) -> str:
        """A file for a tool to read; its path."""
        path = self.directory / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def start(self, tool: str, *arguments: str) -> subprocess.Popen[str]:
        """A tool as a process of its own, for those that run until they are told to stop."""
        words = java.command(TOOL_PACKAGE + tool, self._jars, options=JVM_OPTIONS)
        return subprocess.Popen(
            [*words, "--bootstrap-server", self.broker.bootstrap, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


@dataclass(frozen=True)
class ToolCheck:
    """One tool, or one side of it."""

    name: str
    play: Callable[[Workbench], None]
    description: str


TOOL_CHECKS: list[ToolCheck] = []


def check(name: str) -> Callable[[Callable[[Workbench], None]], Callable[[Workbench], None]]:
    """Put a function among the checks; the first line of its docstring describes it."""

    def register(play: Callable[[Workbench], None]) -> Callable[[Workbench], None]:
        description = (play.__doc__ or "").strip().splitlines()[0]
        TOOL_CHECKS.append(ToolCheck(name, play, description))
        return play

    return register
