"""Distributed workers of Apache Kafka 4.3."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from compat.lab.maven import KAFKA_VERSION, jars, kafka_jars
from compat.lab.toolchain import Missing, require
from tests.connect.distributed_lab import Caller, settings
from tests.support.child import Child


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class JavaWorker:
    """A process. Its settings are those of `distributed_lab.settings`."""

    def __init__(self, folder: Path, bootstrap: str, group: str, **more: object) -> None:
        try:
            java = require("java")
            base = kafka_jars()
            connector = jars(
                "connect-file", (f"org.apache.kafka:connect-file:{KAFKA_VERSION}",), alone=True
            )
        except Missing as missing:
            pytest.skip(str(missing))
        self.port = free_port()
        address = f"http://127.0.0.1:{self.port}"
        given: Mapping[str, str] = {
            **settings(bootstrap, group, listeners=address, **more),
            "plugin.discovery": "service_load",
            "plugin.path": str(connector[0].parent),
        }
        file = folder / f"java-{self.port}.properties"
        file.write_text("".join(f"{n}={v}\n" for n, v in given.items() if n != "task.host"))
        class_path = f"{base[0].parent}/*:{connector[0]}"
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = [java, "-Xmx300m", "-XX:TieredStopAtLevel=1", "-cp", class_path, main, file]
        self.child = Child(command, output=folder / f"java-{self.port}.log")
        self.caller = Caller(address)
        self.child.until(self.caller.is_healthy, 240)

    def stop(self) -> None:
        """Stop it properly."""
        self.caller.close()
        self.child.terminate()
        self.child.close()

    def close(self) -> None:
        """End it at once, if it still runs."""
        self.caller.close()
        self.child.close()
