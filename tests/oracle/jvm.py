"""Runs Apache Kafka's codecs in a JVM. One process, connected by pipes, serves all tests."""

from __future__ import annotations

import base64
import struct
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from compat.lab.maven import CONNECT, KAFKA_VERSION, jars, kafka_jars, next_jars
from compat.lab.toolchain import require
from tests.support.child import Child


class Refused(Exception):
    """Java threw an exception. The message has its text."""


def message_classes(paths: list[Path]) -> dict[str, str]:
    """Return the generated classes in the jars by the name of the message."""
    found: dict[str, str] = {}
    for path in paths:
        if not path.name.startswith("kafka"):
            continue
        with zipfile.ZipFile(path) as jar:
            for entry in jar.namelist():
                package, _, name = entry.removesuffix(".class").rpartition("/")
                generated = package.endswith(("/common/message", "/common/metadata", "/generated"))
                if entry.endswith(".class") and generated and "$" not in name:
                    found.setdefault(name, f"{package}/{name}".replace("/", "."))
    return found


def definitions() -> list[list[str]]:
    """Return the definitions of all settings as rows (see Definitions.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Definitions.java", [next_jars()[0].parent / "*"])
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return [line.split("\t") for line in run.stdout.splitlines()]


def valid(rows: list[tuple[str, str, str]]) -> list[bool]:
    """Return whether Apache Kafka accepts each value. A row has the kind of setting, name and value.

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Definitions.java", [next_jars()[0].parent / "*"])
    text = "".join("\t".join(row) + "\n" for row in rows)
    run = subprocess.run(
        [*command, "check"], input=text, check=True, capture_output=True, text=True, timeout=120
    )
    return [line == "true" for line in run.stdout.splitlines()]


def quotas(commands: list[tuple[str, ...]]) -> list[str]:
    """Return the answers of Apache Kafka's quotas to commands (see Quotas.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Quotas.java", [kafka_jars()[0].parent / "*"])
    text = "".join("\t".join(words) + "\n" for words in commands)
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=120
    )
    return run.stdout.splitlines()


def tokens(commands: list[tuple[str, ...]]) -> list[str]:
    """Return the answers of Apache Kafka's server side of OAUTHBEARER (see Tokens.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Tokens.java", [kafka_jars()[0].parent / "*"])
    text = "".join("\t".join(words) + "\n" for words in commands)
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=120
    )
    return run.stdout.splitlines()


def kerberos_users(lines: list[tuple[str, ...]]) -> list[str]:
    """Return the users of names of Kerberos in Apache Kafka (see Names.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Names.java", [kafka_jars()[0].parent / "*"])
    text = "".join("\t".join(words) + "\n" for words in lines)
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=120
    )
    return run.stdout.splitlines()


def rules(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return Java's results of patterns and of Apache Kafka's rules for names (see Rules.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Rules.java", [kafka_jars()[0].parent / "*"])
    text = "".join(
        "\t".join((kind, *(word.encode("utf-16-be", "surrogatepass").hex() for word in words)))
        + "\n"
        for kind, *words in rows
    )
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=600
    )
    return [
        "=" + bytes.fromhex(line[1:]).decode("utf-16-be", "surrogatepass")
        if line.startswith("=")
        else line
        for line in run.stdout.splitlines()
    ]


def assignments(lines: list[str]) -> list[str]:
    """Return the assignments of Apache Kafka's client-side assignors (see Assignors.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Assignors.java", [kafka_jars()[0].parent / "*"])
    run = subprocess.run(
        command,
        input="".join(each + "\n" for each in lines),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    return run.stdout.splitlines()


def connect(lines: Iterable[str]) -> list[str]:
    """Return what Kafka Connect's converters and transforms make of records (see Connect.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Connect.java", [kafka_jars()[0].parent / "*"])
    text = "".join(each + "\n" for each in lines)
    run = subprocess.run(
        command,
        input=text,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    return run.stdout.splitlines()


def connect_protocol(lines: Iterable[str]) -> list[str]:
    """Return how Kafka Connect writes messages of groups that it has read (see ConnectProtocol.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("ConnectProtocol.java", [kafka_jars()[0].parent / "*"])
    text = "".join(each + "\n" for each in lines)
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=300
    )
    return run.stdout.splitlines()


def mirror(lines: Iterable[Sequence[str]]) -> list[str]:
    """Return what MirrorMaker 2 makes of commands (see Mirror.java).

    Raises:
        Missing: Java or Maven is not installed.
    """
    found = jars(f"connect-{KAFKA_VERSION}", CONNECT)
    text = "".join(
        "\t".join(base64.b64encode(word.encode()).decode() for word in words) + "\n"
        for words in lines
    )
    run = subprocess.run(
        _command("Mirror.java", [found[0].parent / "*"]),
        input=text,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    return run.stdout.splitlines()


def formats(lines: list[tuple[str, ...]]) -> list[str]:
    """Run Apache Kafka's StorageTool for each list of words. Return "ok" or the error of each.

    Raises:
        Missing: Java or Maven is not installed.
    """
    command = _command("Formats.java", [next_jars()[0].parent / "*"])
    text = "".join("\t".join(words) + "\n" for words in lines)
    run = subprocess.run(
        command, input=text, check=True, capture_output=True, text=True, timeout=120
    )
    return run.stdout.splitlines()


def _command(program: str, class_path: list[Path]) -> list[str | Path]:
    """Return the command that compiles and runs a program in this directory."""
    require("javac")
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ":".join(map(str, class_path))]
    return [require("java"), *options, Path(__file__).with_name(program)]


class Oracle:
    """The running program. Call `close` at the end.

    Raises:
        Missing: Java or Maven is not installed.
    """

    def __init__(self) -> None:
        newest = next_jars()
        self._classes = message_classes(newest)
        command = _command("Codecs.java", [newest[0].parent / "*"])
        self._process = Child(command, talks=True, hears=True)

    def java_class(self, message: str) -> str:
        """Return the name of the generated class of a message."""
        data = self._classes.get(message + "Data")
        return data if data is not None else self._classes[message]

    def recode(self, message: str, version: int, encoded: bytes) -> bytes:
        """Let Java decode a message and encode it again. Return the bytes.

        Raises:
            Refused: Java cannot decode the bytes.
        """
        return self._ask("R", self.java_class(message), version, encoded)

    def generate(self, message: str, version: int, seed: int) -> bytes:
        """Let Java generate a random message, and return its encoding.

        Raises:
            Refused: Java cannot encode the message.
        """
        name = self.java_class(message)
        return self._ask("G", name, version, struct.pack(">q", seed))

    def close(self) -> None:
        """End the program."""
        self._process.finish(30)
        self._process.close()

    def _ask(self, operation: str, name: str, version: int, payload: bytes) -> bytes:
        encoded = name.encode()
        head = struct.pack(">cH", operation.encode(), len(encoded)) + encoded
        self._process.stdin.write(head + struct.pack(">hi", version, len(payload)) + payload)
        self._process.stdin.flush()
        answer = self._process.stdout
        head = answer.read(5)
        assert len(head) == 5, f"the JVM is gone: {self._process.last_words}"
        status, length = struct.unpack(">bi", head)
        data = answer.read(length)
        if status:
            raise Refused(data.decode())
        return data
