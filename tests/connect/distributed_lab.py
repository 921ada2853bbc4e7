"""Distributed workers in this process, and requests to them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

import httpx
from tests.connect.lab import STRING, Got

from odradek.connect.distributed import DistributedWorker
from odradek.connect.registry import installed_plugins
from odradek.connectors.own import OWN

PATIENCE_SECONDS = 60


def settings(bootstrap: str, group: str, **more: object) -> dict[str, str]:
    """Return the settings of a worker; topics have the name of the group."""
    given: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "group.id": group,
        "listeners": "http://127.0.0.1:0",
        "offset.flush.interval.ms": 200,
        "task.host": "thread",
        "scheduled.rebalance.max.delay.ms": 500,
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 6_000,
        "offset.storage.partitions": 2,
        "status.storage.partitions": 2,
    }
    for kind in ("config", "offset", "status"):
        given[f"{kind}.storage.topic"] = f"{group}-{kind}"
        given[f"{kind}.storage.replication.factor"] = 1
    given |= {name.replace("_", "."): value for name, value in more.items()}
    return {name: str(value) for name, value in given.items()}


def until(is_done: Callable[[], bool], what: object = "it") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        shown = what() if callable(what) else what
        assert time.monotonic() < deadline, f"{shown} did not happen in time"
        time.sleep(0.02)


class Caller:
    """Requests to one worker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = httpx.Client(base_url=address, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Got:
        data = None if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent["Content-Type"] = "application/json"
        answer = self._client.request(method, path, content=data, headers=sent)
        found = json.loads(answer.content) if answer.content else None
        return Got(answer.status_code, found, answer.headers.get("location"))

    def create(self, name: str, config: Mapping[str, object]) -> Got:
        return self.ask("POST", "/connectors", {"name": name, "config": dict(config)})

    def states(self, name: str) -> tuple[str, list[str]]:
        """Return the states of a connector and its tasks; NONE if nothing is known."""
        got = self.ask("GET", f"/connectors/{name}/status")
        if got.status != 200:
            return "NONE", []
        return got.body["connector"]["state"], [each["state"] for each in got.body["tasks"]]

    def runs(self, name: str, tasks: int = 1) -> bool:
        return self.states(name) == ("RUNNING", ["RUNNING"] * tasks)

    def owners(self, name: str) -> set[str]:
        """Return the workers that have tasks of a connector."""
        got = self.ask("GET", f"/connectors/{name}/status")
        return {each["worker_id"] for each in got.body["tasks"]}

    def is_healthy(self) -> bool:
        try:
            return self._client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self._client.close()


class InProcess(Caller):
    """A worker in this process."""

    def __init__(self, given: Mapping[str, str], *plugins: type) -> None:
        self.worker = DistributedWorker(given, installed_plugins(*OWN, *plugins))
        super().__init__(f"http://127.0.0.1:{self.worker.port}")

    def __enter__(self) -> Self:
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.worker.stop()
