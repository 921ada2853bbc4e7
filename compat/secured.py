"""Clients on a secured node, each with the file of settings that `odradek secure init` wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.clients import Client, go_program
from compat.driver import Driver, Record
from compat.lab.apache_kafka import LOGGING, SINGLE_NODE, BriefApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.dialogue import DialogueError, Refused
from compat.lab.odradek_node import OdradekNode
from compat.scenarios.stage import equal, holds

FILES = {
    "java": "client.properties",
    "librdkafka": "librdkafka.properties",
    "franz-go": "librdkafka.properties",
}
"""The file of each client. The driver of franz-go takes the user, the password and the certificate
of the authority from librdkafka's file, as a user would."""

VALUES = [b"one", b"two", b"x" * 50_000]


class Secured(Broker):
    """A broker with the files of `odradek secure init DIR`."""

    program = Path(sys.executable).with_name("odradek")

    @property
    def files(self) -> Path:
        """The directory with the certificates and settings."""
        return self.directory / "secured"

    def make_files(self) -> None:
        """Make the certificates and settings.

        Raises:
            BrokerFailed: `odradek secure init` has failed.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [self.program, "secure", "init", self.files, "--port", str(self.port)]
        done = subprocess.run(
            [str(each) for each in words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BrokerFailed(f"odradek secure init: {done.stderr.strip()}")

    def _serves(self) -> bool:
        words = [self.program, "topic", "list", "--command-config", self.files / FILES["java"]]
        done = subprocess.run([str(each) for each in words], capture_output=True, check=False)
        return done.returncode == 0


class SecuredApacheKafka(Secured, BriefApacheKafka):
    """Apache Kafka with the file `server.properties`, and a controller listener, which it needs."""

    name = "Apache Kafka with the files of odradek secure"

    @property
    def properties(self) -> Path:
        """The file of `odradek secure init`."""
        return self.files / "server.properties"

    def prepare(self) -> None:
        """Make the files, add the listener, and format the data directory."""
        self.make_files()
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        text = self.properties.read_text(encoding="utf-8")
        more = {
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller.removeprefix("CONTROLLER://"),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **SINGLE_NODE,
        }
        text = re.sub(r"(?m)^(listeners=.*)$", rf"\1,{controller}", text)
        text = re.sub(r"(?m)^(super.users=.*)$", r"\1;User:ANONYMOUS", text)
        # Its broker connects to itself.
        text = re.sub(
            r'required user_admin="(.*?)"',
            r'required username="admin" password="\1" user_admin="\1"',
            text,
        )
        text += "".join(f"{name}={value}\n" for name, value in more.items())
        self.properties.write_text(text, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
        self._format()


class SecuredNode(Secured, OdradekNode):
    """`odradek secure init DIR`, then `odradek serve --config DIR/server.properties`."""

    name = "a secured node of Odradek"
    program = Secured.program

    def prepare(self) -> None:
        """Make the files."""
        self.make_files()

    def command(self) -> Sequence[str]:
        """Return the command that starts the node."""
        return [str(self.program), "serve", "--config", str(self.files / "server.properties")]


def play(client: Client, node: Secured, logs: Path) -> None:
    """Write and read with the client; then try a wrong password.

    Raises:
        CheckFailed: the client could not do it, or the wrong password is accepted.
    """
    file = node.files / FILES[client.name]
    topic = f"secured-{client.name}"
    driver = _driver(client, node, logs, file)
    try:
        driver.create_topic(topic)
        driver.produce(topic, [Record(value) for value in VALUES])
        found = [record.value for record in driver.read(topic, len(VALUES))]
        equal(found[:2], VALUES[:2], "read over SASL_SSL")
        equal(len(found), len(VALUES), "number of records")
        if client.name == "franz-go":
            _play_go_example(node, driver)
    finally:
        driver.close()
    wrong = file.with_suffix(".wrong")
    text = file.read_text(encoding="utf-8")
    wrong.write_text(
        text.replace('password="', 'password="wrong-').replace(
            "sasl.password=", "sasl.password=wrong-"
        ),
        encoding="utf-8",
    )
    holds(not _may_read(client, node, logs, wrong, topic), "a wrong password is refused")


def _play_go_example(node: Secured, driver: Driver) -> None:
    """Run the program `client.go`, which writes a record and reads it, not an earlier one."""
    driver.create_topic("greetings")
    driver.produce("greetings", [Record(b"an earlier record")])
    program = node.directory / "client"
    go_program(node.files / "client.go", program)
    done = subprocess.run(
        [program], cwd=node.files, capture_output=True, text=True, check=False, timeout=60
    )
    equal(done.stdout, "hello from Go\n", f"what client.go prints ({done.stderr.strip()})")


def _may_read(client: Client, node: Secured, logs: Path, file: Path, topic: str) -> bool:
    try:
        driver = _driver(client, node, logs, file)
    except (DialogueError, Refused):
        return False
    try:
        return bool(driver.read(topic, 1, timeout_seconds=3.0))
    except (DialogueError, Refused):
        return False
    finally:
        driver.close(patience=0)


def _driver(client: Client, node: Secured, logs: Path, file: Path) -> Driver:
    environment = {"CLIENT_PROPERTIES": str(file)}
    return Driver(client.name, client.command(), node.port, logs, environment)
