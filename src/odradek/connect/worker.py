"""Starts and stops the connectors and tasks of one worker. Only the herder's thread calls it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from odradek.connect import topic_creation
from odradek.connect.clients import Clients
from odradek.connect.error_handler import DeadLetters, ErrorHandler, create_dead_letter_topic
from odradek.connect.exact_source_runner import ExactSourceRunner, Guard
from odradek.connect.host import Host
from odradek.connect.offset_stores import OffsetStores
from odradek.connect.pipeline import Pipeline
from odradek.connect.runner import Listener, Runner, trace_of
from odradek.connect.sink_runner import SinkRunner
from odradek.connect.source_runner import SourceRunner
from odradek.connect.task_process import RemoteSinkTask, RemoteSourceTask
from odradek.core.connect import connector_config as base
from odradek.core.connect.api import Connector, SinkConnector, SinkTask, check_task_count
from odradek.core.connect.client_names import sink_group, transactional_id
from odradek.core.connect.config_def import ConfigType, parse_value
from odradek.core.connect.config_log import TargetState, TaskId
from odradek.core.connect.plugins import CONNECTORS, Plugins
from odradek.core.connect.source_task import Boundary
from odradek.core.connect.worker_config import WorkerConfig
from odradek.records.record import Record

log = logging.getLogger(__name__)

Config = Mapping[str, str]


class WorkerListener(Listener, Protocol):
    """Hears of connectors, too. Any thread may call it."""

    def connector_state(self, name: str, state: str, trace: str | None = None) -> None:
        """A connector is in a state."""
        ...

    def wants_tasks(self, name: str) -> None:
        """A connector asks for its tasks to be made again."""
        ...


class _Context:
    """What a connector can ask."""

    def __init__(self, name: str, listener: WorkerListener) -> None:
        self._name = name
        self._listener = listener

    def request_task_reconfiguration(self) -> None:
        """See `ConnectorContext`."""
        self._listener.wants_tasks(self._name)

    def raise_error(self, error: Exception) -> None:
        """See `ConnectorContext`."""
        self._listener.connector_state(self._name, "FAILED", trace_of(error))


class RunningConnector:
    """A connector, whose code runs in a thread of its own."""

    def __init__(
        self, name: str, config: Config, made: type[Connector], listener: WorkerListener
    ) -> None:
        self.name = name
        self.config = config
        self.state: TargetState | None = None
        """What the connector does; None before it does anything."""
        self._listener = listener
        self._host = Host(f"connector-thread-{name}")
        self._connector: Connector | None = None
        self._made = made
        self._is_cancelled = False

    def change(self, wanted: TargetState) -> Future[Any]:
        """Start or stop the connector's code, and tell its state. The future ends with this."""
        return self._host.call(self._change, wanted)

    def _change(self, wanted: TargetState) -> None:
        if self._is_cancelled or self.state == wanted:
            return
        try:
            if wanted == TargetState.STARTED:
                self._connector = self._made()
                self._connector.initialize(_Context(self.name, self._listener))
                self._connector.start(self.config)
            else:
                self._stop_code()
        except BaseException as error:
            self.state = None
            log.exception("connector %s has failed", self.name)
            self._listener.connector_state(self.name, "FAILED", trace_of(error))
            raise
        self.state = wanted
        shown = "RUNNING" if wanted == TargetState.STARTED else wanted.value
        self._listener.connector_state(self.name, shown)

    def _end(self) -> None:
        self._stop_code()
        if not self._is_cancelled:
            self._listener.connector_state(self.name, "UNASSIGNED")

    def _stop_code(self) -> None:
        connector, self._connector = self._connector, None
        if connector is not None:
            connector.stop()

    def task_configs(self) -> Future[list[dict[str, str]]]:
        """Ask for the configurations of the tasks."""
        return self._host.call(self._task_configs)

    def _task_configs(self) -> list[dict[str, str]]:
        assert self._connector is not None, "only a started connector is asked"
        most = int(self.config.get(base.TASKS_MAX, "1"))
        found = [dict(each) for each in self._connector.task_configs(most)]
        if self.config.get("tasks.max.enforce", "true").strip().lower() != "false":
            check_task_count(self.name, len(found), most)
        name = _task_class(self._connector)
        for each in found:
            each["task.class"] = name
            for topics in (base.TOPICS, base.TOPICS_REGEX):
                if isinstance(self._connector, SinkConnector) and self.config.get(topics):
                    each[topics] = self.config[topics]
        return found

    def stop(self, timeout_s: float) -> None:
        """Stop the connector. If its code does not return in time, it is given up."""
        done = self._host.call(self._end)
        try:
            done.exception(timeout_s)
        except TimeoutError:
            self._is_cancelled = True
            log.warning(
                "connector %s did not stop within %s s and is given up", self.name, timeout_s
            )
        self._host.end()


