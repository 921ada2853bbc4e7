"""A simulation of a quorum: real machines on a simulated log, disk and network.

The seed determines all events of a `Cluster`. The network delays, drops, duplicates and reorders
messages, and is partitioned in one or both directions. Nodes crash, also a majority at once, and
lose the entries that are not flushed. Nodes are paused, shut down, take snapshots, and delete the
log before the snapshots.

`Checks` does not use the state of the machines. It compares the entries that a node reports as
committed with the entries that any node has reported before. A violation raises `Violation` with
the seed and the last events.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import replace

from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import (
    ElectionPersisted,
    RequestReceived,
    Resign,
    ResponseReceived,
    SnapshotWritten,
)
from odradek.core.raft.machine import RaftMachine
from odradek.core.raft.messages import (
    AddVoterRequest,
    FetchResponse,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    VersionsRequest,
    VersionsResponse,
)
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voters import VoterSet
from odradek.model.errors import ErrorCode

from .checks import Checks, Violation
from .simulated_log import Entry, Log, Snapshot, voter

SETTINGS = RaftSettings(
    election_timeout_ms=150,
    election_backoff_max_ms=150,
    fetch_timeout_ms=300,
    request_timeout_ms=200,
    fetch_max_wait_ms=80,
)
HASTY = replace(SETTINGS, election_timeout_ms=20, fetch_timeout_ms=60, request_timeout_ms=40)
"""Timeouts with which replicas often start elections at the same time."""
PART = 3
"""Records in one part of a snapshot."""


class Node:
    """One node, with its disk and its clock."""

    def __init__(self, cluster, node_id, voters):
        self.id = node_id
        self.cluster = cluster
        self.voter = voter(node_id)
        self.log = Log(voters)
        self.election = ElectionState()
        self.life = 0
        self.is_alive = False
        self.is_paused = False
        self.held = []
        self.machine = None
        self.committed = -1
        self.leads = -1

    def start(self):
        self.life += 1
        self.is_alive = True
        self.committed = -1
        self.leads = -1
        self.is_flushing = False
        self.timer = None
        self.download = []
        self.disk_free = 0
        self.machine = RaftMachine(
            self.voter, self.log, self.election, self.cluster.settings, self.cluster.rng.randbytes
        )
        self._perform(self.machine.start(self.cluster.now))
        self.poll()

    def crash(self):
        self.is_alive = False
        self.is_paused = False
        self.held.clear()
        self.log.crash(self.cluster.rng)

    def later(self, delay, function, *arguments):
        """Call a function later, or when a paused node resumes. After a crash it is not called."""
        life = self.life

        def run():
            if not self.is_alive or life != self.life:
                return
            if self.is_paused:
                self.held.append(run)
            else:
                function(*arguments)

        self.cluster.schedule(delay, run)

    def resume(self):
        self.is_paused = False
        held, self.held = self.held, []
        for each in held:
            each()

    # -- the machine ----------------------------------------------------------------------------

    def step(self, event):
        self._perform(self.machine.step(self.cluster.now, event))
        self.poll()

    def poll(self):
        while self.is_alive and (effects := self.machine.poll(self.cluster.now)):
            self._perform(effects)
        self._flush()
        deadline = self.machine.next_deadline_ms(self.cluster.now)
        if deadline is not None and deadline != self.timer:
            self.timer = deadline
            self.later(max(1, deadline - self.cluster.now), self._on_timer, deadline)

    def _on_timer(self, deadline):
        if self.timer == deadline:
            self.timer = None
            self.poll()

    def _perform(self, effects):
        for effect in effects:
            getattr(self, f"_{type(effect).__name__}")(effect)

    def _flush(self):
        if not self.is_flushing and self.log.flushed_offset < self.log.end_offset:
            self.is_flushing = True
            generation = (self.log.end_offset, self.log.last_epoch)
            self.later(self.cluster.rng.randint(0, 8), self._flushed, generation)

    def _flushed(self, generation):
        self.is_flushing = False
        end_offset, epoch = generation
        if self.log.end_offset_for(epoch).offset >= end_offset:  # not truncated since
            self.log.flushed_offset = max(self.log.flushed_offset, end_offset)
        self.poll()

    # -- effects --------------------------------------------------------------------------------

    def _PersistElection(self, effect):
        now = self.cluster.now
        self.disk_free = max(self.disk_free, now) + self.cluster.rng.randint(0, 8)
        self.later(self.disk_free - now, self._persisted, effect.election)

    def _persisted(self, election):
        is_vote = election.voted not in (None, self.voter.key)
        moment = self.cluster.rng.random() if is_vote else 0.5
        if moment < self.cluster.crashes_of_voters / 2:
            self.cluster.crash_and_restart(self)
            return
        self.election = election
        self.step(ElectionPersisted(election))
        if self.is_alive and moment > 1 - self.cluster.crashes_of_voters:
            self.cluster.crash_and_restart(self)

    def _SendRequest(self, effect):
        token = (self.id, self.life, effect.request_id)
        target = self.cluster.nodes[effect.destination.node_id]
        if isinstance(effect.request, VersionsRequest):
            if target.is_alive:
                event = ResponseReceived(effect.request_id, VersionsResponse(kraft_version_max=1))
                self.cluster.send(target, self, event, self.life)
            return
        self.cluster.send(self, target, RequestReceived(token, effect.request))

    def _Respond(self, effect):
        if effect.token is None:
            return
        node_id, life, request_id = effect.token
        if node_id < 0:
            self.cluster.on_answer(effect.response)
            return
        target = self.cluster.nodes[node_id]
        event = ResponseReceived(request_id, self._filled(effect.response))
        self.cluster.send(self, target, event, life)

    def _filled(self, response):
        log = self.log
        if isinstance(response, FetchResponse) and response.read_offset >= 0:
            first = response.read_offset
            end = min(log.end_offset, first + self.cluster.batch)
            records = tuple((offset, log.at(offset)) for offset in range(first, end))
            return replace(response, records=records)
        if isinstance(response, FetchSnapshotResponse) and not response.error:
            found = log.snapshots.get(response.snapshot)
            if found is None:
                return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
            data = found.entries[response.position : response.position + PART]
            return replace(response, size=len(found.entries), data=data)
        return response

    def _BecomeLeader(self, effect):
        self.cluster.note(f"{self.id} leads {effect.epoch} from {effect.start_offset}")
        assert effect.start_offset == self.log.end_offset
        self.cluster.checks.on_leader(self, effect.epoch)
        self.log.append(Entry(effect.epoch, f"leader {self.id}"))
        self.leads = effect.epoch

    def _StopLeading(self, effect):
        self.cluster.note(f"{self.id} stops leading {effect.epoch}")
        self.leads = -1

    def _FollowLeader(self, effect):
        self.cluster.note(f"{self.id} follows {effect.leader_id} in {effect.epoch}")

    def _AppendRecords(self, effect):
        for offset, entry in effect.records:
            assert offset == self.log.end_offset, "records continue the log"
            self.log.append(entry)

    def _AppendVoters(self, effect):
        self.cluster.note(f"{self.id} changes the voters to {list(effect.voters.voters)}")
        self.log.append(Entry(effect.epoch, effect.voters))

    def _Truncate(self, effect):
        self.cluster.note(f"{self.id} truncates {self.log.end_offset} to {effect.offset}")
        self.log.truncate(effect.offset)
        self.log.is_ready = False
        self.later(self.cluster.rng.randint(0, 8), self._truncated)

    def _truncated(self):
        self.log.is_ready = True
        self.poll()

    def _WriteSnapshot(self, effect):
        if effect.position == 0:
            self.download = []
        self.download += effect.data
        if effect.is_last:
            self.log.is_ready = False
        self.later(self.cluster.rng.randint(0, 8), self._snapshot_written, effect)

    def _snapshot_written(self, effect):
        if effect.is_last:
            self.log.is_ready = True
            self.cluster.note(f"{self.id} installs {effect.snapshot}")
            entries = tuple(self.download)
            sets = [each.value for each in entries if isinstance(each.value, VoterSet)]
            voters = sets[-1] if sets else self.cluster.first_voters
            self.log.install(effect.snapshot, Snapshot(entries, voters))
        self.step(SnapshotWritten(effect.snapshot))

    def _CommitUpTo(self, effect):
        self.cluster.checks.on_commit(self, effect.offset)
        self.committed = effect.offset


class Cluster:
    """The nodes, the network and the time."""

    def __init__(self, seed, size=3, observers=0, hasty=False, auto_join=False):
        """`hasty`: elections are frequent, and nodes often crash while they vote. `auto_join`: the
        observers become voters by themselves."""
        self.seed = seed
        self.settings = replace(HASTY if hasty else SETTINGS, auto_join=auto_join)
        self.batch = 1 if hasty else 4
        """Maximum number of records in one response to a fetch."""
        self.crashes_of_voters = 0.4 if hasty else 0.0
        self.rng = random.Random(seed)
        self.now = 1000
        self._queue = []
        self._number = 0
        self._story = deque(maxlen=60)
        self.checks = Checks(self)
        self.first_voters = VoterSet(voter(each) for each in range(1, size + 1))
        self.nodes = {
            each: Node(self, each, self.first_voters) for each in range(1, size + observers + 1)
        }
        self.cut = set()
        """The pairs (from, to) whose messages are lost."""
        self.loss = 0.0
        self._value = 0
        self.answers = []
        for node in self.nodes.values():
            node.start()

    def violation(self, problem):
        story = "\n".join(self._story)
        return Violation(f"seed {self.seed}, at {self.now} ms: {problem}\n{story}")

    def note(self, text):
        self._story.append(f"{self.now:7} {text}")

    # -- time and network -----------------------------------------------------------------------

    def schedule(self, delay, run):
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay, self._number, run))

    def run(self, duration):
        """Run all events of the next `duration` milliseconds."""
        end = self.now + duration
        while self._queue and self._queue[0][0] <= end:
            self.now, _, run = heapq.heappop(self._queue)
            try:
                run()
            except Violation:
                raise
            except Exception as error:
                raise self.violation(f"{error!r}") from error
        self.now = end

    def run_until(self, holds, limit):
        end = self.now + limit
        while not holds():
            if self.now >= end:
                return False
            self.run(20)
        return True

    def send(self, source, target, event, life=None):
        """Send a message. The message may be lost, late, or arrive twice."""
        if (source.id, target.id) in self.cut or self.rng.random() < self.loss:
            return
        copies = 2 if self.rng.random() < self.loss / 2 else 1
        for _ in range(copies):
            slow = self.rng.random() < self.loss
            usual = 15 if self.crashes_of_voters else 8
            delay = self.rng.randint(1, 250 if slow else usual)
            self.schedule(delay, lambda: self._arrive(target, event, life))

    def _arrive(self, target, event, life):
        if target.is_alive and life in (None, target.life):
            target.later(0, target.step, event)

    # -- clients --------------------------------------------------------------------------------

    def alive(self):
        return [each for each in self.nodes.values() if each.is_alive]

    def leader(self):
        """The node that leads the newest epoch, if any."""
        leading = [each for each in self.alive() if each.leads >= 0 and not each.is_paused]
        return max(leading, key=lambda each: each.leads, default=None)

    def append(self, count=1):
        """Append records to every node that leads, also to one that has lost its majority."""
        for node in self.alive():
            if node.leads >= 0 and not node.is_paused and node.machine.is_leader:
                for _ in range(count):
                    self._value += 1
                    node.log.append(Entry(node.leads, self._value))
                node.poll()

    def ask(self, node, request):
        """Send a client's request to a node. The response is appended to `answers`."""
        node.step(RequestReceived((-1, 0, 0), request))

    def on_answer(self, response):
        self.note(f"the change of voters: {response.error.name}")
        self.answers.append(response)

    # -- faults ---------------------------------------------------------------------------------

    def some(self, count=1):
        """Up to `count` random nodes that are alive."""
        alive = self.alive()
        return self.rng.sample(alive, min(count, len(alive)))

    def crash_some(self, count):
        for node in self.some(count):
            self.note(f"crash {node.id}")
            node.crash()
            self.schedule(self.rng.randint(1, 600), lambda node=node: self._restart(node))

    def crash_and_restart(self, node):
        """Crash and restart a node so fast that its last election is still in progress."""
        self.note(f"crash {node.id} as it votes for {node.election}")
        node.crash()
        self.schedule(self.rng.randint(0, 3), lambda: self._restart(node))

    def _restart(self, node):
        if not node.is_alive:
            self.note(f"restart {node.id}")
            node.start()

    def restart_all(self):
        for node in self.nodes.values():
            self._restart(node)

    def partition(self, one_way):
        ids = list(self.nodes)
        self.rng.shuffle(ids)
        left = ids[: self.rng.randint(1, max(1, len(ids) // 2))]
        leader = self.leader()
        if leader is not None and self.rng.random() < 0.5:
            left = [leader.id]
        right = [each for each in ids if each not in left]
        pairs = {(a, b) for a in left for b in right}
        if not one_way or self.rng.random() < 0.5:
            pairs |= {(b, a) for a, b in pairs}
        self.cut = pairs if not one_way else {p for p in pairs if p[0] in left}
        self.note(f"cut {sorted(self.cut)}")

    def join(self):
        """End the partition."""
        self.cut = set()

    def pause(self):
        for node in self.some():
            if not node.is_paused:
                self.note(f"pause {node.id}")
                node.is_paused = True
                self.schedule(self.rng.randint(50, 1500), lambda node=node: self._resume(node))

    def _resume(self, node):
        if node.is_alive and node.is_paused:
            self.note(f"{node.id} goes on")
            node.resume()

    def stop_leader(self):
        leader = self.leader()
        if leader is not None:
            self.note(f"{leader.id} stops in good order")
            leader.step(Resign())
            self.schedule(300, lambda: self._end(leader))

    def _end(self, node):
        if node.is_alive:
            node.crash()
            self._restart(node)

    def snapshot(self):
        for node in self.some():
            if node.committed > 0 and node.log.is_ready:
                node.log.take_snapshot(self.rng.randint(1, node.committed))
                node.poll()

    def change_voters(self):
        leader = self.leader()
        if leader is None:
            return
        voters = leader.log.voters
        spare = [each for each in self.nodes if each not in voters.voters]
        if spare and (len(voters) < 3 or self.rng.random() < 0.5):
            self.ask(leader, AddVoterRequest(voter(self.rng.choice(spare))))
        elif len(voters) > 2:
            gone = self.rng.choice(list(voters.voters))
            self.ask(leader, RemoveVoterRequest(voters.voters[gone].key))

    def disturb(self):
        """Cause a random fault."""
        size = len(self.nodes)
        faults = [
            lambda: self.crash_some(1),
            lambda: self.crash_some(size // 2 + 1),
            lambda: self.crash_some(size),
            lambda: self.partition(one_way=False),
            lambda: self.partition(one_way=True),
            self.join,
            self.join,
            self.pause,
            self.stop_leader,
            self.snapshot,
        ]
        if size > len(self.first_voters):
            faults += [self.change_voters] * 4
        self.rng.choice(faults)()

    def heal(self):
        self.note("heal")
        self.cut = set()
        self.loss = 0.0
        self.crashes_of_voters = 0.0
        for node in self.alive():
            if node.is_paused:
                node.resume()
        self.run(400)
        self.restart_all()

    def history(self, rounds):
        """Run faults and appends, then repair the network and check that the cluster recovers."""
        for _ in range(rounds):
            self.loss = self.rng.choice((0.0, 0.0, 0.05, 0.2))
            self.disturb()
            for _ in range(self.rng.randint(1, 8)):
                self.append(self.rng.randint(1, 3))
                self.run(self.rng.randint(5, 120))
        self.heal()
        self.check_healed()

    def elections(self, rounds):
        """Run one election after the other: each leader crashes or is disconnected soon."""
        for _ in range(rounds):
            self.run_until(lambda: self.leader() is not None, 150)
            self.append(self.rng.randint(1, 6))
            self.run(self.rng.randint(1, 200))
            self.append(self.rng.randint(0, 2))
            leader = self.leader()
            if leader is not None and self.rng.random() < 0.5:
                others = [each for each in self.nodes if each != leader.id]
                spared = set(self.rng.sample(others, self.rng.randint(0, len(others) - 1)))
                self.cut = {(leader.id, each) for each in others if each not in spared} | {
                    (each, leader.id) for each in others if each not in spared
                }
            elif leader is not None:
                self.crash_and_restart(leader)
                self.cut = set()
        self.heal()
        self.check_healed()

    def check_healed(self):
        """Check that a leader is elected and commits, and that every node has the same log."""
        self.checks.require(
            self.run_until(self._is_serving, 6000),
            "no leader after the faults have ended",
        )
        before = len(self.checks.committed)
        self.append(2)
        self.checks.require(
            self.run_until(
                lambda: all(each.committed > before for each in self.nodes.values()), 6000
            ),
            "records are not committed everywhere after the faults have ended",
        )
        for node in self.nodes.values():
            entries = list(node.log.prefix(node.committed))
            self.checks.require(
                entries == self.checks.committed[: node.committed],
                f"node {node.id} has another log",
            )

    def check_joined(self):
        """Check that all nodes become voters."""
        size = len(self.nodes)
        self.checks.require(
            self.run_until(
                lambda: all(len(each.log.voters) == size for each in self.alive()), 9000
            ),
            "not all nodes have become voters",
        )

    def _is_serving(self):
        leader = self.leader()
        return leader is not None and leader.machine.role.high_watermark >= 0
