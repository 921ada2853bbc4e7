"""A standalone worker in this process, and requests to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx

from odradek.connect.registry import installed_plugins
from odradek.connect.standalone import StandaloneWorker
from odradek.connectors.own import OWN

STRING = "org.apache.kafka.connect.storage.StringConverter"


class Got(NamedTuple):
    status: int
    body: Any
    location: str | None


class Lab:
    def __init__(self, bootstrap: str, folder: Path, *plugins: type, **settings: str) -> None:
        given = {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(folder / "offsets"),
            "listeners": "http://127.0.0.1:0",
            "offset.flush.interval.ms": "200",
            "task.host": "thread",
            "task.shutdown.graceful.timeout.ms": "60000",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.worker = StandaloneWorker(given, installed_plugins(*OWN, *plugins))
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.worker.port}", timeout=60)

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.worker.stop()

    def ask(self, method: str, path: str, body: Any = None) -> Got:
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        answer = self._client.request(method, path, content=data, headers=headers)
        found = json.loads(answer.content) if answer.content else None
        return Got(answer.status_code, found, answer.headers.get("location"))

    def text(self, path: str) -> str:
        return self._client.get(path).text

    def create(self, name: str, config: Mapping[str, object]) -> Got:
        return self.ask("POST", "/connectors", {"name": name, "config": dict(config)})

    def states(self, name: str) -> tuple[str, list[str]]:
        body = self.ask("GET", f"/connectors/{name}/status").body
        return body["connector"]["state"], [each["state"] for each in body["tasks"]]

    def until(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not is_done():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)


def error(status: int, message: str) -> Got:
    return Got(status, {"error_code": status, "message": message}, None)
