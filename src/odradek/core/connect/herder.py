"""The herder of a distributed worker: it decides what runs here, and when the group rebalances.

    events:   records of the configurations    assignments    requests    what has been done
                          |                         |            |                |
                          v                         v            v                v
    herder:   catch up -> resolve the assignment -> serve requests -> act on changes -> wait
                          |                         |            |                |
                          v                         v            v                v
    actions:  read, write, join      start and stop work      reply      start again, stop

One procedure (`_live`) decides everything, one step after the other, as the thread of Apache Kafka's
herder does. It waits for some actions (those with a token), while events are only noted. The leader makes
assignments at once, also while the procedure waits: the whole group waits for them.

What the cluster shall run is in a topic, which all workers read. A worker acts on what it has read.
Only the leader writes connectors, tasks, restarts and keys; all others send it their requests.
An assignment is made for an offset of the topic, and a worker starts what it has got only if it
has read up to this offset, and no further.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.core.connect import herder_messages as m
from odradek.core.connect.assignor import Work
from odradek.core.connect.config_log import (
    Config,
    ConfigEvent,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerChanged,
    RestartAsked,
    SessionKey,
    SessionKeyChanged,
    StateChanged,
    TaskId,
    TasksChanged,
    session_key_record,
)
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.group_protocol import (
    EAGER,
    NO_ERROR,
    SESSIONED,
    VERSIONS,
    Assignment,
    Metadata,
    decode_assignment,
    encode_metadata,
)
from odradek.core.connect.herder_core import (
    PROTOCOLS,
    HerderSettings,
    Sleep,
    Steps,
    Wait,
)
from odradek.core.connect.herder_requests import HerderRequests
from odradek.core.connect.status_log import DESTROYED, Status, StatusLog

KEY_BYTES = 32
"""As Java's generator for HmacSHA256: a leader in Java replaces a key of another length."""
RETRIES = 5
"""How often a worker that cannot catch up tries again before it gives up what it runs."""
CLAIM_PAUSE_MS = 250


