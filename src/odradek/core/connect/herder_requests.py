"""What a herder does when somebody asks: users, other workers, connectors that run here."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from odradek.core.connect import answers
from odradek.core.connect import config_log as records
from odradek.core.connect import herder_messages as m
from odradek.core.connect.config_log import Config, RestartRequest, TargetState, TaskId
from odradek.core.connect.errors import ConnectError, bad_request, conflict, not_found
from odradek.core.connect.herder_core import HerderCore, HerderSettings, Steps
from odradek.core.connect.status_log import RESTARTING, Status, StatusLog

REQUEST_WAIT_MS = 10_000
"""How long a request waits for the end of a rebalance before the answer is 409."""
RETRY_MS, RETRY_MS_MAX = 250, 60_000
"""The pause before the tasks of a connector are made again; it doubles."""
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent "
    "config change)"
)
FENCING_OUTDATED = (
    "Failed to complete zombie fencing because a new set of task configs was generated"
)
_CHECKED = (m.Look, m.RestartConnector, m.RestartTask, m.RestartMany, m.MayChangeOffsets)
"""What is answered with 409 if a rebalance does not end in time. Others wait as long as it takes."""


@dataclass(order=True, slots=True)
class _Due:
    """Something to do at a time. `number` is that of a request; None if nobody waits for an answer."""

    at_ms: int
    sequence: int
    run: Callable[[], Steps] = field(compare=False)
    number: int | None = field(compare=False, default=None)
    expires_ms: int | None = field(compare=False, default=None)


@dataclass(slots=True)
class _Fencing:
    """A round of fencing: of which task configurations, and who waits for it."""

    generation: int
    task_count: int
    then: list[Callable[[Exception | None], None]] = field(default_factory=list)


class HerderRequests(HerderCore):
    """See the module."""

    def __init__(
        self,
        settings: HerderSettings,
        statuses: StatusLog,
        is_source: Callable[[Config], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        super().__init__(settings, statuses, is_source, random_bytes)
        self._needs_rebalance = False
        """Whether something was read that changes what the group shall run."""
        self._due: list[_Due] = []
        self._sequence = 0
        self._restarts: dict[str, RestartRequest] = {}
        """The restart that is asked for, by connector: the one with the highest impact."""
        self._fencings: dict[str, _Fencing] = {}
        self._attempts: dict[str, int] = {}
        """How often making the tasks of a connector has failed."""
        self._handlers: dict[type, Callable[[int, Any], Steps]] = {
            m.Look: self._look,
            m.MergeConfig: self._merge_config,
            m.PutConnector: self._put_connector,
            m.DeleteConnector: self._delete_connector,
            m.SetState: self._set_state,
            m.StopConnectorAndTasks: self._stop_connector,
            m.RestartConnector: self._restart_connector,
            m.RestartTask: self._restart_task,
            m.RestartMany: self._restart_many,
            m.PutTasks: self._put_tasks,
            m.FenceTasks: self._fence_tasks,
            m.CheckTask: self._check_task,
            m.MayChangeOffsets: self._may_change_offsets,
            m.SetClusterLogger: self._set_logger,
        }

    # -- the queue ------------------------------------------------------------------------------

    def _add(
        self,
        run: Callable[[], Steps],
        *,
        delay_ms: int = 0,
        number: int | None = None,
        expires_ms: int | None = None,
    ) -> None:
        self._sequence += 1
        due = _Due(self._now_ms + delay_ms, self._sequence, run, number, expires_ms)
        heapq.heappush(self._due, due)

    def _note_request(self, event: m.Event) -> None:
        """Note what somebody asks for, or what was done for it."""
        match event:
            case m.Asked(number, request):
                handler = self._handlers[type(request)]
                is_checked = isinstance(request, _CHECKED)
                self._add(
                    lambda: handler(number, request),
                    number=number,
                    expires_ms=self._now_ms + REQUEST_WAIT_MS if is_checked else None,
                )
            case m.ConnectorStarted(name):
                self._add(lambda: self._make_tasks(name))
            case m.TasksMade():
                self._add(lambda: self._take_tasks(event))
            case m.TasksSent(name, error):
                self._add(lambda: self._tasks_sent(name, error))
            case m.Fenced(name, error):
                self._add(lambda: self._fenced(name, error))
            case _:
                raise AssertionError(f"this is no request: {event}")

    def _next_due_ms(self) -> int | None:
        """Return when something is due, or a request gets its answer 409."""
        if self.is_member:
            return self._due[0].at_ms if self._due else None
        return min((d.expires_ms for d in self._due if d.expires_ms is not None), default=None)

    def _expire_requests(self) -> None:
        """Answer the requests that have waited too long for the end of a rebalance."""
        late = [d for d in self._due if d.expires_ms is not None and d.expires_ms <= self._now_ms]
        for each in late:
            self._due.remove(each)
            assert each.number is not None, "only requests expire"
            self._refuse(each.number, conflict(STALE))
        heapq.heapify(self._due)

    def _serve_requests(self) -> Steps:
        """Do what is due. What may be outdated soon waits for the end of the rebalance."""
        held: list[_Due] = []
        while self._due and self._due[0].at_ms <= self._now_ms and self.is_member:
            due = heapq.heappop(self._due)
            if due.expires_ms is not None and self._needs_rebalance:
                held.append(due)
                continue
            try:
                yield from due.run()
            except Exception as error:
                # As in Apache Kafka, whatever goes wrong is the answer.
                if due.number is not None:
                    self._refuse(due.number, error)
                elif not isinstance(error, ConnectError):
                    raise
        for each in held:
            heapq.heappush(self._due, each)

    # -- checks ---------------------------------------------------------------------------------

    def _need_leader(self, message: str) -> None:
        if not self.is_leader:
            raise m.Redirect(message, self.leader_url)

    def _need(self, name: str, text: str = "Connector {} not found") -> None:
        if name not in self.log:
            raise not_found(text.format(name))

    def _look(self, number: int, _: m.Look) -> Steps:
        self._reply(number)
        yield from ()

    # -- configurations -------------------------------------------------------------------------

    def _merge_config(self, number: int, asked: m.MergeConfig) -> Steps:
        self._need_leader("Only the leader can set connector configs.")
        present = self.log.config(asked.name)
        if present is None:
            raise not_found(f"Connector {asked.name} not found")
        merged = {**present, **asked.patch}
        gone = {name for name, value in asked.patch.items() if value is None}
        self._reply(number, {k: v for k, v in merged.items() if k not in gone})
        yield from ()

    def _put_connector(self, number: int, asked: m.PutConnector) -> Steps:
        self._need_leader("Only the leader can set connector configs.")
        is_new = asked.name not in self.log
        if not is_new and not asked.may_replace:
            raise conflict(f"Connector {asked.name} already exists")
        yield from self._write(
            f"writing a config for connector {asked.name} to the config topic",
            records.connector_records(asked.name, asked.config, asked.state),
        )
        self._reply(number, is_new)

    def _delete_connector(self, number: int, asked: m.DeleteConnector) -> Steps:
        self._need_leader("Only the leader can delete connector configs.")
        self._need(asked.name)
        yield from self._write(
            f"removing the config for connector {asked.name} from the config topic",
            records.removal_records(asked.name),
        )
        self._reply(number)

    def _set_state(self, number: int, asked: m.SetState) -> Steps:
        self._need(asked.name, "Unknown connector {}")
        yield from self._write_plainly(
            f"writing the target state of connector {asked.name} to the config topic",
            [records.target_state_record(asked.name, asked.state)],
            reads_back=False,
        )
        self._reply(number)

    def _stop_connector(self, number: int, asked: m.StopConnectorAndTasks) -> Steps:
        """Delete the tasks first: a connector without tasks that runs does no harm."""
        self._need(asked.name, "Unknown connector {}")
        self._need_leader("Only the leader can transition connectors to the STOPPED state.")
        yield from self._write_tasks(asked.name, [])
        yield from self._write_plainly(
            f"writing the STOPPED target stage for connector {asked.name} to the config topic",
            [records.target_state_record(asked.name, TargetState.STOPPED)],
            reads_back=True,
        )
        self._reply(number)

    def _set_logger(self, number: int, asked: m.SetClusterLogger) -> Steps:
        yield from self._write_plainly(
            "writing the level of a logger to the config topic",
            [records.logger_record(asked.name, asked.level)],
            reads_back=False,
        )
        self._reply(number)

    # -- tasks ----------------------------------------------------------------------------------

    def _make_tasks(self, name: str) -> Steps:
        """Ask a connector that runs here for its tasks."""
        if name in self.running.connectors and self.log.target_state(name) == TargetState.STARTED:
            self._out.append(m.MakeTasks(name))
        yield from ()

    def _take_tasks(self, made: m.TasksMade) -> Steps:
        """Write configurations of tasks, or send them to the leader, if they are new."""
        name = made.name
        if made.error is not None:
            if not made.is_final:
                self._make_tasks_later(name)
            return
        if name not in self.running.connectors or not self.log.needs_tasks(
            name, list(made.configs)
        ):
            self._attempts.pop(name, None)
            return
        if not self.is_leader:
            url = self.leader_url
            if url is None:
                self._make_tasks_later(name)
            else:
                self._out.append(m.SendTasks(name, url, made.configs, self.log.session_key))
            return
        try:
            yield from self._write_tasks(name, made.configs)
        except ConnectError:
            self._make_tasks_later(name)
            return
        self._attempts.pop(name, None)

    def _tasks_sent(self, name: str, error: Exception | None) -> Steps:
        if error is None:
            self._attempts.pop(name, None)
        else:
            self._make_tasks_later(name)
        yield from ()

    def _make_tasks_later(self, name: str) -> None:
        attempt = self._attempts.get(name, 0)
        self._attempts[name] = attempt + 1
        delay_ms = min(RETRY_MS * 2 ** min(attempt, 20), RETRY_MS_MAX)
        self._add(lambda: self._make_tasks(name), delay_ms=delay_ms)

    def _put_tasks(self, number: int, asked: m.PutTasks) -> Steps:
        self._need_leader("Only the leader may write task configurations.")
        self._need(asked.name)
        yield from self._write_tasks(asked.name, asked.configs)
        self._reply(number)

    def _write_tasks(self, name: str, configs: Sequence[Config]) -> Steps:
        """Write configurations of tasks, and then that they are complete."""
        if configs and self.log.target_state(name) == TargetState.STOPPED:
            raise bad_request(
                f"Cannot submit non-empty set of task configs for stopped connector {name}"
            )
        stage = f"writing {len(configs)} task configs for connector {name} to the config topic"
        yield from self._read_to_end()
        *tasks, commit = records.task_records(name, configs)
        if tasks:
            yield from self._write(stage, tasks)
        yield from self._write(stage, [commit])

    # -- restarts -------------------------------------------------------------------------------

    def _need_owner(self, subject: str | TaskId, kind: str) -> None:
        """Check that this worker runs a connector or a task.

        Raises:
            Redirect: another one does.
        """
        mine = self.running.tasks if isinstance(subject, TaskId) else self.running.connectors
        if subject in mine:
            return
        text = f"Cannot restart {kind} since it is not assigned to this member"
        url = self._leader.owner_url(subject) if self.is_leader else self.leader_url
        raise m.Redirect(text, url)

    def _restart_connector(self, number: int, asked: m.RestartConnector) -> Steps:
        self._need(asked.name, "Unknown connector: {}")
        self._need_owner(asked.name, "connector")
        self._out.append(m.StopConnector(asked.name))
        self._start_connector(asked.name, number)
        yield from ()

    def _restart_task(self, number: int, asked: m.RestartTask) -> Steps:
        self._need(asked.task.connector, "Unknown connector: {}")
        if self.log.task_config(asked.task) is None:
            raise not_found(f"Unknown task: {asked.task}")
        self._need_owner(asked.task, "task")
        self._out.append(m.StopTasks((asked.task,)))
        self._start_task(asked.task, number)
        yield from ()

    def _restart_many(self, number: int, asked: m.RestartMany) -> Steps:
        request = asked.request
        name = request.connector
        self._need(name, "Unknown connector: {}")
        self._need_leader("Only the leader can process restart requests.")
        yield from self._write(
            f"writing restart request for connector {name} to the config topic",
            [records.restart_record(request)],
        )
        plan = self._plan(request)
        if plan is None:
            raise not_found(f"Status for connector {name} not found")
        kind = "source" if self._is_source(self.log.config(name) or {}) else "sink"
        self._reply(number, plan.answer(kind))

    def _plan(self, request: RestartRequest) -> answers.RestartPlan | None:
        status = self._statuses.connector(request.connector)
        return None if status is None else answers.RestartPlan(request, self._statuses, status)

    def _serve_restarts(self) -> None:
        """Restart the parts that run here."""
        restarts, self._restarts = self._restarts, {}
        for name, request in restarts.items():
            plan = self._plan(request)
            if plan is None:
                continue
            tasks = [each for each in plan.tasks if each in self.running.tasks]
            restarts_connector = plan.restarts_connector and name in self.running.connectors
            if restarts_connector:
                self._out.append(m.StopConnector(name))
                self._out.append(m.WriteStatus(name, self._restarting()))
            if tasks:
                self._out.append(m.StopTasks(tuple(tasks)))
                self._out.extend(m.WriteStatus(each, self._restarting()) for each in tasks)
            if restarts_connector:
                self._start_connector(name)
            for each in tasks:
                self._start_task(each)

    def _restarting(self) -> Status:
        return Status(RESTARTING, self.settings.worker_id, self._generation)

    # -- exactly-once sources -------------------------------------------------------------------

    def _fence_tasks(self, number: int, asked: m.FenceTasks) -> Steps:
        def then(error: Exception | None) -> None:
            if error is None:
                self._reply(number)
            else:
                self._refuse(number, error)

        yield from self._fence(asked.name, then)

    def _fence(self, name: str, then: Callable[[Exception | None], None]) -> Steps:
        """Fence the tasks of earlier configurations, if there can be any. `then` hears the end."""
        self._need_leader("Only the leader may perform zombie fencing.")
        self._need(name)
        if not self._is_source(self.log.config(name) or {}):
            raise bad_request(f"Connector {name} is not a source connector")
        yield from self._read_to_end()
        recorded, count = self.log.fenced_count(name), self.log.task_count(name)
        if not self.log.must_fence(name):
            then(None)
            return
        # One task fences the one before it by itself: both have the same transactional id.
        if recorded is not None and (recorded, count) != (1, 1):
            known = self._fencings.get(name)
            if known is None:
                known = _Fencing(self.log.task_generation(name), count)
                self._fencings[name] = known
                self._out.append(m.FenceProducers(name, recorded))
            known.then.append(then)
            return
        yield from self._record_fencing(name, count)
        then(None)

    def _record_fencing(self, name: str, count: int) -> Steps:
        yield from self._write(
            f"writing a task count record for connector {name} to the config topic",
            [records.fencing_record(name, count)],
        )

    def _fenced(self, name: str, error: Exception | None) -> Steps:
        """Note in the topic that earlier tasks are fenced, unless there are newer ones meanwhile."""
        fencing = self._fencings.get(name)
        if fencing is None:
            return
        try:
            if error is not None:
                raise error
            yield from self._read_to_end()
            if name not in self._fencings:
                return
            if fencing.generation < self.log.task_generation(name):
                raise conflict(
                    "Fencing failed because new task configurations were generated for the connector"
                )
            yield from self._record_fencing(name, fencing.task_count)
            self._end_fencing(name, None)
        except ConnectError as failure:
            self._end_fencing(name, failure)

    def _end_fencing(self, name: str, error: Exception | None) -> None:
        fencing = self._fencings.pop(name, None)
        for each in fencing.then if fencing is not None else ():
            each(error)

    def _fail_fencing(self, name: str) -> None:
        """End a round of fencing, because the tasks have new configurations."""
        self._end_fencing(name, conflict(FENCING_OUTDATED))

    def _check_task(self, number: int, asked: m.CheckTask) -> Steps:
        task = asked.task
        yield from self._read_to_end()
        if self.log.task_generation(task.connector) != asked.generation:
            raise ConnectError(
                f"Cannot start source task {task} with exactly-once support as the connector has already "
                "generated a new set of task configs"
            )
        if self.assignment is None or task not in self.assignment.work.tasks:
            raise ConnectError(
                f"Cannot start source task {task} as it has already been revoked from this worker"
            )
        self._reply(number)

    # -- offsets --------------------------------------------------------------------------------

    def _may_change_offsets(self, number: int, asked: m.MayChangeOffsets) -> Steps:
        yield from self._check_stopped(asked.name)
        if not asked.must_fence or not self._is_source(self.log.config(asked.name) or {}):
            self._reply(number)
            return

        def again() -> Steps:
            yield from self._check_stopped(asked.name)
            self._reply(number)

        def then(error: Exception | None) -> None:
            if error is None:
                self._add(again, number=number)
                return
            text = (
                "Failed to perform zombie fencing for source connector prior to modifying offsets"
            )
            failure = ConnectError(text)
            failure.__cause__ = error
            self._refuse(number, failure)

        yield from self._fence(asked.name, then)

    def _check_stopped(self, name: str) -> Steps:
        self._need_leader("Only the leader can process external offsets modification requests")
        yield from self._read_to_end()
        self._need(name)
        if self.log.target_state(name) != TargetState.STOPPED or self.log.task_count(name):
            raise bad_request(answers.MUST_BE_STOPPED.format(name=name))
