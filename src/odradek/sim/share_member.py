"""A member of a share group, which acquires and acknowledges records while nodes fail.

The member has a share session with each broker that leads a partition of the topic. It fetches from
all partitions, whatever the group coordinator assigns to it: brokers serve each member of the group, and
so two members compete for the records of each partition.

The members begin when the coordinator has assigned all partitions to them, because it has initialized the
state of the partitions then.

A member accepts, releases and rejects records, and renews locks; with the next ShareFetch or with a
ShareAcknowledge. Sometimes it acknowledges after the lock has expired. Sometimes it crashes, and
comes back as another member. `drain` accepts everything that is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from odradek.broker.share.local import LocalSharePartition
from odradek.client.errors import ClientError, error_code
from odradek.core.share.states import ACCEPT, GAP, REJECT, RELEASE, RENEW
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.sim.driver import SimClient, To, group
from odradek.sim.facts import Facts, Reading
from odradek.sim.share_facts import LOCK_MS, Delivery, ShareFacts
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import (
    AcknowledgementBatch as FetchAcknowledgementBatch,
)
from odradek.wire.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from odradek.wire.generated.share_fetch_response import PartitionData, ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

WAIT_MS, RECORDS_MAX = 300, 20
DRAIN_WAIT_MS, DRAIN_RECORDS_MAX = 20, 500
CRASH_SHARE = 0.08
"""The fraction of turns in which a member crashes."""
LATE_SHARE = 0.06
"""The fraction of acknowledgements that are sent when the locks have expired."""
SEPARATE_SHARE = 0.4
"""The fraction of acknowledgements that are sent without a fetch."""
RENEW_SHARE = 0.1
"""The fraction of acknowledgements that only renew the locks."""
KINDS = (ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT)
PAUSE_S_MAX = 0.8
REJOIN = frozenset({E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND})
MOVED = NOT_NOW | {E.UNKNOWN_TOPIC_ID, E.GROUP_ID_NOT_FOUND, E.OFFSET_NOT_AVAILABLE}
"""Errors of a partition after which the member asks for the leaders again."""
LOST = NOT_NOW | {E.SHARE_SESSION_NOT_FOUND}
"""Errors of a request after which the member begins new sessions. A session ends with its connection,
and a heartbeat to the same broker may have noticed before that the connection was closed."""
STATE_UNKNOWN = E.UNKNOWN_SERVER_ERROR
"""The error of a partition after its leader has asked a former share coordinator, which does not know
yet that it has no longer this role. It may have no state, if the state was initialized later. The
error is the same in Apache Kafka. Its members fetch again after it."""

FindLifetime = Callable[[int, TopicPartition], LocalSharePartition | None]
"""Returns the share partition that the broker with this id has in its memory."""


class Acknowledgement(NamedTuple):
    """The acknowledgements of one partition in a request."""

    batches: list[tuple[int, int, list[int]]]
    kinds: list[tuple[Delivery, int]]
    lifetime: LocalSharePartition | None
    """The share partition to which the request is sent, if it is known."""
    until_ns: int
    """All locks are held until this time."""


class ShareSession:
    """The session with one broker."""

    def __init__(self, node: int, partitions: Sequence[TopicPartition]) -> None:
        self.node = node
        self.partitions = partitions
        self.epoch = 0
        self.held: dict[TopicPartition, dict[int, Delivery | None]] = {}
        """The acquired offsets to acknowledge. An offset without a record has no delivery."""

    def advance(self) -> None:
        """Use the next epoch in the next request."""
        self.epoch += 1

    def hold(self, partition: TopicPartition, offset: int, delivery: Delivery | None) -> None:
        """Keep an acquired offset to acknowledge it."""
        self.held.setdefault(partition, {})[offset] = delivery

    def take(self) -> dict[TopicPartition, dict[int, Delivery | None]]:
        """Return the offsets to acknowledge, and forget them."""
        held, self.held = self.held, {}
        return held

    def end(self) -> None:
        """Note that the broker may release the records."""
        for offsets in self.take().values():
            for delivery in offsets.values():
                if delivery is not None:
                    delivery.end()


class ShareMember(Actor):
    """Consumes all partitions of a topic as a member of a share group."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        shared: ShareFacts,
        group: str,
        topic: str,
        partition_count: int,
        find_lifetime: FindLifetime,
    ) -> None:
        super().__init__(simulation, client, facts)
        self._shared = shared
        self._group = group
        self._topic = topic
        self._partition_count = partition_count
        self._find_lifetime = find_lifetime
        self._topic_id = b""
        self._member_number = 0
        self._member_epoch = 0
        self._is_known = False
        """Whether the last heartbeat had a response. After an error, a member sends its subscription
        again. Otherwise an assignment whose response was lost would not be repeated."""
        self._turns = 0
        self._sessions: dict[int, ShareSession] = {}
        self._is_draining = False

    @property
    def _member_id(self) -> str:
        return f"{self.name}-{self._member_number}"

    async def run(self) -> None:
        """See `Actor`."""
        while len(self._shared.assigned) < self._partition_count:
            await self._heartbeat()
            await self.pause()
        while not self.is_stopping:
            if self.random.random() < CRASH_SHARE:
                self._crash()
            await self._turn()
            await self.pause(PAUSE_S_MAX)
        self._crash()

    async def drain(self, is_drained: Callable[[], bool]) -> None:
        """Accept records until the condition is true."""
        self._is_draining = True
        while not is_drained():
            await self._turn()
        self._crash()

    def _crash(self) -> None:
        """End like a process that is killed, and come back as a new member."""
        self._end_sessions()
        self._member_number += 1
        self._member_epoch = 0
        self._is_known = False

    async def _turn(self) -> None:
        self._turns += 1
        is_due = not self._member_epoch or self._turns % 8 == 0
        if is_due and not self._is_draining and not await self._heartbeat():
            return
        if not self._sessions and not await self._find_leaders():
            return
        for session in list(self._sessions.values()):
            if session.node in self._sessions:
                await self._use(session)

    # -- membership ---------------------------------------------------------------------------

    async def _heartbeat(self) -> bool:
        """Join the group, or stay a member. Return whether the member is in the group."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=None if self._is_known else [self._topic],
        )
        response = await self.ask(request, ShareGroupHeartbeatResponse, group(self._group))
        self._is_known = response is not None and not response.error_code
        if response is None:
            return False
        if response.error_code in REJOIN:
            self._member_epoch = 0
        elif response.error_code:
            if response.error_code not in NOT_NOW:
                self.unexpected("ShareGroupHeartbeat", response.error_code)
            await self.retry(group(self._group))
        else:
            self._member_epoch = response.member_epoch
            if response.assignment is not None:
                for topic in response.assignment.topic_partitions:
                    self._shared.assign(topic.partitions)
        return not response.error_code

    async def _find_leaders(self) -> bool:
        """Begin a session with each leader. Return False if a partition has no leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        response = await self.ask(request, MetadataResponse)
        if response is None:
            return False
        nodes = {each.node_id for each in response.brokers}
        (topic,) = response.topics
        led: dict[int, list[TopicPartition]] = {}
        for each in topic.partitions:
            if each.leader_id in nodes:
                partition = TopicPartition(self._topic, each.partition_index)
                led.setdefault(each.leader_id, []).append(partition)
        self._topic_id = topic.topic_id
        self._sessions = {node: ShareSession(node, led[node]) for node in sorted(led)}
        if not led:
            await self.pause()
        return bool(led)

    def _end_sessions(self) -> None:
        """End all sessions with their connections. The next turn looks up the leaders again."""
        for session in self._sessions.values():
            session.end()
            self.client.disconnect(session.node)
        self._sessions = {}

    # -- records --------------------------------------------------------------------------------

    async def _use(self, session: ShareSession) -> None:
        """Acknowledge what the session holds, and fetch."""
        if session.held and self._happens(LATE_SHARE):
            self.facts.count("late acknowledgements of share members")
            await asyncio.sleep(LOCK_MS * self.random.uniform(0.8, 1.5) / 1000)
        if session.held and self._happens(SEPARATE_SHARE):
            if not await self._acknowledge(session):
                return
            await self.pause(0.1)
        await self._fetch(session)

    def _happens(self, share: float) -> bool:
        return not self._is_draining and self.random.random() < share

    def _decide(
        self, session: ShareSession, *, may_renew: bool
    ) -> tuple[dict[TopicPartition, Acknowledgement], bool]:
        """Return the acknowledgements of a request, and whether it renews locks."""
        is_renewal = bool(session.held) and may_renew and self._happens(RENEW_SHARE)
        held = session.take()
        found = {}
        for partition, offsets in held.items():
            kinds: dict[int, int] = {}
            for offset, delivery in offsets.items():
                if delivery is None:
                    kinds[offset] = GAP
                elif is_renewal:
                    kinds[offset] = RENEW
                else:
                    kinds[offset] = ACCEPT if self._is_draining else self.random.choice(KINDS)
                if is_renewal:
                    session.hold(partition, offset, delivery)
            if is_renewal:
                kinds = {offset: kind for offset, kind in kinds.items() if kind == RENEW}
            if kinds:
                deliveries = [
                    (each, kinds[offset])
                    for offset, each in offsets.items()
                    if each is not None and offset in kinds
                ]
                lifetime = self._find_lifetime(session.node, partition)
                until_ns = min((each.until_ns for each, _ in deliveries), default=0)
                found[partition] = Acknowledgement(
                    list(_batches(kinds)), deliveries, lifetime, until_ns
                )
                for delivery, kind in deliveries:
                    self._shared.begin(delivery, kind)
                    if not is_renewal:
                        delivery.end()
        return found, is_renewal

    async def _acknowledge(self, session: ShareSession) -> bool:
        """Send a ShareAcknowledge. Return whether the session goes on."""
        decided, is_renewal = self._decide(session, may_renew=True)
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=is_renewal,
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition.partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=kinds
                                )
                                for first, last, kinds in each.batches
                            ],
                        )
                        for partition, each in decided.items()
                    ],
                )
            ],
        )
        sent_ns = self.simulation.now_ns
        try:
            response = await self.client.ask(
                request, ShareAcknowledgeResponse, To(node=session.node)
            )
        except ClientError:
            self._lose(decided)
            return False
        if not self._check("ShareAcknowledge", response.error_code):
            self._settle(session, decided, {}, sent_ns)
            return False
        session.advance()
        results = {
            TopicPartition(self._topic, each.partition_index): each.error_code
            for topic in response.responses
            for each in topic.partitions
        }
        return self._settle(session, decided, results, sent_ns)

    async def _fetch(self, session: ShareSession) -> None:
        decided, _ = self._decide(session, may_renew=False)
        sent_ns = self.simulation.now_ns
        before = {each: self._find_lifetime(session.node, each) for each in session.partitions}
        try:
            request = self._fetch_request(session, decided)
            response = await self.client.ask(request, ShareFetchResponse, To(node=session.node))
        except ClientError:
            for partition in session.partitions:
                self._shared.lose_fetch(partition)
            self._lose(decided)
            return
        if not self._check("ShareFetch", response.error_code):
            self._settle(session, decided, {}, sent_ns)
            return
        session.advance()
        acknowledged, has_moved = {}, False
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(self._topic, data.partition_index)
                acknowledged[partition] = data.acknowledge_error_code
                if data.error_code:
                    has_moved = True
                    if data.error_code == STATE_UNKNOWN:
                        self.facts.count("partitions whose share state could not be read")
                    elif data.error_code not in MOVED:
                        self.unexpected("ShareFetch", data.error_code)
                self._receive(session, partition, data, sent_ns, before.get(partition))
        if self._settle(session, decided, acknowledged, sent_ns) and has_moved:
            self._end_sessions()
            await self.pause()

    def _fetch_request(
        self, session: ShareSession, decided: Mapping[TopicPartition, Acknowledgement]
    ) -> ShareFetchRequest:
        wanted = [*decided] if session.epoch else session.partitions
        partitions = [
            FetchPartition(
                partition_index=partition.partition,
                acknowledgement_batches=[
                    FetchAcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=kinds
                    )
                    for first, last, kinds in decided[partition].batches
                ]
                if partition in decided
                else [],
            )
            for partition in wanted
        ]
        records_max = DRAIN_RECORDS_MAX if self._is_draining else RECORDS_MAX
        return ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=DRAIN_WAIT_MS if self._is_draining else WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records_max,
            batch_size=records_max,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=partitions)]
            if partitions
            else [],
        )

    def _receive(
        self,
        session: ShareSession,
        partition: TopicPartition,
        data: PartitionData,
        sent_ns: int,
        before: LocalSharePartition | None,
    ) -> None:
        """Keep the acquired records of a response."""
        if not data.acquired_records:
            return
        lifetime = self._find_lifetime(session.node, partition)
        leader_epoch = _leader_epoch(before or lifetime)
        if lifetime is not before:
            lifetime = None
        values = {
            record.offset: (record.value or b"").decode()
            for batch in iterate_batches(memoryview(bytes(data.records or b"")))  # type: ignore[arg-type]
            for record in iterate_records(batch)
        }
        for acquired in data.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                delivery = None
                if offset in values:
                    delivery = self._shared.deliver(
                        self._member_id,
                        Reading(partition, offset, values[offset]),
                        acquired.delivery_count,
                        sent_ns,
                        self.simulation.now_ns,
                        lifetime,
                        leader_epoch,
                    )
                session.hold(partition, offset, delivery)

    # -- results --------------------------------------------------------------------------------

    def _check(self, what: str, code: int) -> bool:
        """Return whether the session goes on after the error code of a response."""
        if not code:
            return True
        if code not in LOST:
            self.unexpected(what, code)
        self._end_sessions()
        return False

    def _lose(self, decided: Mapping[TopicPartition, Acknowledgement]) -> None:
        """Note that the response to a request was lost, and end the sessions."""
        for each in decided.values():
            for delivery, kind in each.kinds:
                self._shared.unknown(delivery, kind)
        self._end_sessions()

    def _settle(
        self,
        session: ShareSession,
        decided: Mapping[TopicPartition, Acknowledgement],
        results: Mapping[TopicPartition, int],
        sent_ns: int,
    ) -> bool:
        """Note the results of acknowledgements. Return whether the session goes on."""
        now_ns = self.simulation.now_ns
        has_failed = False
        for partition, each in decided.items():
            code = results.get(partition, E.UNKNOWN_SERVER_ERROR)
            lifetime = self._find_lifetime(session.node, partition)
            if lifetime is not each.lifetime:
                lifetime = None
            if not code:
                for delivery, kind in each.kinds:
                    self._shared.acknowledged(
                        delivery, kind, sent_ns, now_ns, lifetime, _leader_epoch(each.lifetime)
                    )
                continue
            has_failed = True
            if code == E.INVALID_RECORD_STATE:
                self.facts.count("acknowledgements of share members refused")
                is_same = all(of.lifetime is lifetime for of, _ in each.kinds)
                if lifetime is not None and is_same and now_ns < each.until_ns:
                    self._shared.refused_holder(each.kinds[0][0], error_code(code).name)
            elif results and code not in MOVED:
                self.unexpected("acknowledgements", code)
            for delivery, kind in each.kinds:
                if code == E.INVALID_RECORD_STATE:
                    self._shared.refused(delivery, kind)
                else:
                    self._shared.unknown(delivery, kind)
        if has_failed:
            self._end_sessions()
        return not has_failed


def _leader_epoch(lifetime: LocalSharePartition | None) -> int | None:
    return None if lifetime is None else lifetime.machine.leader_epoch


def _batches(kinds: Mapping[int, int]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield batches of consecutive offsets with the types of their acknowledgements."""
    first, types = -1, list[int]()
    for offset in sorted(kinds):
        if types and offset != first + len(types):
            yield first, first + len(types) - 1, types
            types = []
        if not types:
            first = offset
        types.append(kinds[offset])
    if types:
        yield first, first + len(types) - 1, types
