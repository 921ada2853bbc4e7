"""The topic with the states of connectors and tasks: its records, and what is known from them.

A worker writes the state of what it runs. Two rules keep a slow worker from overwriting what a newer
one has written: a `safe` write is dropped if another worker has written with a later generation, and
readers ignore UNASSIGNED after RUNNING of the same or a later generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from odradek.core.connect.config_log import LogRecord, TaskId
from odradek.core.connect.java_text import json_bytes

UNASSIGNED, RUNNING, PAUSED, FAILED, DESTROYED, RESTARTING, STOPPED = (
    "UNASSIGNED",
    "RUNNING",
    "PAUSED",
    "FAILED",
    "DESTROYED",
    "RESTARTING",
    "STOPPED",
)
_STATES = (UNASSIGNED, RUNNING, PAUSED, FAILED, DESTROYED, RESTARTING, STOPPED)
_CONNECTOR, _TASK, _TOPIC = "status-connector-", "status-task-", "status-topic-"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or task, and the worker that wrote it."""

    state: str
    worker: str
    generation: int
    trace: str | None = None
    version: str | None = None


class TopicUse(NamedTuple):
    """A connector uses a topic. `discovered_ms` is when its task `task` first did."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


Subject = str | TaskId
"""A connector or a task."""


def status_record(subject: Subject, status: Status) -> LogRecord:
    """Return the record of a state. DESTROYED is a tombstone."""
    key = _key(subject)
    if status.state == DESTROYED:
        return LogRecord(key, None)
    value = {
        "state": status.state,
        "trace": status.trace,
        "worker_id": status.worker,
        "generation": status.generation,
        "version": status.version,
    }
    return LogRecord(key, json_bytes(value))


def _key(subject: Subject) -> str:
    if isinstance(subject, TaskId):
        return f"{_TASK}{subject.connector}-{subject.task}"
    return _CONNECTOR + subject


def topic_record(use: TopicUse) -> LogRecord:
    """Return the record of the use of a topic."""
    value = {
        "topic": {
            "name": use.topic,
            "connector": use.connector,
            "task": use.task,
            "discoverTimestamp": use.discovered_ms,
        }
    }
    return LogRecord(f"{_TOPIC}{use.topic}:connector-{use.connector}", json_bytes(value))


def no_topic_record(topic: str, connector: str) -> LogRecord:
    """Return the record that a connector does not use a topic."""
    return LogRecord(f"{_TOPIC}{topic}:connector-{connector}", None)


class StatusLog:
    """What is known about states."""

    def __init__(self) -> None:
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, TopicUse]] = {}

    def connector(self, name: str) -> Status | None:
        """Return the state of a connector."""
        return self._connectors.get(name)

    def connectors(self) -> list[str]:
        """Return the names of the connectors with a state."""
        return list(self._connectors)

    def task(self, task: TaskId) -> Status | None:
        """Return the state of a task."""
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, name: str) -> list[tuple[int, Status]]:
        """Return the states of the tasks of a connector, by number."""
        return sorted(self._tasks.get(name, {}).items())

    def all_tasks(self) -> Iterator[TaskId]:
        """Yield the tasks with a state. Another thread may replay meanwhile."""
        for name, tasks in list(self._tasks.items()):
            for number in list(tasks):
                yield TaskId(name, number)

    def topics(self, connector: str) -> list[TopicUse]:
        """Return the topics that a connector uses."""
        return list(self._topics.get(connector, {}).values())

    def uses(self, connector: str, topic: str) -> bool:
        """Return whether it is known that a connector uses a topic."""
        return topic in self._topics.get(connector, {})

    def of(self, subject: Subject) -> Status | None:
        """Return the state of a connector or a task."""
        return self.task(subject) if isinstance(subject, TaskId) else self.connector(subject)

    def may_write(self, subject: Subject, status: Status) -> bool:
        """Whether a safe write is in order: nobody newer has written."""
        known = self.of(subject)
        return (
            known is None or known.worker == status.worker or known.generation <= status.generation
        )

    def replay(self, key: str, value: bytes | None) -> None:
        """Apply a record. What cannot be read is ignored."""
        if key.startswith(_CONNECTOR):
            self._replay_status(key.removeprefix(_CONNECTOR), None, value)
        elif key.startswith(_TASK):
            name, _, number = key.removeprefix(_TASK).rpartition("-")
            if number.isdecimal():
                self._replay_status(name, int(number), value)
        elif key.startswith(_TOPIC):
            topic, _, connector = key.removeprefix(_TOPIC).partition(":connector-")
            self._replay_topic(topic, connector, value)

    def _replay_status(self, name: str, number: int | None, value: bytes | None) -> None:
        if value is None:
            if number is None:
                self._connectors.pop(name, None)
            else:
                self._tasks.get(name, {}).pop(number, None)
            return
        status = _status(value)
        if status is None:
            return
        known = self._connectors.get(name)
        if number is not None:
            known = self._tasks.get(name, {}).get(number)
        if (
            status.state == UNASSIGNED
            and known is not None
            and known.state == RUNNING
            and known.generation >= status.generation
        ):
            return
        if number is None:
            self._connectors[name] = status
        else:
            self._tasks.setdefault(name, {})[number] = status

    def _replay_topic(self, topic: str, connector: str, value: bytes | None) -> None:
        if value is None:
            self._topics.get(connector, {}).pop(topic, None)
            return
        found = _json(value).get("topic")
        if isinstance(found, dict):
            task, at = found.get("task"), found.get("discoverTimestamp")
            if isinstance(task, int) and isinstance(at, int):
                use = TopicUse(topic, connector, task, at)
                self._topics.setdefault(connector, {})[topic] = use


def _json(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _status(value: bytes) -> Status | None:
    found = _json(value)
    state, worker, generation = (found.get(each) for each in ("state", "worker_id", "generation"))
    if state not in _STATES or not isinstance(worker, str) or not isinstance(generation, int):
        return None
    trace, version = found.get("trace"), found.get("version")
    return Status(
        state,
        worker,
        generation,
        trace if isinstance(trace, str) else None,
        version if isinstance(version, str) else None,
    )
