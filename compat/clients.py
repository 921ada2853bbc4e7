"""The clients: their requirements, and how their drivers are started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.lab import java, maven
from compat.lab.toolchain import CACHE, GO, NODE, absent, only_one, require

DRIVERS = Path(__file__).parent / "drivers"
NODE_FILES = (
    "package.json",
    "package-lock.json",
    "codecs.js",
    "driver.js",
    "member.js",
    "records.js",
)


@dataclass(frozen=True)
class Client:
    """One client library; `command` builds what it needs and gives the words that start it."""

    name: str
    """Its name in tables and options."""
    command: Callable[[], Sequence[str | Path]]
    """Takes no address: it is appended.

    Raises:
        Missing: its toolchain is not here, or cannot fetch what the driver needs.
        RuntimeError: the driver does not compile.
    """


def _java() -> Sequence[str | Path]:
    jars = maven.kafka_jars()
    classes = java.compiled(jars, DRIVERS / "java")
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1"]
    return java.command("ClientDriver", jars, classes, options=options)


def _next_java() -> Sequence[str | Path]:
    """Apache Kafka's next client, with the driver of the current one."""
    current = maven.kafka_jars()
    classes = java.compiled(current, DRIVERS / "java")
    others = [each for each in current if not each.name.startswith("kafka-clients-")]
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1"]
    jars = [*maven.next_client_jars(), *others]
    return java.command("ClientDriver", jars, classes, options=options)


def _python(module: str) -> Callable[[], Sequence[str | Path]]:
    return lambda: [sys.executable, "-m", f"compat.drivers.python.{module}"]


def _go() -> Sequence[str | Path]:
    return [_built("franz-go", DRIVERS / "go")]


def sarama() -> Path:
    """Return the program in `drivers/sarama`, which is not a driver of the scenarios.

    Raises:
        Missing: Go is not here, or cannot fetch Sarama.
        RuntimeError: Go could not build it.
    """
    return _built("sarama", DRIVERS / "sarama")


def _built(client: str, home: Path) -> Path:
    program = CACHE / "go" / f"{client}-driver"
    with only_one("go"):
        program.parent.mkdir(parents=True, exist_ok=True)
        go = require("go")
        if reason := _said_by_failed([go, "mod", "download"], home):
            raise absent(GO, f"Go could not fetch {client}: {reason}")
        go_program(".", program, home)
    return program


def go_program(source: Path | str, program: Path, home: Path = DRIVERS / "go") -> None:
    """Build the driver in Go ("."), or a file elsewhere, with the modules of the driver in `home`.

    Raises:
        RuntimeError: Go could not build it.
    """
    words: list[str | Path] = [require("go"), "build", "-trimpath", "-o", program, source]
    if reason := _said_by_failed(words, home):
        raise RuntimeError(f"Go could not build {source}: {reason}")


def _node() -> Sequence[str | Path]:
    node = require("node")
    home = CACHE / "node"
    lock = DRIVERS / "node" / "package-lock.json"
    with only_one("node"):
        home.mkdir(parents=True, exist_ok=True)
        installed = home / "INSTALLED"
        for name in NODE_FILES:
            shutil.copy(DRIVERS / "node" / name, home / name)
        if not installed.exists() or installed.read_bytes() != lock.read_bytes():
            words: list[str | Path] = [
                require("npm"),
                "ci",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
            ]
            if reason := _said_by_failed(words, home):
                raise absent(NODE, f"npm could not install kafkajs: {reason}")
            shutil.copy(lock, installed)
    return [node, home / "driver.js"]


def _said_by_failed(words: Sequence[str | Path], directory: Path) -> str | None:
    """The end of the output of a failed command; None if it succeeded."""
    finished = subprocess.run(
        [str(word) for word in words], cwd=directory, capture_output=True, text=True, check=False
    )
    if finished.returncode == 0:
        return None
    said = (finished.stderr or finished.stdout).strip().splitlines()[-3:]
    return " ".join(said) or f"exit code {finished.returncode}"


CLIENTS = (
    Client("java", _java),
    Client("librdkafka", _python("confluent_driver")),
    Client("aiokafka", _python("aiokafka_driver")),
    Client("kafka-python", _python("kafka_python_driver")),
    Client("franz-go", _go),
    Client("kafkajs", _node),
    Client("odradek", _python("odradek_driver")),
    Client("odradek-aio", _python("odradek_aio_driver")),
    Client("java-4.4", _next_java),
)

TOOLS = "java-tools"
"""Apache Kafka's command-line tools: no driver, checks of their own in `compat.tools`."""


def require_tools() -> None:
    """Check that the command-line tools can be run.

    Raises:
        Missing: they cannot.
    """
    require("java")
    require("javac")