class HerderMachine(HerderRequests):
    """See the module."""

    def __init__(
        self,
        settings: HerderSettings,
        statuses: StatusLog,
        is_source: Callable[[Config], bool],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`statuses` is only read. `is_source` tells whether a configuration is that of a source."""
        super().__init__(settings, statuses, is_source, random_bytes)
        self._is_started = False
        self._news: m.Rebalancing | m.Assigned | None = None
        """The event of the group that was not acted upon."""
        self._has_lost_coordinator = False
        self._is_resolved = True
        self._can_read = True
        self._retries = RETRIES
        self._scheduled_ms: int | None = None
        """When the group is asked to rebalance, because work waits for a worker that has left."""
        self._changed_connectors: dict[str, None] = {}
        self._changed_states: dict[str, None] = {}
        self._changed_tasks: dict[str, None] = {}
        self._stopped_tasks: set[TaskId] = set()
        """Tasks that were stopped because their configuration has changed."""
        self._waits_for: Wait = None
        self._answer: Exception | None = None
        self._has_answer = False
        self._steps: Steps = self._live()
        next(self._steps)

    # -- events ---------------------------------------------------------------------------------

    def handle(self, now_ms: int, event: m.Event) -> list[m.Action]:
        """Take an event, and return what is to be done, in this order."""
        self._now_ms = now_ms
        self._note(event)
        while self._may_go_on():
            answer, self._answer, self._has_answer = self._answer, None, False
            self._waits_for = self._steps.send(answer)
            if self._waits_for is None:
                break
        found, self._out = self._out, []
        return found

    def _may_go_on(self) -> bool:
        if isinstance(self._waits_for, Sleep):
            return self._now_ms >= self._waits_for.until_ms
        return self._waits_for is None or self._has_answer

    @property
    def next_deadline_ms(self) -> int | None:
        """When `handle` must be called again with `Tick`, if nothing happens before."""
        if isinstance(self._waits_for, Sleep):
            return self._waits_for.until_ms
        if self._waits_for is not None or not self._is_started:
            return None
        scheduled_ms = self._scheduled_ms if self.is_member else None
        due = [self._next_due_ms(), scheduled_ms, self._key_expires_ms()]
        return min((each for each in due if each is not None), default=None)

    def _note(self, event: m.Event) -> None:
        """Note an event. Only assignments are made at once."""
        match event:
            case m.ConfigRead(key, value, offset):
                for each in self.log.replay(key, value, offset):
                    self._note_change(each)
            case m.Done(token, error):
                if token == self._waits_for:
                    self._answer, self._has_answer = error, True
            case m.Started():
                self._is_started = True
                self._out.append(m.Join())
            case m.AssignWanted(protocol, members, member_id, generation):
                assignments = self._leader.assign(
                    self.log,
                    protocol,
                    members,
                    leader=member_id,
                    last_generation=self._generation,
                    generation=generation,
                    now_ms=self._now_ms,
                )
                self._out.append(m.SendAssignments(generation, assignments))
            case m.Rebalancing() | m.Assigned():
                self.is_member = False
                self._news = event
            case m.CoordinatorLost():
                self._has_lost_coordinator = True
            case m.Tick():
                pass
            case _:
                self._note_request(event)

    def _note_change(self, change: ConfigEvent) -> None:
        if not self._is_started:
            return
        match change:
            case ConnectorChanged(name, is_new):
                self._needs_rebalance |= is_new
                self._changed_connectors[name] = None
            case ConnectorRemoved():
                self._needs_rebalance = True
            case TasksChanged(name, _):
                self._needs_rebalance = True
                self._changed_tasks[name] = None
                self._fail_fencing(name)
            case StateChanged(name):
                self._changed_states[name] = None
            case RestartAsked(request):
                known = self._restarts.get(request.connector)
                if known is None or request.impact > known.impact:
                    self._restarts[request.connector] = request
            case LoggerChanged(name, level):
                self._out.append(m.SetLogger(name, level))
            case SessionKeyChanged():
                pass  # it is looked at in each turn

    # -- the procedure --------------------------------------------------------------------------

    def _live(self) -> Steps:
        while True:
            yield None
            while self._is_started:
                yield from self._tick()
                if not self._has_more():
                    break

    def _has_more(self) -> bool:
        """Whether something has come meanwhile that needs another turn."""
        if self._news is not None or self._has_lost_coordinator or not self._can_read:
            return True
        return self.is_member and bool(self._due) and self._due[0].at_ms <= self._now_ms

    def _tick(self) -> Steps:
        if self._has_lost_coordinator:
            self._give_all_up()
        if not self._can_read:
            self._can_read = yield from self._catch_up()
            if not self._can_read:
                return
            self._join()
        while self._news is not None:
            yield from self._take_news()
        if not self.is_member or not (yield from self._resolve()):
            self._expire_requests()
            return
        if self._must_claim and not (yield from self._claim()):
            return
        if not (yield from self._rotate_key()):
            return
        yield from self._serve_requests()
        self._serve_restarts()
        self._act_on_changes()

    def _join(self) -> None:
        """Join again. Until then, nobody is answered."""
        self.is_member = False
        self._out.append(m.Join())

    # -- the group ------------------------------------------------------------------------------

    def metadata(self) -> list[tuple[str, bytes]]:
        """Return what this worker says about itself, for each protocol that it offers."""
        log, url = self.log, self.settings.url
        return [
            (name, encode_metadata(Metadata(url, log.offset, self.assignment, VERSIONS[name])))
            for name in PROTOCOLS[self.settings.protocol]
        ]

    def _take_news(self) -> Steps:
        news, self._news = self._news, None
        if isinstance(news, m.Assigned):
            yield from self._take_assignment(news)
        elif news is not None:
            self._leader.forget()
            if news.is_lost:
                self._member_id = ""
            if self.protocol == EAGER and self.assignment is not None:
                self._revoke(self.assignment.work)
                self.assignment = None
        self._out.append(m.GoOn(self.metadata()))

    def _take_assignment(self, joined: m.Assigned) -> Steps:
        found = decode_assignment(joined.assignment)
        self.protocol = joined.protocol
        work = found.work
        if self.protocol != EAGER:
            if found.revoked:
                self._revoke(found.revoked)
            if self.assignment is not None:
                work = work.and_also(self.assignment.work.without(found.revoked))
        self.assignment = Assignment(
            found.error,
            found.leader,
            found.leader_url,
            found.config_offset,
            work,
            found.revoked,
            found.delay_ms,
            found.version,
        )
        self._generation = joined.generation
        self._member_id = joined.member_id
        self.is_member = self._news is None
        self._scheduled_ms = self._now_ms + found.delay_ms if found.delay_ms > 0 else None
        self._is_resolved = False
        if self.is_leader:
            self._clean_statuses()
            self._must_claim = True
            yield from self._claim(pauses=False)

    def _clean_statuses(self) -> None:
        """Delete the states of what does not exist any more."""
        gone = Status(DESTROYED, self.settings.worker_id, self._generation)
        for name in self._statuses.connectors():
            if name not in self.log:
                self._out.append(m.WriteStatus(name, gone))
        for task in list(self._statuses.all_tasks()):
            if task not in self.log.tasks(task.connector):
                self._out.append(m.WriteStatus(task, gone))

    def _claim(self, *, pauses: bool = True) -> Steps:
        """Become the one that writes what only the leader writes."""
        if not self.is_leader:
            self._must_claim = False
            return True
        try:
            yield from self._do(
                "reclaiming write privileges for the config topic", m.ClaimPrivilege
            )
        except ConnectError:
            if pauses:
                yield from self._sleep(CLAIM_PAUSE_MS)
            return False
        self._must_claim = False
        return True

    def _revoke(self, work: Work) -> None:
        """Stop work, which another worker may get in the next round."""
        if work.tasks:
            self._out.append(m.StopTasks(tuple(work.tasks)))
        self._out.extend(m.StopConnector(each) for each in work.connectors)
        self.running = self.running.without(work)
        names = dict.fromkeys([*work.connectors, *(each.connector for each in work.tasks)])
        self._out.extend(m.ForgetTopics(each) for each in names if each not in self.log)
        self._out.append(m.FlushStatuses())

    def _give_all_up(self) -> None:
        """Stop everything: the coordinator may have given it to others."""
        self._has_lost_coordinator = False
        if self.running:
            self._revoke(self.running)
        self.assignment = None
        self._is_resolved = True
        self._join()

    def _resolve(self) -> Steps:
        """Act on an assignment. Return whether nothing is left to do."""
        if self._is_resolved and (self._scheduled_ms is None or self._now_ms < self._scheduled_ms):
            return True
        given = self.assignment
        assert given is not None, "a member has an assignment"
        joins_again = given.error != NO_ERROR
        must_read = self.log.offset < given.config_offset or (joins_again and self.is_leader)
        if self._scheduled_ms is not None and self._now_ms >= self._scheduled_ms:
            self._scheduled_ms = None
            joins_again = True
        if must_read and not (yield from self._catch_up()):
            self._can_read = False
            joins_again = True
        if self.log.offset != given.config_offset:
            joins_again = True  # the assignment is outdated
        if joins_again:
            self._join()
            return False
        self._start_work(given)
        self._is_resolved = True
        if given.revoked:
            self._join()
            return False
        return True

    def _catch_up(self) -> Steps:
        """Read to the end. If that takes too long, leave the group, and wait."""
        try:
            yield from self._read_to_end()
        except ConnectError:
            self.is_member = False
            self._out.append(m.Leave("taking too long to read the log"))
            if self._retries:
                pause_ms = self.settings.delay_ms_max // 10 // self._retries
                self._retries -= 1
                yield from self._sleep(pause_ms)
                return False
            self._retries = RETRIES
            self._revoke(self.running)
            self.assignment = None
            yield from self._sleep(CLAIM_PAUSE_MS)
            return False
        self._retries = RETRIES
        return True

    # -- work -----------------------------------------------------------------------------------

    def _start_work(self, given: Assignment) -> None:
        present = Work(
            self.running.connectors,
            [each for each in self.running.tasks if each not in self._stopped_tasks],
        )
        self._stopped_tasks.clear()
        new = given.work.without(present)
        self.running = given.work.copy()
        for name in new.connectors:
            self._start_connector(name)
        for task in new.tasks:
            self._start_task(task)

    def _act_on_changes(self) -> None:
        """Do what changes of the configurations ask for."""
        if self._needs_rebalance:
            self._needs_rebalance = False
            self._join()
        connectors, self._changed_connectors = self._changed_connectors, {}
        for name in connectors:
            if name in self.running.connectors:
                self._out.append(m.StopConnector(name))
                self._start_connector(name)
        states, self._changed_states = self._changed_states, {}
        for name in states:
            state = self.log.target_state(name)
            if state is not None:
                self._out.append(m.ChangeState(name, state))
        names, self._changed_tasks = self._changed_tasks, {}
        tasks = [
            each
            for each in self.running.tasks
            if each.connector in names and each not in self._stopped_tasks
        ]
        if tasks:
            self._out.append(m.StopTasks(tuple(tasks)))
            self._stopped_tasks.update(tasks)

    # -- the key --------------------------------------------------------------------------------

    def _key_expires_ms(self) -> int | None:
        """Return when the leader replaces the key; None if this is not a leader with a good key."""
        key = self.log.session_key
        if not self.is_leader or self.protocol != SESSIONED or key is None:
            return None
        return key.created_ms + self.settings.key_ttl_ms if self.settings.key_ttl_ms > 0 else None

    def _rotate_key(self) -> Steps:
        """Write a new key if it is time to."""
        if not self.is_leader or self.protocol != SESSIONED:
            return True
        key, settings = self.log.session_key, self.settings
        expires_ms = self._key_expires_ms()
        if (
            key is not None
            and (expires_ms is None or self._now_ms < expires_ms)
            and key.algorithm == settings.key_algorithm
            and len(key.secret) == KEY_BYTES
        ):
            return True
        new = SessionKey(self._random_bytes(KEY_BYTES), settings.key_algorithm, self._now_ms)
        try:
            yield from self._write(
                "writing a new session key to the config topic", [session_key_record(new)]
            )
        except ConnectError:
            self._can_read = False
            return False
        return True
