"""Decides what a worker runs, and performs it: one thread makes all changes, one after the other.

    REST threads:  submit(put_connector) -> future ......................... answer
    herder:                 write the configuration, start the connector
    connector:                        start (user code) ... task_configs (user code)
    herder:                                                 start the tasks, answer

User code runs in other threads; the herder waits for it only when something stops, and only for a
limited time. This herder is that of a standalone worker: all connectors and tasks run here.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from odradek.client.admin.groups import delete_groups
from odradek.client.commits import commit_offsets, delete_offsets, fetch_offsets
from odradek.client.errors import ClientError
from odradek.client.group_metadata import CommittedOffset
from odradek.connect.clients import Clients
from odradek.connect.runner import Runner, trace_of
from odradek.connect.stores import FileOffsetStore, MemoryConfigStore, MemoryStatusStore
from odradek.connect.variables import Variables
from odradek.connect.worker import Worker
from odradek.core.connect import answers
from odradek.core.connect import config_log as records
from odradek.core.connect import connector_config as base
from odradek.core.connect.api import SinkConnector
from odradek.core.connect.client_names import sink_group
from odradek.core.connect.config_log import ConfigEvent, RestartRequest, TargetState, TaskId
from odradek.core.connect.errors import ConfigError, ConnectError, bad_request, conflict, not_found
from odradek.core.connect.plugins import CONNECTORS, Plugins
from odradek.core.connect.retry import RestartPolicy
from odradek.core.connect.status_log import DESTROYED, FAILED, RESTARTING, Status, TopicUse
from odradek.core.connect.validation import error_text, validate_connector
from odradek.core.connect.worker_config import WorkerConfig
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

Json = dict[str, Any]
Config = Mapping[str, str | None]


_OF_PRINCIPALS = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
"""What the policy Principal allows connectors to override."""


class Herder:
    """See the module."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        clients: Clients,
        offsets: FileOffsetStore,
        worker_id: str,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._clients = clients
        self._offsets = offsets
        self._worker_id = worker_id
        self.statuses = MemoryStatusStore()
        self.configs = MemoryConfigStore(self._on_event)
        self._worker = Worker(config, plugins, clients, offsets, self)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="connect-herder", daemon=True)
        self._users = ThreadPoolExecutor(4, thread_name_prefix="connect-validation")
        self._stage: tuple[str, float] = ("idle", time.time())
        self._policy = RestartPolicy(
            config.number("restart.policy.budget"),
            config.number("restart.policy.window.ms"),
            config.number("restart.policy.pause.ms"),
        )
        self._variables = Variables(config.given)
        self._defaults = {
            name: config.text(name)
            for name in (base.KEY_CONVERTER, base.VALUE_CONVERTER, base.HEADER_CONVERTER)
        }
        """The converters of connectors that name none."""
        self._restarts: dict[TaskId | str, list[int]] = {}
        self._timers: set[threading.Timer] = set()
        self._is_ready = False

    # -- the thread -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start."""
        self._thread.start()
        self.submit(self._ready)

    def _ready(self) -> None:
        self._is_ready = True

    @property
    def is_ready(self) -> bool:
        """Whether the herder has begun to work."""
        return self._is_ready

    def stop(self) -> None:
        """Stop all connectors and tasks, then the thread."""
        for each in list(self._timers):
            each.cancel()
        self.submit(self._worker.stop)
        self._jobs.put(None)
        self._thread.join()
        self._users.shutdown(wait=False, cancel_futures=True)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function in the herder's thread. It may return a future, whose result is the result."""
        done: Future[Any] = Future()

        def job() -> None:
            self._stage = (function.__name__.strip("_").replace("_", " "), time.time())
            try:
                found = function(*arguments)
            except BaseException as error:  # noqa: BLE001 - it is the answer
                done.set_exception(error)
                return
            if isinstance(found, Future):
                found.add_done_callback(lambda inner: _pass_on(inner, done))
            else:
                done.set_result(found)

        self._jobs.put(job)
        return done

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            try:
                job()
            except Exception:
                log.exception("an operation of the herder has failed")
            self._stage = ("idle", time.time())

    @property
    def stage(self) -> tuple[str, float]:
        """What the thread does, and since when (seconds since 1970)."""
        return self._stage

    # -- what is known --------------------------------------------------------------------------

    @property
    def plugins(self) -> Plugins:
        """The plugins."""
        return self._plugins

    def kind(self, name: str) -> str:
        """Return `source`, `sink` or `unknown`."""
        try:
            is_sink = self._worker.is_sink(_texts(self.configs.log.config(name)))
        except LookupError:
            return "unknown"
        return "sink" if is_sink else "source"

    def connectors(self) -> list[str]:
        """Return the names of the connectors."""
        return self.configs.log.connectors()

    def info(self, name: str) -> Json:
        """Return a connector with its configuration and tasks."""
        return answers.connector_info(self.configs.log, name, self.kind(name))

    def status(self, name: str) -> Json:
        """Return the states of a connector and its tasks."""
        return answers.connector_status(self.statuses.log, name, self.kind(name))

    def running_tasks(self) -> list[tuple[TaskId, Runner]]:
        """Return the tasks that run here, for their numbers."""
        return list(self._worker.tasks.items())

    def health(self) -> dict[str, str]:
        """Return the health of each connector; see `answers.health`."""
        return answers.health(self.statuses.log, self.connectors())

    # -- listener -------------------------------------------------------------------------------

    def _version(self, name: str) -> str | None:
        config = self.configs.log.config(name) or {}
        try:
            return self._plugins.find(config.get(base.CLASS) or "", *CONNECTORS).version
        except LookupError:
            return None

    def task_state(self, task: TaskId, state: str, trace: str | None = None) -> None:
        """See `Listener`."""
        status = Status(state, self._worker_id, 0, trace, self._version(task.connector))
        self.statuses.write(task, status)
        if state == FAILED:
            self._plan_restart(task)

    def connector_state(self, name: str, state: str, trace: str | None = None) -> None:
        """See `WorkerListener`."""
        status = Status(state, self._worker_id, 0, trace, self._version(name))
        self.statuses.write(name, status)
        if state == FAILED:
            self._plan_restart(name)

    def used_topic(self, task: TaskId, topic: str) -> None:
        """See `Listener`."""
        if self._config.flag("topic.tracking.enable") and not self.statuses.log.uses(
            task.connector, topic
        ):
            now_ms = round(time.time() * 1000)
            self.statuses.used(TopicUse(topic, task.connector, task.task, now_ms))

    def wants_tasks(self, name: str) -> None:
        """See `WorkerListener`."""
        self.submit(self._make_tasks, name)

    def _on_event(self, event: ConfigEvent) -> None:
        """A standalone herder has made the change itself, and does what follows."""

    def _plan_restart(self, subject: TaskId | str) -> None:
        """Start what has failed again after a while, if the policy says so."""
        now_ms = round(time.monotonic() * 1000)
        earlier = self._restarts.setdefault(subject, [])
        pause_ms = self._policy.pause_ms(earlier, now_ms)
        if pause_ms is None:
            return
        earlier.append(now_ms)
        log.warning("%s has failed, and starts again in %s ms", subject, pause_ms)

        def restart() -> None:
            self._timers.discard(timer)
            if isinstance(subject, TaskId):
                self.submit(self._restart_failed, subject)
            else:
                self.submit(self.restart_connector, subject)

        timer = threading.Timer(pause_ms / 1000, restart)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def _restart_failed(self, task: TaskId) -> None:
        status = self.statuses.log.task(task)
        if status is not None and status.state == FAILED:
            self.restart_task(task)

    # -- configurations -------------------------------------------------------------------------

    def validate(self, config: Config) -> Future[Json]:
        """Validate a configuration, in a thread for user code."""
        return self._users.submit(self._validate, config)

    def _validate(self, config: Config) -> Json:
        values: dict[str, str | None] = dict(self._variables.values(config))
        values |= {name: None for name, value in config.items() if value is None}
        return validate_connector(self._plugins, values, self._defaults, self._check_override)

    def _check_override(self, client: str, name: str) -> str | None:
        policy = self._config.text("connector.client.config.override.policy")
        kind = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
        if kind == "All" or (kind == "Principal" and name in _OF_PRINCIPALS):
            return None
        return (
            f"The '{policy}' policy does not allow '{name}' to be overridden in the connector "
            "configuration."
        )

    def put_connector(
        self, name: str, config: Config, state: TargetState | None, *, may_replace: bool
    ) -> Future[tuple[bool, Json]]:
        """Create or change a connector: whether it was created, and what it is now."""
        done: Future[tuple[bool, Json]] = Future()

        def validated(found: Future[Json]) -> None:
            error = found.exception()
            if error is not None:
                done.set_exception(error)
                return
            text = error_text(found.result())
            if text is not None:
                done.set_exception(bad_request(text))
                return
            put = self.submit(self._put, name, config, state, may_replace)
            put.add_done_callback(lambda inner: _pass_on(inner, done))

        self.validate(config).add_done_callback(validated)
        return done

    def _put(
        self, name: str, config: Config, state: TargetState | None, may_replace: bool
    ) -> Future[tuple[bool, Json]]:
        is_new = name not in self.configs.log
        if not is_new:
            if not may_replace:
                raise conflict(f"Connector {name} already exists")
            self._worker.stop_connector(name)
        self.configs.write(records.connector_records(name, config, state))
        started = self._start_connector(name)
        return self._then(started, self._made, name, is_new)

    def _made(self, name: str, is_new: bool) -> Future[tuple[bool, Json]]:
        return self._then(self._make_tasks(name), lambda: (is_new, self.info(name)))

    def _then(
        self, first: Future[Any], function: Callable[..., Any], *arguments: Any
    ) -> Future[Any]:
        """Call a function in the herder's thread after a future, unless that fails."""
        done: Future[Any] = Future()

        def next_step(inner: Future[Any]) -> None:
            error = inner.exception()
            if error is not None:
                done.set_exception(error)
                return
            self.submit(function, *arguments).add_done_callback(lambda last: _pass_on(last, done))

        first.add_done_callback(next_step)
        return done

    def _start_connector(self, name: str) -> Future[Any]:
        state = self.configs.log.target_state(name) or TargetState.STARTED
        try:
            config = self._variables.values(self.configs.log.config(name) or {})
        except ConfigError as error:
            self.connector_state(name, FAILED, trace_of(error))
            raise
        return self._worker.start_connector(name, config, state)

    def _make_tasks(self, name: str) -> Future[Any]:
        """Ask a connector for its tasks, and start them if something has changed."""
        running = self._worker.connectors.get(name)
        if running is None or self.configs.log.target_state(name) != TargetState.STARTED:
            return _done(None)
        if running.state != TargetState.STARTED:
            return _done(None)
        return self._then_with(running.task_configs(), self._take_tasks, name)

    def _then_with(
        self, first: Future[Any], function: Callable[..., Any], name: str
    ) -> Future[Any]:
        done: Future[Any] = Future()

        def next_step(inner: Future[Any]) -> None:
            error = inner.exception()
            if error is not None:
                self.connector_state(name, FAILED, trace_of(error))
                done.set_exception(error)
                return
            submitted = self.submit(function, name, inner.result())
            submitted.add_done_callback(lambda last: _pass_on(last, done))

        first.add_done_callback(next_step)
        return done

    def _take_tasks(self, name: str, configs: Sequence[Config]) -> None:
        if self.configs.log.target_state(name) != TargetState.STARTED:
            return  # it was stopped or deleted while its code made the configurations
        raw = self.configs.log.config(name) or {}
        configs = [self._variables.restored(each, raw) for each in configs]
        if not self.configs.log.needs_tasks(name, list(configs)):
            return
        self._remove_tasks(name)
        self.configs.write(records.task_records(name, configs))
        self._start_tasks(name)

    def _start_tasks(self, name: str, only: Sequence[TaskId] | None = None) -> None:
        for task in self.configs.log.tasks(name) if only is None else only:
            self._start_task(task)

    def _start_task(self, task: TaskId) -> bool:
        """Start a task. Return False if that failed; then its state says why."""
        state = self.configs.log.target_state(task.connector) or TargetState.STARTED
        try:
            connector = self._variables.values(self.configs.log.config(task.connector) or {})
            config = self._variables.values(self.configs.log.task_config(task) or {})
        except ConfigError as error:
            self.task_state(task, FAILED, trace_of(error))
            return False
        return self._worker.start_task(task, connector, config, state)

    def _remove_tasks(self, name: str) -> None:
        """Stop the tasks of a connector, and forget them."""
        tasks = self.configs.log.tasks(name)
        if not tasks:
            return
        self._worker.stop_tasks(tasks)
        self.configs.write(records.task_records(name, []))
        for each in tasks:
            self.statuses.write(each, Status(DESTROYED, self._worker_id, 0))

    def patch_connector(self, name: str, patch: Config) -> Future[tuple[bool, Json]]:
        """Change some values of a connector; None removes one."""
        present = self.configs.log.config(name)
        if present is None:
            raise not_found(f"Connector {name} not found")
        merged = {**present, **patch}
        config = {k: v for k, v in merged.items() if v is not None or k not in patch}
        return self.put_connector(name, config, None, may_replace=True)

    def delete_connector(self, name: str) -> None:
        """Delete a connector."""
        self._check(name)
        self._remove_tasks(name)
        self._worker.stop_connector(name)
        self.configs.write(records.removal_records(name))
        self.statuses.write(name, Status(DESTROYED, self._worker_id, 0))
        self.statuses.forget_topics(name)

    def _check(self, name: str, text: str = "Connector {} not found") -> None:
        if name not in self.configs.log:
            raise not_found(text.format(name))

    # -- states ---------------------------------------------------------------------------------

    def set_state(self, name: str, state: TargetState) -> None:
        """Pause, resume or stop a connector."""
        self._check(name, "Unknown connector {}")
        if state == TargetState.STOPPED:
            self._remove_tasks(name)
        self.configs.write([records.target_state_record(name, state)])
        changed = self._worker.change(name, state)
        if changed is None and state == TargetState.STARTED:
            changed = self._start_connector(name)
        if changed is not None and state == TargetState.STARTED:
            self._then(changed, self._make_tasks, name)

    def restart_connector(self, name: str) -> Future[Any]:
        """Start the code of a connector again."""
        self._check(name)
        self._worker.stop_connector(name)
        return self._then(self._start_connector(name), self._make_tasks_soon, name)

    def _make_tasks_soon(self, name: str) -> None:
        self.submit(self._make_tasks, name)

    def restart_task(self, task: TaskId) -> None:
        """Start a task again."""
        self._check(task.connector)
        if self.configs.log.task_config(task) is None:
            raise not_found(f"Task {task} not found")
        self._worker.stop_tasks([task])
        if not self._start_task(task):
            raise ConnectError(f"Failed to start task: {task}")

    def restart(self, request: RestartRequest) -> Json:
        """Start a connector and tasks again, and return their states."""
        name = request.connector
        self._check(name, "Unknown connector: {}")
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

    # -- offsets --------------------------------------------------------------------------------

    def offsets(self, name: str) -> Json:
        """Return the offsets of a connector. Any thread may call this."""
        self._check(name)
        config = self._variables.values(self.configs.log.config(name) or {})
        if not self._is_sink(config):
            return answers.offsets_answer(self._offsets.of_connector(name))
        with self._clients.cluster(f"connector-adminclient-{name}", "admin", config) as cluster:
            committed = fetch_offsets(cluster, sink_group(config, name))
        entries = answers.sink_offsets({k: v.offset for k, v in committed.items()})
        return answers.offsets_answer(entries)

    def _is_sink(self, config: Mapping[str, str]) -> bool:
        try:
            return self._worker.is_sink(config)
        except LookupError as error:
            raise ConnectError(f"Failed to find class {error}") from None

    def change_offsets(
        self, name: str, wanted: list[tuple[Json, Json | None]] | None
    ) -> Future[Json]:
        """Set offsets of a stopped connector; None resets all."""
        self._check(name)
        is_stopped = self.configs.log.target_state(name) == TargetState.STOPPED
        if not is_stopped or self.configs.log.task_count(name):
            raise bad_request(answers.MUST_BE_STOPPED.format(name=name))
        config = self._variables.values(self.configs.log.config(name) or {})
        made = self._plugins.find(config.get(base.CLASS, ""), *CONNECTORS).made()
        if isinstance(made, SinkConnector):
            return self._users.submit(self._change_sink, name, config, made, wanted)
        return self._users.submit(self._change_source, name, config, made, wanted)

    def _change_source(
        self,
        name: str,
        config: Mapping[str, str],
        made: Any,
        wanted: list[tuple[Json, Json | None]] | None,
    ) -> Json:
        is_reset = wanted is None
        if wanted is None:
            wanted = [(partition, None) for partition, _ in self._offsets.of_connector(name)]
        is_known = made.alter_offsets(config, wanted)
        self._offsets.write(name, wanted)
        return answers.offsets_message(is_known=is_known, is_reset=is_reset)

    def _change_sink(
        self,
        name: str,
        config: Mapping[str, str],
        made: SinkConnector,
        wanted: list[tuple[Json, Json | None]] | None,
    ) -> Json:
        group = sink_group(config, name)
        with self._clients.cluster(f"connector-adminclient-{name}", "admin", config) as cluster:
            if wanted is None:
                present: dict[TopicPartition, int | None]
                present = dict.fromkeys(fetch_offsets(cluster, group))
                is_known = made.alter_offsets(config, present)
                error = delete_groups(cluster, [group])[group] if present else None
                _raise(error, name)
                return answers.offsets_message(is_known=is_known, is_reset=True)
            parsed = answers.parse_sink_offsets(wanted)
            is_known = made.alter_offsets(config, parsed)
            kept = {k: CommittedOffset(v) for k, v in parsed.items() if v is not None}
            gone = [each for each, offset in parsed.items() if offset is None]
            if kept:
                for failure in commit_offsets(cluster, group, kept).values():
                    _raise(failure, name)
            if gone:
                delete_offsets(cluster, group, gone)
            return answers.offsets_message(is_known=is_known, is_reset=False)


def _raise(error: ClientError | None, name: str) -> None:
    if error is not None:
        raise ConnectError(
            f"Failed to alter consumer group offsets for connector {name}: {error}"
        ) from error


def _texts(config: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: value for name, value in (config or {}).items() if value is not None}


def _done(value: Any) -> Future[Any]:
    found: Future[Any] = Future()
    found.set_result(value)
    return found


def _pass_on(inner: Future[Any], outer: Future[Any]) -> None:
    error = inner.exception()
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)
