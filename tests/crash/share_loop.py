"""Kills a node and members of a share group, and accounts for every delivery of every record.

Several members (`share_worker`) work off a topic. In each round, records are written, and then the
node or a member is killed with SIGKILL and started again. At the end, all records must be done.
The checks use what the members have written down:

- No delivery count is above the limit of the group.
- The delivery count of a record increases by exactly one with each delivery, with two exceptions. A
  member that is killed may not have written down its last deliveries. A node that is killed forgets
  the deliveries that were not acknowledged, as Apache Kafka does: it stores the count with the
  acknowledgement. Each exception needs a kill at the right time.
- A record is not delivered after its acceptance or rejection was stored.
- At the end each record was accepted or rejected, or it has reached the limit.
- Each record that was not accepted has a dead letter with its value and the right cause. No record
  whose acceptance was stored has one. A second dead letter of a record needs a kill of the node
  between the two.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT
from tests.support.child import PYTHON, Child
from tests.support.progress import report

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.admin.share_groups import StartOffset, describe_start_offsets
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.producer import Producer
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.operations.dead_letters import REJECTED, TOO_OFTEN, DeadLetter, read_letters

SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}
TOPIC, GROUP = "jobs", "workers"
LETTERS = f"dlq.{TOPIC}"
PARTITIONS = 2
MEMBERS = 3
LIMIT = 5
RECORDS = 40
"""Records in each round."""
KINDS = ("accept",) * 6 + ("retry", "retry", "reject", "poison")
WAIT_SECONDS_MAX = 0.3
"""A kill comes at a random time, up to so long after the records."""

Key = tuple[int, int]
"""Partition and offset."""


class Delivery(NamedTuple):
    """A record that a member has got. It was acquired between `begin` and `end`."""

    begin: int
    end: int
    count: int
    member: str


@dataclass
class Account:
    """What is known about one record."""

    kind: str = ""
    deliveries: list[Delivery] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    """The kinds of acknowledgements that were sent."""
    done_at: int | None = None
    """When an acceptance or rejection was known to be stored."""
    is_accepted: bool = False
    """Whether an acceptance was known to be stored."""
    value: str = ""
    letters: list[DeadLetter] = field(default_factory=list)


class Member:
    """A process of `share_worker`."""

    def __init__(self, directory: Path, bootstrap: str, number: int, seed: int) -> None:
        self.name = f"member-{number}"
        self.path = directory / self.name
        self.log = directory / f"{self.name}.log"
        words = (bootstrap, GROUP, TOPIC, str(seed + number), str(self.path))
        command = [*PYTHON, "tests.crash.share_worker", *words]
        self._process = Child(command, output=self.log, directory=ROOT)

    def kill(self) -> None:
        """Kill the process."""
        self._process.close()

    def end(self) -> int:
        """Let the process end. Return its exit code."""
        code = self._process.terminate()
        self._process.close()
        return code

    def failed(self) -> bool:
        """Whether the process has ended without having been told to."""
        return not self._process.runs


class ShareLoop:
    """A node, members, and the account of each record."""

    def __init__(self, directory: Path, seed: int, node: Broker | None = None) -> None:
        self.directory = directory
        self.node = node or OdradekNode(directory=directory / "node", settings=SETTINGS)
        self.seed = seed
        self.chance = random.Random(seed)
        self.errors: list[str] = []
        self.written = 0
        self.node_kills: list[int] = []
        self._node_kills_ms: list[int] = []
        """The same as wall-clock times in ms, like the timestamps of records."""
        self._letters: list[DeadLetter] = []
        self.member_kills: dict[str, int] = {}
        """When each member was killed."""
        self.outcomes: Counter[str] = Counter()
        self.outcomes_of_letters: Counter[str] = Counter()
        self._members: list[Member] = []
        self._number = 0

    def run(self, rounds: int) -> None:
        """Run the rounds, wait until all records are done, and check the accounts."""
        with self.node, Cluster(f"127.0.0.1:{self.node.port}", timeout_ms=120_000) as cluster:
            try:
                self._prepare(cluster)
                for number in range(rounds):
                    self._write(cluster)
                    time.sleep(self.chance.random() * WAIT_SECONDS_MAX)
                    self._kill(number)
                    report(number + 1, rounds, "kills of share members and their node")
                self._wait_until_done(cluster)
                self._letters = self._read_letters(cluster)
                for member in self._members:
                    if code := member.end():
                        self._fail(f"{member.name} ended with code {code}", member)
                self._members = []
            finally:
                for member in self._members:
                    member.kill()
        self._check()

    def _prepare(self, cluster: Cluster) -> None:
        update_features(cluster, {"share.version": 2}, UpgradeType.UPGRADE)
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        topics = [NewTopic(TOPIC, PARTITIONS), NewTopic(LETTERS, PARTITIONS, configs=enabled)]
        for topic in create_topics(cluster, topics).values():
            assert not isinstance(topic, Exception), topic
        changes = [
            Change("share.auto.offset.reset", "earliest"),
            Change("share.delivery.count.limit", str(LIMIT)),
            Change("errors.deadletterqueue.topic.name", LETTERS),
            Change("errors.deadletterqueue.copy.record.enable", "true"),
        ]
        group = Resource(ResourceType.GROUP, GROUP)
        assert alter_configs(cluster, {group: changes}) == {group: None}
        self._write(cluster)
        for _ in range(MEMBERS):
            self._add_member()

    def _add_member(self) -> None:
        self._number += 1
        bootstrap = f"127.0.0.1:{self.node.port}"
        self._members.append(Member(self.directory, bootstrap, self._number, self.seed))

    def _write(self, cluster: Cluster) -> None:
        with Producer(cluster) as producer:
            for _ in range(RECORDS):
                kind = self.chance.choice(KINDS)
                value = f"{kind}-{self.written}".encode()
                producer.send(TOPIC, value, partition=self.written % PARTITIONS)
                self.written += 1

    def _kill(self, turn: int) -> None:
        """Kill a member, the node, a member, and both, in turn."""
        is_down = turn % 2 == 1
        if is_down:
            self.node.kill()
            self.node_kills.append(time.monotonic_ns())
            self._node_kills_ms.append(time.time_ns() // 1_000_000)
        if turn % 4 != 1:
            member = self._members.pop(self.chance.randrange(len(self._members)))
            if member.failed():
                self._fail(f"{member.name} has ended", member)
            member.kill()
            self.member_kills[member.name] = time.monotonic_ns()
            self._add_member()
        if is_down:
            self.node.start()

    def _wait_until_done(self, cluster: Cluster) -> None:
        while not self._is_done(cluster):
            time.sleep(0.05)
            for member in self._members:
                if member.failed():
                    self._fail(f"{member.name} has ended", member)
                    return

    @staticmethod
    def _is_done(cluster: Cluster) -> bool:
        try:
            found = describe_start_offsets(cluster, GROUP)
        except ClientError as error:
            if not error.retriable:
                raise
            return False
        return len(found) == PARTITIONS and all(
            isinstance(each, StartOffset) and each.lag == 0 for each in found.values()
        )

    def _read_letters(self, cluster: Cluster) -> list[DeadLetter]:
        starts = {TopicPartition(LETTERS, index): 0 for index in range(PARTITIONS)}
        found = []
        for each in read_letters(cluster, starts):
            if isinstance(each, DeadLetter):
                found.append(each)
            else:
                self.errors.append(f"{each} is no dead letter")
        return found

    def _fail(self, what: str, member: Member) -> None:
        said = member.log.read_text(errors="replace").strip().splitlines()[-3:]
        self.errors.append(f"{what}: {said}")

    # -- the accounts ---------------------------------------------------------------------------

    def _check(self) -> None:
        accounts = self._accounts()
        for letter in self._letters:
            (topic, partition), offset = letter.of
            if (topic, letter.group) != (TOPIC, GROUP) or (partition, offset) not in accounts:
                self.errors.append(f"a dead letter about {letter.of} of {letter.group}")
            else:
                accounts[partition, offset].letters.append(letter)
        if len(accounts) != self.written:
            self.errors.append(f"{self.written} records written, {len(accounts)} delivered")
        for key, account in accounts.items():
            wrong = (*self._wrong(account), *self._wrong_letters(account))
            self.errors += (f"{key} ({account.kind}): {each}" for each in wrong)
            if len(account.letters) > 1:
                self.outcomes_of_letters["duplicates"] += len(account.letters) - 1
            self.outcomes_of_letters.update(each.reason for each in account.letters[:1])
            outcome = self._outcome(account)
            self.outcomes[outcome if account.kind != "poison" else f"poison {outcome}"] += 1

    def _accounts(self) -> dict[Key, Account]:
        accounts: dict[Key, Account] = defaultdict(Account)
        for path in sorted(self.directory.glob("member-*")):
            if path.suffix != ".log":
                self._read(path, accounts)
        for account in accounts.values():
            account.deliveries.sort(key=lambda each: each.end)
        return accounts

    @staticmethod
    def _read(path: Path, accounts: dict[Key, Account]) -> None:
        for line in path.read_text().splitlines():
            at, what, *rest = line.split()
            if what == "delivered":
                begin, partition, offset, count, value = rest
                account = accounts[int(partition), int(offset)]
                account.kind = value.partition("-")[0]
                account.value = value
                account.deliveries.append(Delivery(int(begin), int(at), int(count), path.name))
                continue
            account = accounts[int(rest[0]), int(rest[1])]
            if what == "stored" and rest[2] in ("accept", "reject"):
                done_at = account.done_at
                account.done_at = int(at) if done_at is None else min(done_at, int(at))
                account.is_accepted |= rest[2] == "accept"
            elif what not in ("stored", "failed"):
                account.sent.add(what)

    def _wrong(self, account: Account) -> Iterator[str]:
        """Yield what is wrong with a record."""
        before = 0
        previous: Delivery | None = None
        for each in account.deliveries:
            begin = 0 if previous is None else previous.begin
            lost = self._kills_of_members(begin, each.end)
            if each.count > LIMIT:
                yield f"delivery {each.count}, although the limit is {LIMIT}"
            if each.count <= before and not self._kills_of_the_node(begin, each.end):
                yield f"delivery {each.count} after {before}, without a kill of the node"
            if each.count > before + 1 + lost:
                yield f"delivery {each.count} after {before}, and {lost} kills of members"
            if account.done_at is not None and each.begin > account.done_at:
                yield f"delivery {each.count} after it was done"
            before, previous = each.count, each
        if self._outcome(account) == "lost":
            yield f"neither done nor given up after {account.deliveries[-1]}, sent {account.sent}"

    def _wrong_letters(self, account: Account) -> Iterator[str]:
        """Yield what is wrong with the dead letters of a record."""
        letters = sorted(account.letters, key=lambda each: each.record.timestamp)
        if not letters:
            if "accept" not in account.sent:
                yield "neither accepted nor a dead letter"
            return
        if account.is_accepted:
            yield "a dead letter, although it was accepted"
        for each in letters:
            if each.record.value != account.value.encode():
                yield f"a dead letter with the value {each.record.value!r}"
            if each.cause == REJECTED:
                if "reject" not in account.sent:
                    yield "a dead letter of a rejected record, which was not rejected"
            elif each.cause != TOO_OFTEN or each.deliveries != LIMIT:
                yield f"a dead letter after delivery {each.deliveries}: {each.cause}"
        for first, second in pairwise(letters):
            begin, end = first.record.timestamp, second.record.timestamp
            if not any(begin <= at <= end for at in self._node_kills_ms):
                yield "two dead letters without a kill of the node between them"

    def _kills_of_the_node(self, begin: int, end: int) -> int:
        return sum(begin <= at <= end for at in self.node_kills)

    def _kills_of_members(self, begin: int, end: int) -> int:
        return sum(begin <= at <= end for at in self.member_kills.values())

    def _outcome(self, account: Account) -> str:
        if "accept" in account.sent:
            return "accepted"
        if "reject" in account.sent:
            return "rejected"
        last = account.deliveries[-1]
        lost = self._kills_of_members(last.begin, time.monotonic_ns())
        return "given up" if last.count + lost >= LIMIT else "lost"
