"""Runs the scenarios: every client in a separate thread, all with one broker.

There are four phases: each client writes for the others and runs its scenarios; each client reads
the records of the others; clients with a common assignment strategy form one group; clients log in
with right and wrong credentials. Apache Kafka's command-line tools run during the first phase.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat import authenticated, matrix, mixed_group, secured, secured_tools
from compat.clients import CLIENTS, TOOLS, Client, require_tools
from compat.driver import Driver
from compat.lab.broker import Broker
from compat.lab.dialogue import DialogueError, Refused, Unsupported
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import CACHE, Missing, RequiredMissing
from compat.logins import sessions
from compat.logins.node import LoginNode
from compat.logins.play import compare, log_in
from compat.logins.table import CLIENTS as LOGIN_CLIENTS
from compat.logins.table import ROWS, Row
from compat.results import FAILED, PASSED, SKIPPED, Outcome, Results
from compat.scenarios import SCENARIOS, CheckFailed, Scenario, Stage
from compat.tools.workbench import Workbench

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "message.max.bytes": "1048588",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    **authenticated.SETTINGS,
}
"""The settings of the broker; without the initial delay, to save time."""

LOGS = CACHE / "compat-logs"
"""The standard error of the drivers of the last run."""

WRITES = "writes for the others"
MATRIX = "reads what {} wrote"
MIXED_GROUP = "one group of all"
BOTH_PROTOCOLS = "one group of both protocols"
SECURED = "a secured node"
SECURED_TOOLS = "tools on a secured node"
LOGIN = "login: {}"
SESSIONS = {
    "re-authentication": sessions.renew,
    "re-authentication with a changed password": sessions.refuse,
}


class Run:
    """One run of the suite against one running broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        clients: Sequence[str],
        wanted: Callable[[str], bool],
        jobs: int,
    ) -> None:
        self.broker = broker
        self.wanted = wanted
        self.jobs = jobs
        self.clients = [client for client in CLIENTS if client.name in clients]
        self.with_tools = TOOLS in clients
        self.results = Results(broker.name)
        self._logs = LOGS
        shutil.rmtree(LOGS, ignore_errors=True)
        LOGS.mkdir(parents=True)
        self._drivers: dict[str, Driver] = {}
        self._writers: list[str] = []
        """The clients that have written for the others."""
        self._lock = threading.Lock()

    def play(self) -> Results:
        """Run all phases; stop every driver that was started."""
        try:
            with ThreadPoolExecutor(self.jobs) as pool:
                parts = [pool.submit(self._alone, client) for client in self.clients]
                if self.with_tools:
                    parts.insert(0, pool.submit(self._tools))
                for part in parts:
                    part.result()
                names = [each.name for each in self.clients if each.name in self._drivers]
                for part in [pool.submit(self._reads, name) for name in names]:
                    part.result()
            drivers = [self._drivers[name] for name in names if name in self._drivers]
            if len(drivers) > 1 and self.wanted(MIXED_GROUP):
                self._record("all", MIXED_GROUP, lambda: mixed_group.play(drivers))
            if len(drivers) > 1 and self.wanted(BOTH_PROTOCOLS):
                self._record("all", BOTH_PROTOCOLS, lambda: mixed_group.play_both(drivers))
            self._secured()
            self._logins()
        finally:
            for driver in self._drivers.values():
                driver.close()
        return self.results

    def _secured(self) -> None:
        clients = [each for each in self.clients if each.name in secured.FILES]
        if not self.wanted(SECURED):
            clients = []
        with_tools = self.with_tools and self.wanted(SECURED_TOOLS)
        if not clients and not with_tools:
            return
        ours = isinstance(self.broker, OdradekNode)
        with secured.SecuredNode() if ours else secured.SecuredApacheKafka() as node:
            for client in clients:
                self._record(client.name, SECURED, lambda c=client: secured.play(c, node, LOGS))  # type: ignore[misc]
            if with_tools:
                with Workbench(node, self._logs) as bench:
                    self._record(TOOLS, SECURED_TOOLS, lambda: secured_tools.play(node, bench))

    def _logins(self) -> None:
        rows = [row for row in ROWS if self.wanted(LOGIN.format(row.name))]
        checks = [each for each in SESSIONS if self.wanted(each)]
        names = [each for each in self._drivers if each in {*LOGIN_CLIENTS, *sessions.CLIENTS}]
        if not (rows or checks) or not names:
            return
        node = LoginNode(type(self.broker), self._logs / "logins")
        with node, ThreadPoolExecutor(self.jobs) as pool:
            for part in [pool.submit(self._logins_of, name, rows, checks, node) for name in names]:
                part.result()

    def _logins_of(
        self, name: str, rows: Sequence[Row], checks: Sequence[str], node: LoginNode
    ) -> None:
        for check in checks if name in sessions.CLIENTS else ():

            def use(check: str = check) -> None:
                SESSIONS[check](self._drivers[name], node)

            if name in self._drivers:
                self._record(name, check, use)
        for row in rows if name in LOGIN_CLIENTS else ():

            def play(row: Row = row) -> None:
                said = log_in(self._drivers[name], node, row)
                compare(row, name, said, node.broker.name)

            if name in self._drivers:
                self._record(name, LOGIN.format(row.name), play)

    def _alone(self, client: Client) -> None:
        scenarios = [each for each in SCENARIOS if self.wanted(each.name)]
        try:
            command = client.command()
        except Missing as reason:
            for each in scenarios:
                self.results.add(Outcome(client.name, each.name, SKIPPED, reason=str(reason)))
            return
        except RuntimeError as error:
            self.results.add(Outcome(client.name, "driver is built", FAILED, reason=str(error)))
            return
        if not self._restart(client.name, command):
            return
        if self.wanted(WRITES):
            self._record(client.name, WRITES, lambda: self._write(client.name))
        for each in scenarios:
            if client.name not in self._drivers and not self._restart(client.name, command):
                return
            self._scenario(client.name, each, command)

    def _scenario(self, client: str, scenario: Scenario, command: Sequence[str | Path]) -> None:
        def start() -> Driver:
            return Driver(client, command, self.broker.port, self._logs)

        stage = Stage(self._drivers[client], scenario.name.replace(" ", "-"), start)

        def play() -> None:
            try:
                scenario.play(stage)
            finally:
                stage.close()

        self._record(client, scenario.name, play)

    def _restart(self, client: str, command: Sequence[str | Path]) -> bool:
        started = time.monotonic()
        try:
            driver = Driver(client, command, self.broker.port, self._logs)
        except (DialogueError, Refused) as error:
            seconds = time.monotonic() - started
            self.results.add(Outcome(client, "driver starts", FAILED, seconds, str(error)))
            return False
        with self._lock:
            self._drivers[client] = driver
            self.results.versions[client] = driver.version
        return True

    def _write(self, client: str) -> None:
        matrix.write(self._drivers[client])
        with self._lock:
            self._writers.append(client)

    def _reads(self, client: str) -> None:
        for writer in self._writers:
            name = MATRIX.format(writer)
            if {client, writer} <= self._drivers.keys() and self.wanted(name):
                reader, other = self._drivers[client], self._drivers[writer]
                self._record(client, name, lambda r=reader, o=other: matrix.read(r, o))  # type: ignore[misc]

    def _tools(self) -> None:
        from compat.tools import TOOL_CHECKS

        checks = [each for each in TOOL_CHECKS if self.wanted(each.name)]
        try:
            require_tools()
        except Missing as reason:
            for each in checks:
                self.results.add(Outcome(TOOLS, each.name, SKIPPED, reason=str(reason)))
            return
        except RequiredMissing as error:
            self.results.add(Outcome(TOOLS, "tools can be run", FAILED, reason=str(error)))
            return
        with Workbench(self.broker, self._logs) as workbench:
            for each in checks:
                self._record(TOOLS, each.name, lambda check=each: check.play(workbench))  # type: ignore[misc]

    def _record(self, client: str, name: str, play: Callable[[], None]) -> None:
        started = time.monotonic()
        status, reason = PASSED, ""
        try:
            play()
        except (Unsupported, Missing) as why:
            status, reason = SKIPPED, str(why)
        except DialogueError as error:
            status, reason = FAILED, str(error)
            with self._lock:
                driver = self._drivers.pop(client, None)
            if driver is not None:
                driver.close(patience=0)
        except (CheckFailed, Refused, OSError, RuntimeError) as error:
            status, reason = FAILED, str(error) or repr(error)
        self.results.add(Outcome(client, name, status, time.monotonic() - started, reason))
