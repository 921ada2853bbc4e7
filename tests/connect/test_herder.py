"""Several herders as machines, with one topic and one group: nothing runs twice, and all runs in the end."""

from __future__ import annotations

import itertools
import random
from collections import deque
from typing import Any

import pytest
from tests.support.run_seed import seeds

from odradek.core.connect import herder_messages as m
from odradek.core.connect.config_log import LogRecord, TaskId
from odradek.core.connect.herder import HerderMachine
from odradek.core.connect.herder_core import HerderSettings
from odradek.core.connect.status_log import StatusLog


class Host:
    """A worker: its machine, what has run here, and how far it has read."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name, self.read = lab, name, 0
        settings = HerderSettings(f"http://{name}/", name, delay_ms_max=1_000)
        self.machine = HerderMachine(settings, StatusLog(), lambda _: True, bytes)
        self.running: set[str | TaskId] = set()
        self.metadata: Any = None
        self.events: deque[m.Event] = deque([m.Started()])

    def catch_up(self) -> None:
        for offset in range(self.read, len(self.lab.log)):
            self.events.append(m.ConfigRead(*self.lab.log[offset], offset))
        self.read = len(self.lab.log)

    def work(self) -> None:
        while self.events:
            for each in self.machine.handle(self.lab.now_ms, self.events.popleft()):
                self.perform(each)

    def start(self, subject: str | TaskId) -> None:
        others = [each.name for each in self.lab.hosts if subject in each.running]
        assert not others, f"{subject} starts on {self.name} while it runs on {others}"
        self.running.add(subject)

    def perform(self, action: m.Action) -> None:
        match action:
            case m.Write(token, records):
                self.lab.log += list(records)
                self.catch_up()
                self.events.append(m.Done(token))
            case m.ReadToEnd(token):
                self.catch_up()
                self.events.append(m.Done(token))
            case m.ClaimPrivilege(token):
                self.events.append(m.Done(token))
            case m.Join():
                self.lab.must_rebalance = True
            case m.GoOn(metadata):
                self.metadata = dict(metadata)["sessioned"]
            case m.SendAssignments(_, assignments):
                self.lab.assignments = dict(assignments)
            case m.StartConnector(name):
                self.start(name)
                self.events.append(m.ConnectorStarted(name))
            case m.StopConnector(name):
                self.running.discard(name)
            case m.StartTask(task):
                self.start(task)
            case m.StopTasks(tasks):
                self.running -= set(tasks)
            case m.MakeTasks(name):
                count = int((self.machine.log.config(name) or {}).get("count") or 0)
                configs = [{"number": str(each)} for each in range(count)]
                self.events.append(m.TasksMade(name, configs))
            case m.SendTasks(name, url, configs):
                self.lab.send(self, name, url, configs)
            case m.Reply(number, _, error):
                self.lab.answer(number, error)
            case _:
                pass  # states are not looked at


class Lab:
    def __init__(self) -> None:
        self.now_ms, self.generation = 1_000, 0
        self.log: list[LogRecord] = []
        self.hosts: list[Host] = []
        self.numbers = itertools.count()
        self.must_rebalance = False
        self.assignments: dict[str, bytes] = {}
        self.sent: dict[int, tuple[Host, Host, str]] = {}
        """Sender, leader and connector of the configurations of tasks that wait for an answer."""

    def add(self) -> None:
        self.hosts.append(Host(self, f"w{next(self.numbers)}"))

    def kill(self, host: Host) -> None:
        self.hosts.remove(host)
        self.must_rebalance = True
        for number, (_, leader, _) in list(self.sent.items()):
            if leader is host:
                self.answer(number, ConnectionError("the leader is killed"))

    def send(self, sender: Host, name: str, url: str, configs: Any) -> None:
        """Send configurations of tasks to the leader. The sender hears of it when they are written."""
        number = next(self.numbers)
        leader = next((each for each in self.hosts if url == each.machine.settings.url), sender)
        self.sent[number] = sender, leader, name
        if leader is sender:
            self.answer(number, ConnectionError(url))
        else:
            leader.events.append(m.Asked(number, m.PutTasks(name, configs)))

    def answer(self, number: int, error: Exception | None) -> None:
        """Tell the sender of configurations of tasks, if this was about some."""
        if number in self.sent:
            sender, _, name = self.sent.pop(number)
            sender.events.append(m.TasksSent(name, error))

    def turn(self) -> None:
        """Let all work, then let the group rebalance if somebody has asked for it."""
        for each in self.hosts:
            each.events.append(m.Tick())
            each.work()
        if not self.must_rebalance or not self.hosts:
            return
        self.must_rebalance = False
        self.generation += 1
        for each in self.hosts:
            each.events.append(m.Rebalancing())
            each.work()
        leader = self.hosts[0]
        members = {each.name: each.metadata for each in self.hosts}
        wanted = m.AssignWanted("sessioned", members, leader.name, self.generation)
        leader.events.append(wanted)
        leader.work()
        for each in self.hosts:
            found = self.assignments[each.name]
            each.events.append(m.Assigned("sessioned", each.name, self.generation, found))
            # A worker stops what is taken from it before others start what they get next.
            each.work()

    def ask(self, request: m.Request) -> None:
        leader = next((each for each in self.hosts if each.machine.is_leader), None)
        if leader is not None:
            leader.events.append(m.Asked(next(self.numbers), request))


def play(seed: int) -> None:
    """Play random events, and check what runs in the end."""
    r = random.Random(seed)
    lab = Lab()
    lab.add()
    for _ in range(60):
        name = r.choice("abcd")
        match r.randrange(8):
            case 0 if len(lab.hosts) < 4:
                lab.add()
            case 1 if len(lab.hosts) > 1:
                lab.kill(r.choice(lab.hosts))
            case 2:
                lab.ask(m.DeleteConnector(name))
            case 3 | 4:
                config = {"count": str(r.randrange(5))}
                lab.ask(m.PutConnector(name, config, None, may_replace=True))
            case 5:
                lab.now_ms += r.choice([10, 2_000])
            case _:
                r.choice(lab.hosts).catch_up()
        lab.turn()
    for _ in range(60):
        lab.now_ms += 500
        for each in lab.hosts:
            each.catch_up()
        lab.turn()
    log = lab.hosts[0].machine.log
    wanted: list[str | TaskId] = list(log.connectors())
    wanted += [task for name in log.connectors() for task in log.tasks(name)]
    assert sorted(map(str, wanted)) == sorted(str(s) for h in lab.hosts for s in h.running)
    for name in log.connectors():
        assert len(log.tasks(name)) == int((log.config(name) or {})["count"] or 0)


@pytest.mark.parametrize("seed", seeds(30))
def test_all_work_runs_once(seed: int) -> None:
    play(seed)


def _revokes_nothing(machine: Any, work: Any) -> None:
    machine.running = machine.running.without(work)


def _ignores_changes(machine: Any, change: Any) -> None:
    machine._needs_rebalance = False


def _writes_no_tasks(machine: Any, name: str, configs: Any) -> Any:
    yield from ()


def _never_stops_for_new_tasks(machine: Any) -> None:
    machine._changed_tasks = {}
    machine._needs_rebalance = False


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("_revoke", _revokes_nothing),
        ("_note_change", _ignores_changes),
        ("_write_tasks", _writes_no_tasks),
        ("_act_on_changes", _never_stops_for_new_tasks),
    ],
)
def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch, name: str, planted: Any) -> None:
    monkeypatch.setattr(HerderMachine, name, planted)
    for seed in range(20):
        try:
            play(seed)
        except AssertionError:
            return
    raise AssertionError("20 seeds do not find it")
