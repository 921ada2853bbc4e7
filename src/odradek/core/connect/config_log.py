"""The topic with the configurations of a Connect cluster: its records, and the state that they make.

| key | value |
|---|---|
| `connector-NAME`, `task-NAME-N` | `{"properties": {…}}` |
| `commit-NAME` | `{"tasks": N}`: the task configurations since the last commit are in effect |
| `target-state-NAME` | `{"state": …, "state.v2": …}` |
| `tasks-fencing-NAME` | `{"task-count": N}`: earlier tasks of the source are fenced |
| `session-key`, `restart-connector-NAME`, `logger-cluster-NAME` | see the functions |

`ConfigLog` is changed only by `replay`. A worker that wants a change writes records, and reads them
back. A standalone worker replays its own records without writing them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from odradek.core.connect.java_text import json_bytes

Config = Mapping[str, str | None]


class TargetState(Enum):
    """What a user wants a connector to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
"""What a new connector can be told to do, by the value of `initial_state`."""


class TaskId(NamedTuple):
    """A task of a connector."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class LogRecord(NamedTuple):
    """A record to write. A value of None is a tombstone."""

    key: str
    value: bytes | None


# -- records ----------------------------------------------------------------------------------


def connector_records(
    name: str, config: Config, initial_state: TargetState | None
) -> list[LogRecord]:
    """Return the records that create or change a connector."""
    before = [] if initial_state is None else [target_state_record(name, initial_state)]
    return [*before, LogRecord(f"connector-{name}", json_bytes({"properties": dict(config)}))]


def removal_records(name: str) -> list[LogRecord]:
    """Return the records that delete a connector."""
    return [LogRecord(f"connector-{name}", None), LogRecord(f"target-state-{name}", None)]


def target_state_record(name: str, state: TargetState) -> LogRecord:
    """Return the record of what a connector shall do. Old workers read STOPPED as PAUSED."""
    old = TargetState.PAUSED if state == TargetState.STOPPED else state
    value = {"state": old.value, "state.v2": state.value}
    return LogRecord(f"target-state-{name}", json_bytes(value))


def task_records(name: str, configs: Iterable[Config]) -> list[LogRecord]:
    """Return the records of the tasks of a connector, with the commit."""
    records = [
        LogRecord(f"task-{name}-{index}", json_bytes({"properties": dict(config)}))
        for index, config in enumerate(configs)
    ]
    return [*records, LogRecord(f"commit-{name}", json_bytes({"tasks": len(records)}))]


def fencing_record(name: str, task_count: int) -> LogRecord:
    """Return the record that earlier tasks of a source are fenced."""
    return LogRecord(f"tasks-fencing-{name}", json_bytes({"task-count": task_count}))


def session_key_record(key: SessionKey) -> LogRecord:
    """Return the record of the key that signs requests between workers."""
    value = {
        "key": base64.b64encode(key.secret).decode(),
        "algorithm": key.algorithm,
        "creation-timestamp": key.created_ms,
    }
    return LogRecord("session-key", json_bytes(value))


def restart_record(request: RestartRequest) -> LogRecord:
    """Return the record that asks all workers to restart their part of a connector."""
    value = {"include-tasks": request.includes_tasks, "only-failed": request.only_failed}
    return LogRecord(f"restart-connector-{request.connector}", json_bytes(value))


def logger_record(name: str, level: str) -> LogRecord:
    """Return the record that sets the level of a logger on all workers."""
    return LogRecord(f"logger-cluster-{name}", json_bytes({"level": level}))


# -- state ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that signs requests between workers."""

    secret: bytes
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector, its tasks, or only those that have failed."""

    connector: str
    only_failed: bool
    includes_tasks: bool

    @property
    def is_plain(self) -> bool:
        """Whether only the connector is restarted, whatever its state."""
        return not self.only_failed and not self.includes_tasks

    @property
    def impact(self) -> int:
        """How much is restarted; of several requests, the one with the highest impact counts."""
        return 2 * (not self.only_failed) + self.includes_tasks


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector was created, or has another configuration."""

    name: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """The tasks of a connector have other configurations."""

    name: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class StateChanged:
    """A connector shall do something else."""

    name: str


