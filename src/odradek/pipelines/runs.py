"""A file for each run of a pipeline, for `odradek pipeline status`.

The files are in `$XDG_STATE_HOME/odradek/pipelines`, by default below `~/.local/state`. A run has
the name of its pipeline and of its output directory, so a second run with the same output replaces
the file of the first. A running process holds a lock on another file beside it. So whether it runs
is known even after `kill -9`. A run that ends removes its file, unless it failed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from odradek.pipelines.reports import Report

LOCK_TRIES, LOCK_PAUSE_S = 20, 0.05
"""`load_all` holds a lock for a moment, so a run tries again."""

RUNNING, STOPPING, FAILED, KILLED = "running", "stopping", "failed", "killed"


class AlreadyRunningError(RuntimeError):
    """Another process runs the pipeline with the same output."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """A query of a run, and its last micro-batch."""

    last: Report
    checkpoint: str | None
    groups: list[str]
    """The consumer groups to which the query commits its progress."""
    is_active: bool = True


@dataclass(slots=True)
class Run:
    """A run of a pipeline."""

    name: str
    output: str
    process_id: int
    started_at_ms: int
    master: str
    checkpoints: str
    servers: str | None = None
    state: str = RUNNING
    error: str | None = None
    queries: dict[str, QueryState] = field(default_factory=dict)
    """By the id of the query."""

    @property
    def has_ended(self) -> bool:
        """Whether the run failed or was killed."""
        return self.state in {FAILED, KILLED}

    def connected_to(self, servers: str) -> None:
        """Note the address of the broker."""
        self.servers = servers

    def stopping(self) -> None:
        """Note that a signal has arrived."""
        self.state = STOPPING

    def failed(self, error: str) -> None:
        """Note the error with which the run ends."""
        self.state, self.error = FAILED, error


def directory() -> Path:
    """Return the directory of the files."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "odradek" / "pipelines"


class RunFile:
    """The file of a run, which only this process writes."""

    def __init__(self, run: Run) -> None:
        """Register a run.

        Raises:
            AlreadyRunningError: another process runs the pipeline with the same output.
            OSError: the directory cannot be written.
        """
        directory().mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(run.output.encode()).hexdigest()[:8]
        self._path = directory() / f"{run.name}-{digest}.json"
        self._lock = os.open(_lock_path(self._path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(LOCK_TRIES):
            if _locks(self._lock, fcntl.LOCK_EX):
                break
            time.sleep(LOCK_PAUSE_S)
        else:
            os.close(self._lock)
            raise AlreadyRunningError(
                f"another process runs the pipeline {run.name} with the output {run.output}: "
                "see odradek pipeline status"
            )
        self.save(run)

    def save(self, run: Run) -> None:
        """Write the state of the run."""
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(run)), encoding="utf-8")
        draft.replace(self._path)

    def close(self, *, keep: bool) -> None:
        """Release the lock. Without `keep`, remove the file.

        The file of the lock stays, because another process may be about to lock it.
        """
        if not keep:
            self._path.unlink(missing_ok=True)
        os.close(self._lock)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _locks(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def load_all() -> list[Run]:
    """Return all runs, in the order of their start. A run without a process is `KILLED`.

    A run that has ended and whose output was deleted is forgotten.
    """
    found = []
    for path in _paths():
        run = _load(path)
        if run is not None and not (run.has_ended and _forget(path, _has_no_output)):
            found.append(run)
    return _sorted(found)


def forget_ended() -> list[Run]:
    """Forget the runs that failed or were killed, and return them."""
    ended = [(path, run) for path in _paths() if (run := _load(path)) is not None]
    return _sorted([run for path, run in ended if run.has_ended and _forget(path)])


def _sorted(found: list[Run]) -> list[Run]:
    return sorted(found, key=lambda each: each.started_at_ms)


def _paths() -> list[Path]:
    return sorted(directory().glob("*.json"))


def _load(path: Path) -> Run | None:
    """Return a run; None if it has just ended."""
    try:
        run = _run(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    if not run.has_ended and not _is_locked(path):
        return replace(run, state=KILLED)
    return run


def _has_no_output(run: Run) -> bool:
    return not Path(run.output).exists()


def _forget(path: Path, condition: Callable[[Run], bool] = lambda run: True) -> bool:
    """Remove the file of a run that has ended, if it meets a condition, and return whether it did.

    No process can register the same run meanwhile, because it needs the lock.
    """
    descriptor = os.open(_lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _locks(descriptor, fcntl.LOCK_SH):
            return False
        run = _run(json.loads(path.read_text(encoding="utf-8")))
        if not condition(run):
            return False
        path.unlink()
    except FileNotFoundError:
        return True
    finally:
        os.close(descriptor)
    return True


def _run(stored: dict[str, Any]) -> Run:
    queries = {
        key: QueryState(**{**each, "last": Report(**each["last"])})
        for key, each in stored.pop("queries").items()
    }
    return Run(**stored, queries=queries)


def _is_locked(path: Path) -> bool:
    descriptor = os.open(_lock_path(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _locks(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)
