"""The herder of a distributed worker: it performs what the machine in `core.connect.herder` decides.

    topics, group, REST, connectors ----> events ----> machine ----> actions ----> performed here
                   ^                                                                   |
                   +-------------------------------------------------------------------+

The thread of the herder runs the machine, and starts and stops what runs here. Topics are read and
written by other threads, which report with events.
"""

from __future__ import annotations

import itertools
import logging
import queue
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from odradek.client.admin.transactions import fence_producers
from odradek.client.core.member_settings import MemberSettings
from odradek.client.errors import ClientError
from odradek.connect import forwarding
from odradek.connect.clients import Clients
from odradek.connect.exact_source_runner import Guard
from odradek.connect.group import WorkerGroup
from odradek.connect.herder import Herder, Json, done, followed, texts
from odradek.connect.offset_stores import TopicStores
from odradek.connect.runner import trace_of
from odradek.connect.topic_stores import (
    WRITE_SECONDS,
    ConfigStore,
    TopicOffsetStore,
    TopicStatusStore,
    topic_spec,
)
from odradek.core.connect import herder_messages as m
from odradek.core.connect.api import TooManyTasksError
from odradek.core.connect.client_names import transactional_id
from odradek.core.connect.config_log import (
    Config,
    ConfigLog,
    RestartRequest,
    TargetState,
    TaskId,
)
from odradek.core.connect.distributed_checks import distributed_checks
from odradek.core.connect.errors import ConfigError, ConnectError, RestError
from odradek.core.connect.group_protocol import SESSIONED
from odradek.core.connect.herder import HerderMachine
from odradek.core.connect.herder_core import HerderSettings
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.signature import check_signature
from odradek.core.connect.status_log import FAILED
from odradek.core.connect.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_TURN_SECONDS = 0.5
"""How often the herder tells its group that it lives."""
_LEAVE_SECONDS = 5.0
_FENCE_SECONDS = 60.0
_FENCE_PAUSE_SECONDS = 0.2
_FENCE_AGAIN = (403, 500, 503)
"""Answers of the leader after which a task asks again: the key has changed, or the leader."""
_START = "initializing and reading to the end of internal topics"