@dataclass(frozen=True, slots=True)
class RestartAsked:
    """Somebody asks for a restart."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """Requests are signed with another key."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class LoggerChanged:
    """The level of a logger is set on all workers."""

    name: str
    level: str


ConfigEvent = (
    ConnectorChanged
    | ConnectorRemoved
    | TasksChanged
    | StateChanged
    | RestartAsked
    | SessionKeyChanged
    | LoggerChanged
)


@dataclass(slots=True)
class _Entry:
    """What is known about a connector."""

    config: dict[str, str | None] | None = None
    state: TargetState = TargetState.STARTED
    tasks: dict[int, dict[str, str | None]] = field(default_factory=dict)
    deferred: dict[int, dict[str, str | None]] = field(default_factory=dict)
    task_count: int = 0
    applied: dict[str, str | None] | None = None
    """The configuration for which the tasks were made."""
    generation: int = -1
    is_inconsistent: bool = False
    fenced_count: int | None = None
    must_fence: bool = False


class ConfigLog:
    """The state of the topic up to an offset."""

    def __init__(self) -> None:
        self.offset = -1
        """The offset after the last record; -1 before the first."""
        self.session_key: SessionKey | None = None
        self.ignored = 0
        """How many records could not be read."""
        self._entries: dict[str, _Entry] = {}

    # -- what is known --------------------------------------------------------------------------

    def connectors(self) -> list[str]:
        """Return the names of the connectors."""
        entries = list(self._entries.items())  # another thread may replay meanwhile
        return [name for name, each in entries if each.config is not None]

    def __contains__(self, name: str) -> bool:
        entry = self._entries.get(name)
        return entry is not None and entry.config is not None

    def config(self, name: str) -> dict[str, str | None] | None:
        """Return the configuration of a connector; None if there is no such connector."""
        entry = self._entries.get(name)
        return None if entry is None else entry.config

    def target_state(self, name: str) -> TargetState | None:
        """Return what a connector shall do; None if there is no such connector."""
        return self._entries[name].state if name in self else None

    def tasks(self, name: str) -> list[TaskId]:
        """Return the tasks of a connector; none while their configurations are incomplete."""
        entry = self._entries.get(name)
        if entry is None or entry.config is None or entry.is_inconsistent:
            return []
        return [TaskId(name, index) for index in range(entry.task_count)]

    def task_count(self, name: str) -> int:
        """Return the number of tasks of the last commit."""
        entry = self._entries.get(name)
        return 0 if entry is None else entry.task_count

    def task_config(self, task: TaskId) -> dict[str, str | None] | None:
        """Return the configuration of a task."""
        entry = self._entries.get(task.connector)
        if entry is None or entry.is_inconsistent or task.task >= entry.task_count:
            return None
        return entry.tasks.get(task.task)

    def is_inconsistent(self, name: str) -> bool:
        """Whether task configurations are missing, so that the connector must make them again."""
        entry = self._entries.get(name)
        return entry is not None and entry.is_inconsistent

    def task_generation(self, name: str) -> int:
        """Return the number of the commit of the present task configurations; -1 before the first."""
        entry = self._entries.get(name)
        return -1 if entry is None else entry.generation

    def must_fence(self, name: str) -> bool:
        """Whether earlier tasks must be fenced before the present ones start."""
        entry = self._entries.get(name)
        return entry is not None and entry.must_fence

    def fenced_count(self, name: str) -> int | None:
        """Return the number of tasks of the last fencing; None before the first."""
        entry = self._entries.get(name)
        return None if entry is None else entry.fenced_count

    def needs_tasks(self, name: str, configs: list[Config]) -> bool:
        """Whether these configurations of tasks must be written, because something is different."""
        entry = self._entries.get(name)
        if entry is None or entry.config is None:
            return False
        present = [self.task_config(each) for each in self.tasks(name)]
        return (
            entry.is_inconsistent
            or [dict(each) for each in configs] != present
            or entry.applied != entry.config
        )

    # -- replay ---------------------------------------------------------------------------------

    def replay(self, key: str, value: bytes | None, offset: int) -> list[ConfigEvent]:
        """Apply a record, and return what it changes."""
        self.offset = offset + 1
        parsed = _parsed(value)
        if value is not None and parsed is None:
            self.ignored += 1
            return []
        for prefix, apply in (
            ("target-state-", self._target_state),
            ("connector-", self._connector),
            ("task-", self._task),
            ("commit-", self._commit),
            ("restart-connector-", self._restart),
            ("tasks-fencing-", self._fencing),
            ("logger-cluster-", self._logger),
        ):
            if key.startswith(prefix):
                return apply(key.removeprefix(prefix), parsed)
        if key == "session-key":
            return self._session_key(parsed)
        self.ignored += 1
        return []

    def _entry(self, name: str) -> _Entry:
        return self._entries.setdefault(name, _Entry())

    def _target_state(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        entry = self._entry(name)
        before = entry.state
        if value is None:
            self._entries[name] = replace(entry, state=TargetState.STARTED)
            return []
        written = value.get("state.v2")
        if not isinstance(written, str):
            written = value.get("state")
        if not isinstance(written, str) or written not in TargetState.__members__:
            self.ignored += 1
            return []
        state = TargetState[written]
        self._entries[name] = replace(entry, state=state)
        return [StateChanged(name)] if entry.config is not None and state != before else []

    def _connector(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        if value is None:
            self._remove(name)
            return [ConnectorRemoved(name)]
        properties = _properties(value)
        if properties is None:
            self.ignored += 1
            return []
        entry = self._entry(name)
        is_new = entry.config is None
        self._entries[name] = replace(entry, config=properties)
        return [ConnectorChanged(name, is_new)]

    def _remove(self, name: str) -> None:
        """Forget a connector, but not its state, and not what was fenced: it may come again."""
        entry = self._entries.get(name)
        if entry is not None:
            self._entries[name] = replace(
                entry, config=None, tasks={}, deferred={}, task_count=0, applied=None
            )

    def _task(self, key: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        name, dash, number = key.rpartition("-")
        properties = None if value is None else _properties(value)
        if not dash or not number.isdecimal() or properties is None:
            self.ignored += 1
            return []
        self._entry(name).deferred[int(number)] = properties
        return []

    def _commit(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        entry = self._entries.get(name)
        if entry is None or entry.config is None:
            self._remove(name)
            return []
        count = None if value is None else value.get("tasks")
        if not isinstance(count, int) or isinstance(count, bool):
            self.ignored += 1
            return []
        deferred = dict(entry.deferred)
        # Compaction may have left more of them: those of tasks that are not configured any more.
        if not set(deferred) >= set(range(count)):
            self._entries[name] = replace(
                entry, deferred={}, task_count=count, is_inconsistent=True, must_fence=True
            )
            return [TasksChanged(name, ())]
        self._entries[name] = replace(
            entry,
            deferred={},
            tasks={**entry.tasks, **deferred},
            task_count=count,
            applied=dict(entry.config),
            generation=entry.generation + 1,
            is_inconsistent=False,
            must_fence=True,
        )
        return [TasksChanged(name, tuple(TaskId(name, each) for each in sorted(deferred)))]

    def _restart(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        if value is None:
            return []
        only_failed = value.get("only-failed") is True
        return [RestartAsked(RestartRequest(name, only_failed, value.get("include-tasks") is True))]

    def _fencing(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        count = None if value is None else value.get("task-count")
        if not isinstance(count, int) or isinstance(count, bool):
            self.ignored += 1
            return []
        self._entries[name] = replace(self._entry(name), fenced_count=count, must_fence=False)
        return []

    def _logger(self, name: str, value: dict[str, Any] | None) -> list[ConfigEvent]:
        level = None if value is None else value.get("level")
        return [LoggerChanged(name, level)] if isinstance(level, str) else []

    def _session_key(self, value: dict[str, Any] | None) -> list[ConfigEvent]:
        try:
            assert value is not None
            key = SessionKey(
                base64.b64decode(value["key"], validate=True),
                str(value["algorithm"]),
                int(value["creation-timestamp"]),
            )
        except (AssertionError, KeyError, TypeError, ValueError, binascii.Error):
            self.ignored += 1
            return []
        self.session_key = key
        return [SessionKeyChanged(key)]


def _parsed(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _properties(value: dict[str, Any]) -> dict[str, str | None] | None:
    found = value.get("properties")
    return found if isinstance(found, dict) else None