def _task_class(connector: Connector) -> str:
    """Return the name of the class of a connector's tasks: that of Java, if the connector has one.

    A worker of Apache Kafka in the same group runs tasks of this class.
    """
    if connector.java_name:
        return f"{connector.java_name.removesuffix('Connector')}Task"
    made = connector.task_class
    return f"{made.__module__}.{made.__qualname__}"


class Worker:
    """The connectors and tasks that run here."""

    def __init__(
        self,
        config: WorkerConfig,
        plugins: Plugins,
        clients: Clients,
        offsets: OffsetStores,
        listener: WorkerListener,
    ) -> None:
        self.config = config
        self.plugins = plugins
        self.clients = clients
        self._offsets = offsets
        self._listener = listener
        self._graceful_s = config.number("task.shutdown.graceful.timeout.ms") / 1000
        self.connectors: dict[str, RunningConnector] = {}
        self.tasks: dict[TaskId, Runner] = {}

    def is_sink(self, config: Config) -> bool:
        """Return whether a connector is a sink.

        Raises:
            LookupError: its class is unknown.
        """
        plugin = self.plugins.find(config.get(base.CLASS, ""), *CONNECTORS)
        return issubclass(plugin.made, SinkConnector)

    # -- connectors -----------------------------------------------------------------------------

    def start_connector(self, name: str, config: Config, state: TargetState) -> Future[Any]:
        """Start a connector, or only make it if it is paused. The future ends with its first state."""
        assert name not in self.connectors, "a connector is stopped before it starts again"
        try:
            plugin = self.plugins.find(config.get(base.CLASS, ""), *CONNECTORS)
        except LookupError as error:
            failed: Future[Any] = Future()
            failed.set_exception(error)
            self._listener.connector_state(name, "FAILED", trace_of(error))
            return failed
        running = RunningConnector(name, config, plugin.made, self._listener)
        self.connectors[name] = running
        return running.change(state)

    def stop_connector(self, name: str) -> None:
        """Stop a connector, if it runs here."""
        running = self.connectors.pop(name, None)
        if running is not None:
            running.stop(self._graceful_s)

    # -- tasks ----------------------------------------------------------------------------------

    def start_task(
        self,
        task: TaskId,
        connector: Config,
        config: Config,
        state: TargetState,
        guard: Guard | None = None,
    ) -> bool:
        """Start a task. Return False if that failed; then its state says why.

        With `guard`, a source runs exactly once.
        """
        assert task not in self.tasks, "a task is stopped before it starts again"
        try:
            plugin = self.plugins.find(connector.get(base.CLASS, ""), *CONNECTORS)
            make = self._maker(task, plugin.made.task_class)
            pipeline = Pipeline(self.config, connector, self.plugins)
            if issubclass(plugin.made, SinkConnector):
                runner: Runner = self._sink(task, connector, config, state, make, pipeline)
            else:
                runner = self._source(task, connector, config, state, make, pipeline, guard)
        except Exception as error:
            log.exception("task %s cannot be started", task)
            self._listener.task_state(task, "FAILED", trace_of(error))
            return False
        self.tasks[task] = runner
        runner.start()
        return True

    def _maker(self, task: TaskId, made: type[Any]) -> Callable[[], Any]:
        """Return what makes the task: in a process of its own, or in this one."""
        if self.config.text("task.host") == "thread":
            return made
        remote = RemoteSinkTask if issubclass(made, SinkTask) else RemoteSourceTask
        return partial(remote, made, str(task))

    def _source(
        self,
        task: TaskId,
        connector: Config,
        config: Config,
        state: TargetState,
        make: Callable[[], Any],
        pipeline: Pipeline,
        guard: Guard | None,
    ) -> SourceRunner:
        name = f"{task.connector}-{task.task}"
        topics = None
        if topic_creation.is_wanted(
            connector, is_enabled=self.config.flag("topic.creation.enable")
        ):
            admin = self.clients.cluster(f"connector-adminclient-{name}", "admin", connector)
            topics = topic_creation.TopicCreation(admin, connector)
        common: dict[str, Any] = {
            "make": make,
            "config": config,
            "pipeline": pipeline,
            "make_errors": partial(ErrorHandler, task, connector),
            "open_offsets": partial(self._offsets.opened, task.connector, connector),
            "topics": topics,
            "flush_interval_ms": self.config.number("offset.flush.interval.ms"),
            "flush_timeout_ms": self.config.number("offset.flush.timeout.ms"),
        }
        client_id = f"connector-producer-{name}"
        if guard is None:
            make_producer = partial(self.clients.producer, client_id, connector)
            return SourceRunner(task, state, self._listener, make_producer=make_producer, **common)
        identity = transactional_id(self.config.text("group.id"), *task)
        interval = connector.get(base.TRANSACTION_INTERVAL) or common["flush_interval_ms"]
        return ExactSourceRunner(
            task,
            state,
            self._listener,
            make_producer=partial(self.clients.exact_producer, client_id, connector, identity),
            guard=guard,
            boundary=Boundary((connector.get(base.TRANSACTION_BOUNDARY) or "poll").lower()),
            interval_ms=int(interval),
            **common,
        )

    def _sink(
        self,
        task: TaskId,
        connector: Config,
        config: Config,
        state: TargetState,
        make: Callable[[], Any],
        pipeline: Pipeline,
    ) -> SinkRunner:
        name = f"{task.connector}-{task.task}"
        topics = parse_value(base.TOPICS, connector.get(base.TOPICS, ""), ConfigType.LIST)
        cluster = self.clients.cluster(f"connector-consumer-{name}", "consumer", connector)
        group = sink_group(connector, task.connector)

        def make_consumer(wanted: Sequence[str], **callbacks: Any) -> Any:
            return self.clients.consumer(
                f"connector-consumer-{name}", group, wanted, connector, **callbacks
            )

        def make_dead_letters(
            originals: Callable[[str, int, int], Record | None],
        ) -> DeadLetters | None:
            return self._dead_letters(task, connector, originals)

        return SinkRunner(
            task,
            state,
            self._listener,
            make=make,
            config=config,
            pipeline=pipeline,
            make_errors=lambda stopping, dead: ErrorHandler(task, connector, stopping, dead),
            make_dead_letters=make_dead_letters,
            cluster=cluster,
            make_consumer=make_consumer,
            topics=topics,
            pattern=connector.get(base.TOPICS_REGEX) or None,
            commit_interval_ms=self.config.number("offset.flush.interval.ms"),
        )

    def _dead_letters(
        self,
        task: TaskId,
        connector: Config,
        originals: Callable[[str, int, int], Record | None],
    ) -> DeadLetters | None:
        topic = connector.get(base.DEAD_LETTERS, "").strip()
        if not topic:
            return None
        name = f"{task.connector}-{task.task}"
        with self.clients.cluster(f"connector-adminclient-{name}", "admin", connector) as admin:
            factor = connector.get("errors.deadletterqueue.topic.replication.factor", "3")
            create_dead_letter_topic(admin, topic, int(factor))
        producer = self.clients.producer(f"connector-dlq-producer-{name}", connector)
        shows = connector.get("errors.deadletterqueue.context.headers.enable", "false")
        return DeadLetters(
            task,
            topic,
            producer,
            has_context=shows.strip().lower() == "true",
            originals=originals,
        )

    def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        """Stop tasks, all at once. Those that do not stop in time are given up."""
        runners = [self.tasks.pop(each) for each in tasks if each in self.tasks]
        for each in runners:
            each.stop()
        deadline = time.monotonic() + self._graceful_s
        for each in runners:
            each.join(max(deadline - time.monotonic(), 0.0))
            if each.is_alive():
                log.warning("task %s did not stop in time and is given up", each.task)
                each.cancel()

    def change(self, name: str, state: TargetState) -> Future[Any] | None:
        """Pause or resume the connector and the tasks of a name that run here."""
        for task, runner in self.tasks.items():
            if task.connector == name:
                runner.change(state)
        running = self.connectors.get(name)
        return None if running is None else running.change(state)

    def stop(self) -> None:
        """Stop everything."""
        for name in list(self.connectors):
            self.stop_connector(name)
        self.stop_tasks(list(self.tasks))