class DistributedHerder(Herder):
    """See the module."""

    is_distributed = True

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        clients: Clients,
        url: str,
        worker_id: str,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """`url` is that of the worker's REST API. `on_failure` is called if the herder cannot go on."""
        client_id = config.given.get("client.id") or f"connect-{worker_id}"
        prefix = f"{client_id}-" if "client.id" in config.given else f"{config.text('group.id')}-"
        is_exact = config.text("exactly.once.source.support").lower() == "enabled"
        self._topic_statuses = TopicStatusStore(config, clients, prefix)
        self._topic_offsets = TopicOffsetStore(
            topic_spec(config, "offset"), clients, f"{prefix}offsets", reads_committed=is_exact
        )
        self._is_exact = is_exact
        self._forwarder = forwarding.Forwarder(config.given)
        if is_exact:
            self._exact_group = config.text("group.id")
        self._check_more = distributed_checks(config.text("group.id"), is_exact=is_exact)
        stores = TopicStores(config, clients, self._topic_offsets)
        super().__init__(config, plugins, clients, stores, self._topic_statuses, worker_id)
        self._store = ConfigStore(config, clients, prefix, self._on_record)
        self._machine = HerderMachine(
            HerderSettings(
                url,
                worker_id,
                config.text("connect.protocol").lower(),
                config.number("worker.sync.timeout.ms"),
                config.number("scheduled.rebalance.max.delay.ms"),
                config.number("inter.worker.key.ttl.ms"),
                config.text("inter.worker.key.generation.algorithm"),
            ),
            self._topic_statuses.log,
            self._is_source,
            secrets.token_bytes,
        )
        member = MemberSettings(
            config.text("group.id"),
            session_timeout_ms=config.number("session.timeout.ms"),
            heartbeat_interval_ms=config.number("heartbeat.interval.ms"),
            max_poll_interval_ms=config.number("rebalance.timeout.ms"),
        )
        self._group = WorkerGroup(clients.connection(client_id), member, self._jobs.put)
        self._on_failure = on_failure
        self._io = ThreadPoolExecutor(1, thread_name_prefix="connect-config-topic")
        self._others = ThreadPoolExecutor(4, thread_name_prefix="connect-other-workers")
        self._asked: dict[int, Future[Any]] = {}
        self._numbers = itertools.count()
        self._clock_ms = time.time() * 1000 - time.monotonic() * 1000
        """What makes a time of day of the monotonic clock."""

    @property
    def log(self) -> ConfigLog:
        """See `Herder`."""
        return self._machine.log

    @property
    def generation(self) -> int:
        """See `Herder`."""
        return self._machine.generation

    def _is_source(self, config: Config) -> bool:
        try:
            return not self._worker.is_sink(texts(config))
        except LookupError:
            return False

    # -- the thread -----------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return round(self._clock_ms + time.monotonic() * 1000)

    def _on_record(self, key: str, value: bytes | None, offset: int) -> None:
        self._jobs.put(m.ConfigRead(key, value, offset))

    def start(self) -> None:
        """Start. The worker is ready when it has read its topics."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._note_stage(_START)
            for each in (self._topic_statuses, self._topic_offsets, self._store):
                each.start()
            self._jobs.put(m.Started())
            while (job := self._next_job()) is not None:
                if callable(job):
                    job()
                else:
                    self._feed(job)
                    self._is_ready |= isinstance(job, m.Started)
                self._group.polled()
                self._topic_statuses.send_again()
        except Exception as error:
            log.exception("the herder cannot go on")
            self._on_failure(error)
        finally:
            self._shut_down()

    def _next_job(self) -> m.Event | Callable[[], None] | None:
        """Return the next job; a `Tick` if it is time for one."""
        due_ms = self._machine.next_deadline_ms
        wait_s = _TURN_SECONDS
        if due_ms is not None:
            wait_s = min(max((due_ms - self._now_ms()) / 1000, 0.0), wait_s)
        try:
            job: m.Event | Callable[[], None] | None = self._jobs.get(timeout=wait_s)
            return job
        except queue.Empty:
            return m.Tick()

    def _feed(self, event: m.Event) -> None:
        """Give an event to the machine, and perform what it decides."""
        actions = self._machine.handle(self._now_ms(), event)
        self._note_stage(self._machine.stage or "polling the group coordinator")
        for each in actions:
            self._perform(each)

    def _note_stage(self, stage: str) -> None:
        if stage != self._stage[0]:
            self._stage = stage, time.time()

    def stop(self) -> None:
        """Stop all connectors and tasks, leave the group, and end the thread."""
        for each in list(self._timers):
            each.cancel()
        self._jobs.put(None)
        self._thread.join()

    def _shut_down(self) -> None:
        self._worker.stop()
        for number in list(self._asked):
            self._end_request(number, error=ConnectError("Worker is shutting down"))
        self._group.close(_LEAVE_SECONDS)
        for pool in (self._io, self._others, self._users):
            pool.shutdown(wait=False, cancel_futures=True)
        for each in (self._topic_statuses, self._topic_offsets, self._store):
            each.stop()

    # -- actions --------------------------------------------------------------------------------

    def _perform(self, action: m.Action) -> None:
        match action:
            case m.Write() | m.ReadToEnd() | m.ClaimPrivilege():
                self._io.submit(self._use_topic, action)
            case m.Join():
                self._group.join()
            case m.Leave(reason):
                log.warning("the worker leaves its group: %s", reason)
                self._group.leave()
            case m.GoOn(metadata):
                self._group.go_on(metadata)
            case m.SendAssignments(generation, assignments):
                self._group.send_assignments(generation, assignments)
            case m.Reply(number, value, error):
                self._end_request(number, value, error)
            case m.SendTasks():
                self._others.submit(self._send_tasks, action)
            case m.FenceProducers(name, count):
                self._others.submit(self._fence_producers, name, count)
            case m.WriteStatus(subject, status):
                self.statuses.write(subject, status)
            case m.ForgetTopics(name):
                self.statuses.forget_topics(name)
            case m.FlushStatuses():
                self._topic_statuses.flush()
            case m.SetLogger(name, level):
                super().set_cluster_logger(name, level)
            case _:
                self._run_work(action)

    def _use_topic(self, action: m.Write | m.ReadToEnd | m.ClaimPrivilege) -> None:
        """Read or write the topic of configurations, and tell the machine. This is another thread."""
        try:
            match action:
                case m.Write():
                    self._store.write(action.records, is_privileged=action.is_privileged)
                    if action.reads_back:
                        self._store.log.read_to_end(WRITE_SECONDS)
                case m.ReadToEnd():
                    self._store.log.read_to_end(action.timeout_ms / 1000)
                case m.ClaimPrivilege():
                    self._store.claim()
        except Exception as error:  # noqa: BLE001 - the machine hears of it
            log.warning("the config topic: %s", error)
            self._jobs.put(m.Done(action.token, error))
        else:
            self._jobs.put(m.Done(action.token))

    def _run_work(self, action: m.Action) -> None:
        match action:
            case m.StartConnector():
                self._start_connector(action)
            case m.StopConnector(name):
                self._worker.stop_connector(name)
            case m.ChangeState(name, state):
                self._change_state(name, state)
            case m.StartTask():
                self._start_task(action)
            case m.StopTasks(tasks):
                self._worker.stop_tasks(tasks)
            case m.MakeTasks(name):
                self._make_tasks(name)
            case _:
                raise AssertionError(f"there is no such action: {action}")

    def _start_connector(self, action: m.StartConnector) -> None:
        name, number = action.name, action.number
        try:
            config = self._variables.values(action.config)
        except ConfigError as error:
            self.connector_state(name, FAILED, trace_of(error))
            self._end_request(number, error=error)
            return

        def started(found: Future[Any]) -> None:
            error = found.exception()
            if error is not None:
                failure = ConnectError(f"Failed to start connector: {name}")
                failure.__cause__ = error
                self._end_request(number, error=failure)
                return
            self._end_request(number)
            if action.state == TargetState.STARTED:
                self._jobs.put(m.ConnectorStarted(name))

        self._worker.start_connector(name, config, action.state).add_done_callback(started)

    def _change_state(self, name: str, state: TargetState) -> None:
        changed = self._worker.change(name, state)

        def done(found: Future[Any]) -> None:
            if found.exception() is None and state == TargetState.STARTED:
                self._jobs.put(m.ConnectorStarted(name))

        if changed is not None:
            changed.add_done_callback(done)

    def _start_task(self, action: m.StartTask) -> None:
        task = action.task
        try:
            connector = self._variables.values(action.connector)
            config = self._variables.values(action.config)
        except ConfigError as error:
            self.task_state(task, FAILED, trace_of(error))
            self._end_request(action.number, error=error)
            return
        guard = None
        if self._is_exact and self._is_source(action.connector):
            guard = Guard(
                partial(self._fence_before, task),
                lambda: self.ask(m.CheckTask(task, action.generation)),
            )
        if self._worker.start_task(task, connector, config, action.state, guard):
            self._end_request(action.number)
        else:
            self._end_request(action.number, error=ConnectError(f"Failed to start task: {task}"))

    def _make_tasks(self, name: str) -> None:
        running = self._worker.connectors.get(name)
        if running is None or running.state != TargetState.STARTED:
            return
        raw = self.log.config(name) or {}

        def made(found: Future[list[dict[str, str]]]) -> None:
            try:
                configs = [self._variables.restored(each, raw) for each in found.result()]
                self._jobs.put(m.TasksMade(name, configs))
            except TooManyTasksError as error:
                self.connector_state(name, FAILED, trace_of(error))
                self._jobs.put(m.TasksMade(name, (), error, is_final=True))
            except Exception as error:
                log.exception("connector %s cannot say which tasks it has", name)
                self._jobs.put(m.TasksMade(name, (), error))

        running.task_configs().add_done_callback(made)

    # -- other threads --------------------------------------------------------------------------

    def _send_tasks(self, action: m.SendTasks) -> None:
        path = forwarding.connector_path(action.name, "tasks")
        configs = [dict(each) for each in action.configs]
        algorithm = self._config.text("inter.worker.signature.algorithm")
        try:
            self._forwarder.send_signed(action.url, "POST", path, configs, action.key, algorithm)
        except Exception as error:  # noqa: BLE001 - the machine hears of it
            log.warning("the leader has not taken the tasks of %s: %s", action.name, error)
            self._jobs.put(m.TasksSent(action.name, error))
        else:
            self._jobs.put(m.TasksSent(action.name))

    def _fence_producers(self, name: str, count: int) -> None:
        group = self._config.text("group.id")
        ids = [transactional_id(group, name, each) for each in range(count)]
        try:
            config = self._variables.values(self.log.config(name) or {})
            client_id = f"connector-adminclient-{name}"
            with self._clients.cluster(client_id, "admin", config) as cluster:
                failed = [
                    e for e in fence_producers(cluster, ids).values() if isinstance(e, ClientError)
                ]
            if failed:
                raise failed[0]
        except Exception as error:  # noqa: BLE001 - the machine hears of it
            log.warning("earlier tasks of %s cannot be fenced: %s", name, error)
            failure = ConnectError(f"Failed to perform zombie fencing: {error}")
            self._jobs.put(m.Fenced(name, failure))
        else:
            self._jobs.put(m.Fenced(name))

    def _fence_before(self, task: TaskId, is_over: Callable[[], bool]) -> None:
        """Let the leader fence earlier tasks, before a task starts. This is the thread of the task.

        Raises:
            ConnectError: the leader has refused for too long.
        """
        deadline = time.monotonic() + _FENCE_SECONDS
        while not is_over():
            try:
                self._fence_once(task, is_over)
            except RestError as error:
                has_passed = error.status not in _FENCE_AGAIN or time.monotonic() > deadline
                if has_passed:
                    raise ConnectError(
                        f"Failed to perform round of zombie fencing: {error}"
                    ) from error
                log.info("task %s waits for the leader to fence earlier tasks: %s", task, error)
                time.sleep(_FENCE_PAUSE_SECONDS)
            else:
                return

    def _fence_once(self, task: TaskId, is_over: Callable[[], bool]) -> None:
        asked = self.ask(m.FenceTasks(task.connector))
        while not is_over():
            try:
                asked.result(_FENCE_PAUSE_SECONDS)
            except TimeoutError:
                continue
            except m.Redirect as redirect:
                if redirect.url is None:
                    raise RestError(503, "the leader is not known") from redirect
                path = forwarding.connector_path(task.connector, "fence")
                algorithm = self._config.text("inter.worker.signature.algorithm")
                key = self.log.session_key
                self._forwarder.send_signed(redirect.url, "PUT", path, None, key, algorithm)
            return

    # -- listener -------------------------------------------------------------------------------

    def wants_tasks(self, name: str) -> None:
        """See `WorkerListener`."""
        self._jobs.put(m.ConnectorStarted(name))

    # -- requests -------------------------------------------------------------------------------

    def ask(self, request: m.Request) -> Future[Any]:
        """Let the machine answer a request. Any thread may call this.

        The future may raise a RestError, or a Redirect if another worker must answer.
        """
        future: Future[Any] = Future()
        number = next(self._numbers)
        self._asked[number] = future
        self._jobs.put(m.Asked(number, request))
        return future

    def _end_request(
        self, number: int | None, value: Any = None, error: Exception | None = None
    ) -> None:
        future = None if number is None else self._asked.pop(number, None)
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def settled(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See `Herder`."""
        return mapped(self.ask(m.Look()), lambda _: function(*arguments))

    def put(
        self, name: str, config: Config, state: TargetState | None, may_replace: bool
    ) -> Future[tuple[bool, Json]]:
        """See `Herder`."""
        asked = self.ask(m.PutConnector(name, config, state, may_replace))
        return mapped(asked, lambda is_new: (is_new, self.info(name)))

    def patch_connector(self, name: str, patch: Config) -> Future[tuple[bool, Json]]:
        """See `Herder`."""
        merged = self.ask(m.MergeConfig(name, patch))
        return followed(
            merged, lambda config: self.put_connector(name, config, None, may_replace=True)
        )

    def delete_connector(self, name: str) -> Future[Any]:
        """See `Herder`."""
        return self.ask(m.DeleteConnector(name))

    def set_state(self, name: str, state: TargetState) -> Future[Any]:
        """See `Herder`."""
        if state == TargetState.STOPPED:
            return self.ask(m.StopConnectorAndTasks(name))
        return self.ask(m.SetState(name, state))

    def restart_connector(self, name: str) -> Future[Any]:
        """See `Herder`."""
        return self.ask(m.RestartConnector(name))

    def restart_task(self, task: TaskId) -> Future[Any]:
        """See `Herder`."""
        return self.ask(m.RestartTask(task))

    def restart(self, request: RestartRequest) -> Future[Any]:
        """See `Herder`."""
        return self.ask(m.RestartMany(request))

    def change_offsets(
        self, name: str, wanted: list[tuple[Json, Json | None]] | None
    ) -> Future[Json]:
        """See `Herder`."""
        allowed = self.ask(m.MayChangeOffsets(name, must_fence=self._is_exact))
        return followed(allowed, lambda _: self._change_offsets(name, wanted))

    def set_cluster_logger(self, name: str, level: str) -> Future[Any]:
        """See `Herder`."""
        return self.ask(m.SetClusterLogger(name, level))

    # -- requests of other workers --------------------------------------------------------------

    def _check_signature(self, headers: Mapping[str, str], body: bytes) -> None:
        if self._machine.protocol == SESSIONED:
            accepted = self._config.words("inter.worker.verification.algorithms")
            check_signature(headers, body, self.log.session_key, accepted)

    def put_tasks(
        self, name: str, configs: Sequence[Config], headers: Mapping[str, str], body: bytes
    ) -> Future[Any]:
        """Take the tasks that another worker's connector has made.

        Raises:
            RestError: the request is not signed properly.
        """
        self._check_signature(headers, body)
        return self.ask(m.PutTasks(name, configs))

    def fence(self, name: str, headers: Mapping[str, str], body: bytes) -> Future[Any]:
        """Fence earlier tasks of a source, for a task of another worker.

        Raises:
            RestError: the request is not signed properly.
        """
        self._check_signature(headers, body)
        return self.ask(m.FenceTasks(name))


def mapped(first: Future[Any], function: Callable[[Any], Any]) -> Future[Any]:
    """Return the future of a function of the result of another."""
    return followed(first, lambda result: done(function(result)))
