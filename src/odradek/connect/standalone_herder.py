"""The herder of a standalone worker: all connectors and tasks run here. It performs what it decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from odradek.connect.clients import Clients
from odradek.connect.herder import Herder, Json, done, followed
from odradek.connect.offset_stores import OneStore
from odradek.connect.runner import trace_of
from odradek.connect.stores import FileOffsetStore, MemoryConfigStore, MemoryStatusStore
from odradek.core.connect import answers
from odradek.core.connect import config_log as records
from odradek.core.connect.config_log import (
    Config,
    ConfigEvent,
    ConfigLog,
    RestartRequest,
    TargetState,
    TaskId,
)
from odradek.core.connect.errors import ConfigError, ConnectError, bad_request, conflict, not_found
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.status_log import DESTROYED, FAILED, RESTARTING, Status
from odradek.core.connect.worker_config import WorkerConfig


class StandaloneHerder(Herder):
    """See the module."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        clients: Clients,
        offsets: FileOffsetStore,
        worker_id: str,
    ) -> None:
        self._configs = MemoryConfigStore(_ignore)
        super().__init__(
            config, plugins, clients, OneStore(offsets), MemoryStatusStore(), worker_id
        )

    @property
    def log(self) -> ConfigLog:
        """See `Herder`."""
        return self._configs.log

    def wants_tasks(self, name: str) -> None:
        """See `WorkerListener`."""
        self.submit(self._make_tasks, name)

    def put(
        self, name: str, config: Config, state: TargetState | None, may_replace: bool
    ) -> Future[tuple[bool, Json]]:
        """See `Herder`."""
        is_new = name not in self.log
        if not is_new:
            if not may_replace:
                raise conflict(f"Connector {name} already exists")
            self._worker.stop_connector(name)
        self._configs.write(records.connector_records(name, config, state))
        started = self._start_connector(name)
        return self._then(started, self._made, name, is_new)

    def _made(self, name: str, is_new: bool) -> Future[tuple[bool, Json]]:
        return self._then(self._make_tasks(name), lambda: (is_new, self.info(name)))

    def _then(
        self, first: Future[Any], function: Callable[..., Any], *arguments: Any
    ) -> Future[Any]:
        """Call a function in the herder's thread after a future, unless that fails."""
        return followed(first, lambda _: self.submit(function, *arguments))

    def _start_connector(self, name: str) -> Future[Any]:
        state = self.log.target_state(name) or TargetState.STARTED
        try:
            config = self._variables.values(self.log.config(name) or {})
        except ConfigError as error:
            self.connector_state(name, FAILED, trace_of(error))
            raise
        return self._worker.start_connector(name, config, state)

    def _make_tasks(self, name: str) -> Future[Any]:
        """Ask a connector for its tasks, and start them if something has changed."""
        running = self._worker.connectors.get(name)
        if running is None or self.log.target_state(name) != TargetState.STARTED:
            return done(None)
        if running.state != TargetState.STARTED:
            return done(None)

        def note(found: Future[Any]) -> None:
            error = found.exception()
            if error is not None:
                self.connector_state(name, FAILED, trace_of(error))

        made = running.task_configs()
        made.add_done_callback(note)
        return followed(made, lambda configs: self.submit(self._take_tasks, name, configs))

    def _take_tasks(self, name: str, configs: Sequence[Config]) -> None:
        if self.log.target_state(name) != TargetState.STARTED:
            return  # it was stopped or deleted while its code made the configurations
        raw = self.log.config(name) or {}
        configs = [self._variables.restored(each, raw) for each in configs]
        if not self.log.needs_tasks(name, list(configs)):
            return
        self._remove_tasks(name)
        self._configs.write(records.task_records(name, configs))
        self._start_tasks(name)

    def _start_tasks(self, name: str, only: Sequence[TaskId] | None = None) -> None:
        for task in self.log.tasks(name) if only is None else only:
            self._start_task(task)

    def _start_task(self, task: TaskId) -> bool:
        """Start a task. Return False if that failed; then its state says why."""
        state = self.log.target_state(task.connector) or TargetState.STARTED
        try:
            connector = self._variables.values(self.log.config(task.connector) or {})
            config = self._variables.values(self.log.task_config(task) or {})
        except ConfigError as error:
            self.task_state(task, FAILED, trace_of(error))
            return False
        return self._worker.start_task(task, connector, config, state)

    def _remove_tasks(self, name: str) -> None:
        """Stop the tasks of a connector, and forget them."""
        tasks = self.log.tasks(name)
        if not tasks:
            return
        self._worker.stop_tasks(tasks)
        self._configs.write(records.task_records(name, []))
        for each in tasks:
            self.statuses.write(each, Status(DESTROYED, self._worker_id, 0))

    def patch_connector(self, name: str, patch: Config) -> Future[tuple[bool, Json]]:
        """Change some values of a connector; None removes one."""
        present = self.log.config(name)
        if present is None:
            raise not_found(f"Connector {name} not found")
        merged = {**present, **patch}
        config = {k: v for k, v in merged.items() if v is not None or k not in patch}
        return self.put_connector(name, config, None, may_replace=True)

    def delete_connector(self, name: str) -> None:
        """Delete a connector."""
        self._need(name)
        self._remove_tasks(name)
        self._worker.stop_connector(name)
        self._configs.write(records.removal_records(name))
        self.statuses.write(name, Status(DESTROYED, self._worker_id, 0))
        self.statuses.forget_topics(name)

    # -- states ---------------------------------------------------------------------------------

    def set_state(self, name: str, state: TargetState) -> None:
        """Pause, resume or stop a connector."""
        self._need(name, "Unknown connector {}")
        if state == TargetState.STOPPED:
            self._remove_tasks(name)
        self._configs.write([records.target_state_record(name, state)])
        changed = self._worker.change(name, state)
        if changed is None and state == TargetState.STARTED:
            changed = self._start_connector(name)
        if changed is not None and state == TargetState.STARTED:
            self._then(changed, self._make_tasks, name)

    def restart_connector(self, name: str) -> Future[Any]:
        """Start the code of a connector again."""
        self._need(name)
        self._worker.stop_connector(name)
        return self._then(self._start_connector(name), self._make_tasks_soon, name)

    def _make_tasks_soon(self, name: str) -> None:
        self.submit(self._make_tasks, name)

    def restart_task(self, task: TaskId) -> None:
        """Start a task again."""
        self._need(task.connector)
        if self.log.task_config(task) is None:
            raise not_found(f"Task {task} not found")
        self._worker.stop_tasks([task])
        if not self._start_task(task):
            raise ConnectError(f"Failed to start task: {task}")

    def restart(self, request: RestartRequest) -> Json:
        """Start a connector and tasks again, and return their states."""
        name = request.connector
        self._need(name, "Unknown connector: {}")
        status = self.statuses.log.connector(name)
        if status is None:
            raise not_found(f"Status for connector {name} not found")
        plan = answers.RestartPlan(request, self.statuses.log, status)
        answer = plan.answer(self.kind(name))
        if plan.restarts_connector:
            self._worker.stop_connector(name)
            self.connector_state(name, RESTARTING)
        self._worker.stop_tasks(plan.tasks)
        for each in plan.tasks:
            self.task_state(each, RESTARTING)
        if plan.restarts_connector:
            self._start_connector(name)
        self._start_tasks(name, plan.tasks)
        return answer

    def change_offsets(
        self, name: str, wanted: list[tuple[Json, Json | None]] | None
    ) -> Future[Json]:
        """See `Herder`."""
        self._need(name)
        is_stopped = self.log.target_state(name) == TargetState.STOPPED
        if not is_stopped or self.log.task_count(name):
            raise bad_request(answers.MUST_BE_STOPPED.format(name=name))
        return self._change_offsets(name, wanted)


def _ignore(_: ConfigEvent) -> None:
    """This herder has made the change itself, and does what follows."""
