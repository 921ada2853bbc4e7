"""Runs a history against one broker, and records requests and responses without random parts.

Generated member ids are replaced by names of members, topic ids by topic names. Everything else
must be the same for both brokers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.group_histories import requests, shapes
from tests.oracle.group_histories.wire import END_SECONDS, Line

from odradek.wire.primitives import Message

Step = tuple[str, dict[str, Any]]
Partitions = set[tuple[str, int]]
REBALANCE_ROUNDS = 8
MAY_WAIT = ("JoinGroup", "SyncGroup")
"""The response to these requests may wait for requests of other members."""


@dataclass
class Member:
    """The state of a member's client."""

    name: str
    line: Line
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = 0
    assigned: Partitions = field(default_factory=set)
    owned: Partitions = field(default_factory=set)
    topics: list[str] = field(default_factory=list)
    generation: int = -1
    is_leader: bool = False
    others: list[str] = field(default_factory=list)


class Player:
    """One group on one broker."""

    def __init__(
        self, port: int, group_id: str, topic_ids: dict[str, bytes], patience_seconds: float
    ) -> None:
        self._port = port
        self._patience_seconds = patience_seconds
        self.group_id = group_id
        self.topic_ids = topic_ids
        self.topic_names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._members: dict[str, Member] = {}
        self._names: dict[str, str] = {}
        self._admin = Line(port)
        self.transcript: list[str] = []

    def play(self, steps: list[Step]) -> list[str]:
        """Send the requests of a history. Return a transcript with a line for each response."""
        try:
            for verb, options in steps:
                getattr(self, f"do_{verb}")(**options)
            for member in self._members.values():
                if member.line.is_waiting:
                    self._take_late(member, END_SECONDS)
        finally:
            for member in self._members.values():
                member.line.close()
            self._admin.close()
        return self.transcript

    # -- the transcript -----------------------------------------------------------------------------

    def _note(self, who: str, what: str, answer: Any) -> None:
        self.transcript.append(f"{who} {what}: {answer}")

    def name_of(self, member_id: str) -> str:
        """Return the name of a member in the history; `?` if the id is unknown."""
        return self._names.get(member_id, "" if not member_id else "?")

    def know(self, member_ids: dict[str, str]) -> None:
        """Add members that joined with another player: ids by name."""
        self._names.update((member_id, name) for name, member_id in member_ids.items())

    def member(self, name: str) -> Member:
        found = self._members.get(name)
        if found is None:
            found = self._members[name] = Member(name, Line(self._port))
        return found

    def _request(self, member: Member, what: str, version: int, request: Message) -> Any:
        """Send a request, and return the response; None if there is no response yet.

        If an earlier request has no response yet, wait for it first.
        """
        if member.line.is_waiting and not self._take_late(member, self._patience_seconds):
            self._note(member.name, what, "busy")
            return None
        name = type(request).__name__.removesuffix("Request")
        patience = self._patience_seconds if name in MAY_WAIT else END_SECONDS
        response = member.line.ask(name, version, request, patience)
        if response is None:
            self._note(member.name, what, "waits")
        return response

    def _take_late(self, member: Member, seconds: float) -> bool:
        response = member.line.wait(seconds)
        if response is None:
            self._note(member.name, "late", "nothing yet")
            return False
        self._take_classic(member, "late", response)
        return True

    # -- members of the consumer protocol -------------------------------------------------------------

    def do_join(self, name: str, member_id: str, **options: Any) -> None:
        member = self.member(name)
        member.member_id = member_id
        self._names[member_id] = name
        member.instance_id = options.get("instance_id")
        member.assigned, member.owned, member.epoch = set(), set(), 0
        self._beat(member, "joins", requests.consumer_join(self, member, **options))

    def do_beat(self, name: str, lags: bool = False, is_short: bool = False) -> None:
        member = self.member(name)
        member.owned = member.owned | member.assigned if lags else set(member.assigned)
        request = requests.beat(self, member)
        if is_short:
            request.topic_partitions = None
        self._beat(member, "beats", request)

    def do_change(self, name: str, **fields: Any) -> None:
        """Send a heartbeat with changed fields."""
        member = self.member(name)
        member.owned = set(member.assigned)
        request = requests.beat(self, member)
        for field_name, value in fields.items():
            setattr(request, field_name, value)
        self._beat(member, "wishes", request)

    def do_wrong_epoch(self, name: str, step: int) -> None:
        member = self.member(name)
        request = requests.beat(self, member)
        request.member_epoch += step
        answer = self._request(member, "is wrong", 1, request)
        if answer is not None:
            self._note(name, "is wrong", shapes.heartbeat(self, answer))

    def do_leave(self, name: str, epoch: int = -1) -> None:
        member = self.member(name)
        request = requests.beat(self, member)
        request.member_epoch, request.topic_partitions = epoch, None
        answer = self._request(member, "leaves", 1, request)
        if answer is not None:
            self._note(name, "leaves", shapes.heartbeat(self, answer))
        member.assigned, member.owned = set(), set()

    def do_bad(self, version: int, fields: dict[str, Any]) -> None:
        request = requests.bad(self, fields)
        answer = self._admin.ask("ConsumerGroupHeartbeat", version, request)
        self._note("somebody", f"says {sorted(fields)}", answer.error_code)

    def do_settle(self, names: list[str]) -> None:
        for _ in range(REBALANCE_ROUNDS):
            for name in names:
                self.do_beat(name)

    def do_silence(self, names: list[str], seconds: float, every: float = 0.35) -> None:
        """Wait. Meanwhile only these members send heartbeats."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name in names:
                member = self.member(name)
                member.owned = set(member.assigned)
                answer = member.line.ask("ConsumerGroupHeartbeat", 1, requests.beat(self, member))
                self._follow(member, answer)
            time.sleep(every)
        self._note("time", "has passed", sorted(names))

    def do_session_timeout(self, ms: int) -> None:
        answer = self._admin.ask("IncrementalAlterConfigs", 1, requests.session_timeout(self, ms))
        self._note("admin", "sets a timeout", answer.responses[0].error_code)

    def _beat(self, member: Member, what: str, request: Any) -> None:
        answer = self._request(member, what, 1, request)
        if answer is not None:
            self._follow(member, answer)
            self._note(member.name, what, shapes.heartbeat(self, answer))

    def _follow(self, member: Member, answer: Any) -> None:
        if answer.error_code:
            return
        member.epoch = answer.member_epoch
        if answer.assignment is not None:
            member.assigned = {
                (self.topic_names[topic.topic_id], index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }

    # -- members of the classic protocol ----------------------------------------------------------------

    def do_classic_join(self, name: str, **options: Any) -> None:
        """Join. If the response requires a member id, join again with this id."""
        member = self.member(name)
        member.instance_id = options.get("instance_id", member.instance_id)
        member.topics = options.get("topics", member.topics)
        if options.get("member_id"):
            member.member_id = options["member_id"]
            self._names[member.member_id] = name
        for _ in range(2):
            version, request = requests.classic_join(self, member, **options)
            answer = self._request(member, "joins classic", version, request)
            if answer is None:
                return
            self._take_classic(member, "joins classic", answer)
            if answer.error_code != shapes.MEMBER_ID_REQUIRED:
                return

    def do_classic_sync(self, name: str, step: int = 0) -> None:
        member = self.member(name)
        request = requests.classic_sync(self, member, step)
        answer = self._request(member, "syncs", 5, request)
        if answer is not None:
            self._take_classic(member, "syncs", answer)

    def do_classic_heartbeat(self, name: str, step: int = 0) -> None:
        member = self.member(name)
        request = requests.classic_heartbeat(self, member, step)
        answer = self._request(member, "beats classic", 4, request)
        if answer is not None:
            self._note(name, "beats classic", answer.error_code)

    def do_classic_leave(self, name: str, by_instance: bool = False) -> None:
        member = self.member(name)
        request = requests.classic_leave(self, member, by_instance)
        answer = self._request(member, "leaves classic", 5, request)
        if answer is not None:
            errors = [each.error_code for each in answer.members]
            self._note(name, "leaves classic", (answer.error_code, errors))

    def do_round(self, names: list[str], **options: Any) -> None:
        """All members join one after another, and then send SyncGroup, the leader last."""
        members = [self.member(name) for name in names]
        for member in members:
            if not member.line.is_waiting:
                self.do_classic_join(member.name, **options)
        for member in members:
            if member.line.is_waiting:
                self._take_late(member, END_SECONDS)
        joined = len(self.transcript)
        for member in sorted(members, key=lambda each: each.is_leader):
            self.do_classic_sync(member.name)
        for member in members:
            if member.line.is_waiting:
                self._take_late(member, END_SECONDS)
        # Which responses were delayed depends on which member is the leader.
        lines = [each for each in self.transcript[joined:] if not each.endswith(": waits")]
        self.transcript[joined:] = sorted(each.replace(" late: ", " syncs: ") for each in lines)

    def _take_classic(self, member: Member, what: str, answer: Any) -> None:
        """Process a response to JoinGroup or SyncGroup."""
        if hasattr(answer, "leader"):
            if answer.member_id:
                member.member_id = answer.member_id
                self._names[answer.member_id] = member.name
            if not answer.error_code:
                member.generation = answer.generation_id
                member.is_leader = bool(answer.leader) and answer.leader == answer.member_id
                member.others = [each.member_id for each in answer.members]
            self._note(member.name, what, shapes.joined(self, answer))
            return
        shape = shapes.synced(answer)
        if not answer.error_code:
            member.owned = shapes.assigned(answer.assignment)
        self._note(member.name, what, shape)

    # -- offsets ----------------------------------------------------------------------------------------

    def do_commit(self, name: str | None, version: int, **options: Any) -> None:
        member = None if name is None else self.member(name)
        request = requests.commit(self, member, version, **options)
        if member is not None and member.line.is_waiting:
            self._note(member.name, "commits", "busy")
            return
        line = self._admin if member is None else member.line
        answer = line.ask("OffsetCommit", version, request)
        codes = [each.error_code for topic in answer.topics for each in topic.partitions]
        self._note(name or "somebody", f"commits in {version}", codes)

    def do_offsets(self, name: str | None, version: int, topics: list[str], step: int = 0) -> None:
        member = None if name is None else self.member(name)
        request = requests.offsets(self, member, version, topics, step)
        answer = self._admin.ask("OffsetFetch", version, request)
        self._note(
            name or "somebody", f"fetches offsets in {version}", shapes.offsets(self, answer)
        )

    def do_delete_offsets(self, topic: str, partition: int) -> None:
        request = requests.delete_offset(self, topic, partition)
        answer = self._admin.ask("OffsetDelete", 0, request)
        codes = [each.error_code for one in answer.topics for each in one.partitions]
        self._note("admin", "deletes an offset", (answer.error_code, codes))

    # -- administration ---------------------------------------------------------------------------------

    def do_describe(self) -> None:
        for name, version in (("ConsumerGroupDescribe", 1), ("DescribeGroups", 6)):
            answer = self._admin.ask(name, version, requests.describe(self, name))
            (group,) = answer.groups
            self._note("admin", name, shapes.described(self, group))

    def do_list(self, states: list[str], types: list[str]) -> None:
        answer = self._admin.ask("ListGroups", 5, requests.list_groups(states, types))
        mine = [
            (each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id == self.group_id
        ]
        self._note("admin", f"lists {states} {types}", (answer.error_code, mine))

    def do_delete(self) -> None:
        answer = self._admin.ask("DeleteGroups", 2, requests.delete_group(self))
        self._note("admin", "deletes", [each.error_code for each in answer.results])
