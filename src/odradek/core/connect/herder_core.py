"""What the parts of a herder's machine share: what it knows, and how it waits for an action."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.core.connect import herder_messages as m
from odradek.core.connect.assignor import Work
from odradek.core.connect.config_log import Config, ConfigLog, LogRecord, TargetState, TaskId
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.group_protocol import COMPATIBLE, EAGER, SESSIONED, Assignment
from odradek.core.connect.leader import Leader
from odradek.core.connect.status_log import StatusLog

PROTOCOLS = {
    "sessioned": (SESSIONED, COMPATIBLE, EAGER),
    "compatible": (COMPATIBLE, EAGER),
    "eager": (EAGER,),
}
"""What a worker offers to its group, by the value of `connect.protocol`."""
NOT_WRITTEN = (
    "Failed to write to config topic; this may be due to a transient error and the request can be safely "
    "retried"
)


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """The settings of a worker that its herder needs. `url` is that of its REST API."""

    url: str
    worker_id: str
    protocol: str = "sessioned"
    sync_timeout_ms: int = 3_000
    delay_ms_max: int = 300_000
    key_ttl_ms: int = 3_600_000
    key_algorithm: str = "HmacSHA256"


@dataclass(frozen=True, slots=True)
class Sleep:
    """The procedure goes on at this time."""

    until_ms: int


Wait = Sleep | int | None
"""What the procedure waits for: a time, an action with this token, or any event."""
Steps = Generator[Wait, Exception | None, Any]


class HerderCore:
    """See the module."""

    def __init__(
        self,
        settings: HerderSettings,
        statuses: StatusLog,
        is_source: Callable[[Config], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`statuses` is only read. `is_source` tells whether a configuration is that of a source."""
        self.log = ConfigLog()
        self.settings = settings
        self.stage = "awaiting startup"
        """What the procedure does; empty if it waits for events."""
        self.assignment: Assignment | None = None
        """What this worker has got, with what it had before."""
        self.running = Work()
        """What was started here."""
        self.is_member = False
        """Whether the worker is in the last generation that it knows of."""
        self.protocol = PROTOCOLS[settings.protocol][0]
        """The protocol of the group."""
        self._statuses = statuses
        self._is_source = is_source
        self._random_bytes = random_bytes
        self._leader = Leader(settings.delay_ms_max)
        self._member_id = ""
        self._now_ms = 0
        self._out: list[m.Action] = []
        self._tokens = 0
        self._must_claim = False
        """Whether this worker leads, but another one may have its privilege to write."""
        self._generation = -1

    @property
    def generation(self) -> int:
        """The last completed generation."""
        return self._generation

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group."""
        found = self.assignment
        return found is not None and self.is_member and found.leader == self._member_id

    @property
    def leader_url(self) -> str | None:
        """The address of the leader; None if it is not known."""
        return None if self.assignment is None else self.assignment.leader_url or None

    # -- waiting --------------------------------------------------------------------------------

    def _do(self, stage: str, make: Callable[[int], m.Action]) -> Steps:
        """Let an action be done, and wait for it.

        Raises:
            ConnectError: it has failed.
        """
        self.stage = stage
        self._tokens += 1
        self._out.append(make(self._tokens))
        error = yield self._tokens
        self.stage = ""
        if isinstance(error, ConnectError):
            raise error
        if error is not None:
            raise ConnectError(str(error)) from error

    def _sleep(self, duration_ms: int) -> Steps:
        self.stage = f"sleeping for a backoff duration of {duration_ms}ms"
        yield Sleep(self._now_ms + duration_ms)
        self.stage = ""

    def _read_to_end(self) -> Steps:
        yield from self._do(
            "reading to the end of the config topic",
            lambda token: m.ReadToEnd(token, self.settings.sync_timeout_ms),
        )

    def _write(self, stage: str, records: Sequence[LogRecord]) -> Steps:
        """Write what only the leader writes.

        Raises:
            ConnectError: it is not written, or that is not known.
        """
        try:
            yield from self._do(stage, lambda token: m.Write(token, records, is_privileged=True))
        except m.NotPrivilegedError as error:
            self._must_claim = True
            raise ConnectError(NOT_WRITTEN) from error

    def _write_plainly(
        self, stage: str, records: Sequence[LogRecord], *, reads_back: bool
    ) -> Steps:
        """Write what any worker writes."""
        yield from self._do(
            stage,
            lambda token: m.Write(token, records, is_privileged=False, reads_back=reads_back),
        )

    # -- work -----------------------------------------------------------------------------------

    def _start_connector(self, name: str, number: int | None = None) -> None:
        """Start a connector. If it was deleted, the next round takes it away."""
        config = self.log.config(name)
        if config is not None:
            state = self.log.target_state(name) or TargetState.STARTED
            self._out.append(m.StartConnector(name, config, state, number))

    def _start_task(self, task: TaskId, number: int | None = None) -> None:
        """Start a task. If its configuration was deleted, the next round takes it away."""
        connector = self.log.config(task.connector)
        config = self.log.task_config(task)
        if connector is not None and config is not None:
            state = self.log.target_state(task.connector) or TargetState.STARTED
            generation = self.log.task_generation(task.connector)
            self._out.append(m.StartTask(task, connector, config, state, generation, number))

    def _reply(self, number: int, value: Any = None) -> None:
        self._out.append(m.Reply(number, value))

    def _refuse(self, number: int, error: Exception) -> None:
        self._out.append(m.Reply(number, error=error))
