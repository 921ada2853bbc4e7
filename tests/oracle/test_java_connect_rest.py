"""Apache Kafka's worker still gives the answers that are recorded. With RECORD=1 they are recorded again."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import httpx
import pytest
from compat.lab.maven import KAFKA_VERSION, jars, kafka_jars
from compat.lab.toolchain import Missing, require
from tests.connect.rest_script import RECORDED, answers, script, wait_a_moment
from tests.support.child import Child

from odradek.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.long]


def test_the_recorded_answers_are_java_s(tmp_path: Path) -> None:
    try:
        java = require("java")
        base = kafka_jars()
        connector = jars(
            "connect-file", (f"org.apache.kafka:connect-file:{KAFKA_VERSION}",), alone=True
        )
    except Missing as missing:
        pytest.skip(str(missing))
    address = f"http://127.0.0.1:{_free_port()}"
    string = "org.apache.kafka.connect.storage.StringConverter"
    with Broker() as broker:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "key.converter": string,
            "value.converter": string,
            "offset.storage.file.filename": tmp_path / "offsets",
            "listeners": address,
            "offset.flush.interval.ms": 200,
            "plugin.discovery": "service_load",
            "plugin.path": connector[0].parent,
        }
        file = tmp_path / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        class_path = f"{base[0].parent}/*:{connector[0]}"
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [java, "-Xmx300m", "-cp", class_path, main, file]
        with Child(command, output=tmp_path / "log") as child:
            _wait_until_healthy(address, child)
            found = answers(address, wait_a_moment)
    now = [[list(ask[:2]), answer] for ask, answer in zip(script(), found, strict=True)]
    if os.environ.get("RECORD"):
        lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in now)
        RECORDED.write_text(f"[\n{lines}\n]\n")
    assert now == json.loads(RECORDED.read_text())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_until_healthy(address: str, child: Child) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert child.runs, f"the worker has ended: {child.last_words}"
        try:
            if httpx.get(address + "/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise AssertionError("the worker did not start")
