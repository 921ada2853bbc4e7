"""What all herders have: one thread that makes all changes, one after the other, and what runs here.

    REST threads:  submit(put_connector) -> future ......................... answer
    herder:                 write the configuration, start the connector
    connector:                        start (user code) ... task_configs (user code)
    herder:                                                 start the tasks, answer

User code runs in other threads; the herder waits for it only when something stops, and only for a
limited time.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from odradek.connect.clients import Clients
from odradek.connect.loggers import Loggers
from odradek.connect.offset_changes import OffsetChanges
from odradek.connect.offset_stores import OffsetStores
from odradek.connect.runner import Runner
from odradek.connect.variables import Variables
from odradek.connect.worker import Worker
from odradek.core.connect import answers
from odradek.core.connect import connector_config as base
from odradek.core.connect.config_log import (
    Config,
    ConfigLog,
    RestartRequest,
    TargetState,
    TaskId,
)
from odradek.core.connect.distributed_checks import Check
from odradek.core.connect.errors import bad_request, not_found
from odradek.core.connect.plugins import CONNECTORS, Plugins
from odradek.core.connect.retry import RestartPolicy
from odradek.core.connect.status_log import FAILED, UNASSIGNED, Status, StatusLog, Subject, TopicUse
from odradek.core.connect.validation import error_text, validate_connector
from odradek.core.connect.worker_config import WorkerConfig

log = logging.getLogger(__name__)

Json = dict[str, Any]

_OF_PRINCIPALS = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
"""What the policy Principal allows connectors to override."""


class StatusStore(Protocol):
    """Keeps the states of connectors and tasks. Any thread may use it."""

    @property
    def log(self) -> StatusLog:
        """What is known. It changes while it is read."""
        ...

    def write(self, subject: Subject, status: Status, *, safely: bool = False) -> None:
        """Set the state of a connector or task; see `status_log` about `safely`."""
        ...

    def used(self, use: TopicUse) -> None:
        """Note that a connector uses a topic."""
        ...

    def forget_topics(self, connector: str) -> None:
        """Forget the topics of a connector."""
        ...


class Herder:
    """See the module."""

    is_distributed = False
    _exact_group: str | None = None
    """The group of the workers, if sources run exactly once."""
    _check_more: Check | None = None
    """What is checked besides the values of a connector's configuration."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        clients: Clients,
        offsets: OffsetStores,
        statuses: StatusStore,
        worker_id: str,
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._clients = clients
        self._worker_id = worker_id
        self.statuses = statuses
        self.loggers = Loggers()
        self._worker = Worker(config, plugins, clients, offsets, self)
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="connect-herder", daemon=True)
        self._users = ThreadPoolExecutor(4, thread_name_prefix="connect-validation")
        self._stage: tuple[str, float] = ("idle", time.time())
        self._policy = RestartPolicy(
            config.number("restart.policy.budget"),
            config.number("restart.policy.window.ms"),
            config.number("restart.policy.pause.ms"),
        )
        self._variables = Variables(config.given)
        self._offset_changes = OffsetChanges(
            clients, plugins, offsets, self._worker.is_sink, self._exact_group
        )
        self._defaults = {
            name: config.text(name)
            for name in (base.KEY_CONVERTER, base.VALUE_CONVERTER, base.HEADER_CONVERTER)
        }
        """The converters of connectors that name none."""
        self._failures: dict[TaskId | str, list[int]] = {}
        """When the policy has started what failed again."""
        self._timers: set[threading.Timer] = set()
        self._is_ready = False

    # -- what herders differ in -----------------------------------------------------------------

    @property
    def log(self) -> ConfigLog:
        """What is configured. It changes while it is read."""
        raise NotImplementedError

    @property
    def generation(self) -> int:
        """The generation of the group; 0 without a group."""
        return 0

    def settled(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that shows what is configured, when no change is under way."""
        return function(*arguments)

    def put(
        self, name: str, config: Config, state: TargetState | None, may_replace: bool
    ) -> Future[tuple[bool, Json]]:
        """Create or change a connector whose configuration is valid."""
        raise NotImplementedError

    def patch_connector(self, name: str, patch: Config) -> Future[tuple[bool, Json]]:
        """Change some values of a connector; None removes one."""
        raise NotImplementedError

    def delete_connector(self, name: str) -> Any:
        """Delete a connector."""
        raise NotImplementedError

    def set_state(self, name: str, state: TargetState) -> Any:
        """Pause, resume or stop a connector."""
        raise NotImplementedError

    def restart_connector(self, name: str) -> Any:
        """Start the code of a connector again."""
        raise NotImplementedError

    def restart_task(self, task: TaskId) -> Any:
        """Start a task again."""
        raise NotImplementedError

    def restart(self, request: RestartRequest) -> Any:
        """Start a connector and tasks again, and return their states."""
        raise NotImplementedError

    def change_offsets(
        self, name: str, wanted: list[tuple[Json, Json | None]] | None
    ) -> Future[Json]:
        """Set offsets of a stopped connector; None resets all."""
        raise NotImplementedError

    def set_cluster_logger(self, name: str, level: str) -> Any:
        """Set the level of a logger on all workers."""
        self.loggers.set(name, level, round(time.time() * 1000))

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
                found.add_done_callback(lambda inner: pass_on(inner, done))
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
            is_sink = self._worker.is_sink(texts(self.log.config(name)))
        except LookupError:
            return "unknown"
        return "sink" if is_sink else "source"

    def connectors(self) -> list[str]:
        """Return the names of the connectors."""
        return self.log.connectors()

    def info(self, name: str) -> Json:
        """Return a connector with its configuration and tasks."""
        return answers.connector_info(self.log, name, self.kind(name))

    def status(self, name: str) -> Json:
        """Return the states of a connector and its tasks."""
        return answers.connector_status(self.statuses.log, name, self.kind(name))

    def running_tasks(self) -> list[tuple[TaskId, Runner]]:
        """Return the tasks that run here, for their numbers."""
        return list(self._worker.tasks.items())

    def running_connectors(self) -> list[str]:
        """Return the names of the connectors that run here, without their tasks."""
        return list(self._worker.connectors)

    def health(self) -> dict[str, str]:
        """Return the health of each connector; see `answers.health`."""
        return answers.health(self.statuses.log, self.connectors())

    # -- listener -------------------------------------------------------------------------------

    def _version(self, name: str) -> str | None:
        config = self.log.config(name) or {}
        try:
            return self._plugins.find(config.get(base.CLASS) or "", *CONNECTORS).version
        except LookupError:
            return None

    def task_state(self, task: TaskId, state: str, trace: str | None = None) -> None:
        """See `Listener`."""
        status = Status(
            state, self._worker_id, self.generation, trace, self._version(task.connector)
        )
        self.statuses.write(task, status, safely=state in (UNASSIGNED, FAILED))
        if state == FAILED:
            self._plan_restart(task)

    def connector_state(self, name: str, state: str, trace: str | None = None) -> None:
        """See `WorkerListener`."""
        status = Status(state, self._worker_id, self.generation, trace, self._version(name))
        self.statuses.write(name, status, safely=state in (UNASSIGNED, FAILED))
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
        raise NotImplementedError

    def _plan_restart(self, subject: TaskId | str) -> None:
        """Start what has failed again after a while, if the policy says so."""
        now_ms = round(time.monotonic() * 1000)
        earlier = self._failures.setdefault(subject, [])
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
        return validate_connector(
            self._plugins, values, self._defaults, self._check_override, self._check_more
        )

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

        def put(validated: Json) -> Future[tuple[bool, Json]]:
            text = error_text(validated)
            if text is not None:
                raise bad_request(text)
            return self.submit(self.put, name, config, state, may_replace)

        return followed(self.validate(config), put)

    def _need(self, name: str, text: str = "Connector {} not found") -> None:
        if name not in self.log:
            raise not_found(text.format(name))

    # -- offsets --------------------------------------------------------------------------------

    def offsets(self, name: str) -> Json:
        """Return the offsets of a connector. Any thread may call this."""
        self._need(name)
        return self._offset_changes.offsets(
            name, self._variables.values(self.log.config(name) or {})
        )

    def _change_offsets(
        self, name: str, wanted: list[tuple[Json, Json | None]] | None
    ) -> Future[Json]:
        """Set the offsets of a connector, in a thread for user code."""
        config = self._variables.values(self.log.config(name) or {})
        return self._users.submit(self._offset_changes.change, name, config, wanted)


def texts(config: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return the values that are set."""
    return {name: value for name, value in (config or {}).items() if value is not None}


def done(value: Any) -> Future[Any]:
    """Return a future with a result."""
    found: Future[Any] = Future()
    found.set_result(value)
    return found


def pass_on(inner: Future[Any], outer: Future[Any]) -> None:
    """Let a future end as another one has ended."""
    error = inner.exception()
    if error is None:
        outer.set_result(inner.result())
    else:
        outer.set_exception(error)


def followed(first: Future[Any], function: Callable[[Any], Future[Any]]) -> Future[Any]:
    """Return the future that a function makes of the result of another."""
    last: Future[Any] = Future()

    def next_step(inner: Future[Any]) -> None:
        error = inner.exception()
        if error is not None:
            last.set_exception(error)
            return
        try:
            function(inner.result()).add_done_callback(lambda found: pass_on(found, last))
        except Exception as failure:  # noqa: BLE001 - it is the result
            last.set_exception(failure)

    first.add_done_callback(next_step)
    return last
