"""A member of a share group, which acquires and acknowledges records while nodes fail.

It is the shipped client: `ShareMachine` builds the requests and keeps the records, and `ShareMembership` the
heartbeats. The member performs what they ask for (`_exchange`, `_heartbeat`), and notes in `ShareFacts` what
it was delivered and what became of its acknowledgements.

The member fetches from all partitions, whatever the group coordinator assigns to it: brokers serve each
member of the group, and so two members compete for the records of each partition. The members begin when the
coordinator has assigned all partitions to them, because it has initialized the state of the partitions then.

A member accepts, releases and rejects records, and renews locks; with the next ShareFetch or with a
ShareAcknowledge. Sometimes it acknowledges after the lock has expired. Sometimes it leaves, or crashes, and
comes back as another member. `drain` accepts everything that is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from odradek.broker.share.local import LocalSharePartition
from odradek.client.errors import BrokerError, ClientError, DisconnectedError, error_code
from odradek.client.share.acknowledgements import (
    AcknowledgementResult,
    AcknowledgeType,
    TopicIdPartition,
)
from odradek.client.share.acquired import ShareRecord
from odradek.client.share.leader import ShareLimits, ShareRequest, ShareResponse
from odradek.client.share.machine import RecordKey, ShareMachine
from odradek.client.share.membership import ShareMembership
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import SimClient, To, group
from odradek.sim.facts import Facts, Reading
from odradek.sim.share_facts import LOCK_MS, Delivery, ShareFacts
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.generated.metadata_response import MetadataResponse
from odradek.wire.generated.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.generated.share_fetch_request import ShareFetchRequest
from odradek.wire.generated.share_fetch_response import ShareFetchResponse
from odradek.wire.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse

LIMITS = ShareLimits(wait_ms_max=300, bytes_max=1 << 20, records_max=20)
DRAIN_LIMITS = ShareLimits(wait_ms_max=20, bytes_max=1 << 20, records_max=500)
CRASH_SHARE = 0.05
"""The fraction of turns in which a member crashes."""
LEAVE_SHARE = 0.03
"""The fraction of turns in which a member leaves the group, and joins it again."""
LATE_SHARE = 0.12
"""The fraction of acknowledgements that are sent when the locks have expired."""
SEPARATE_SHARE = 0.4
"""The fraction of acknowledgements that are sent without a fetch."""
RENEW_SHARE = 0.1
"""The fraction of acknowledgements that only renew the locks."""
KINDS = (
    *(AcknowledgeType.ACCEPT,) * 4,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)
PAUSE_S_MAX = 0.8
CLOSING_TURNS_MAX = 5
"""How often a member that leaves tries to send its acknowledgements."""
MOVED = NOT_NOW | {
    E.UNKNOWN_TOPIC_ID,
    E.GROUP_ID_NOT_FOUND,
    E.OFFSET_NOT_AVAILABLE,
    E.FENCED_LEADER_EPOCH,
    E.SHARE_SESSION_NOT_FOUND,
}
"""Errors of a correct broker. A session ends with its connection, and a heartbeat to the same broker may have
noticed before that the connection was closed."""

FindLifetime = Callable[[int, TopicPartition], LocalSharePartition | None]
"""Returns the share partition that the broker with this id has in its memory."""


@dataclass(slots=True)
class Held:
    """A record that the member has."""

    node: int
    delivery: Delivery


@dataclass(slots=True)
class Acknowledgement:
    """An acknowledgement without a result so far."""

    node: int
    delivery: Delivery
    kind: AcknowledgeType
    until_ns: int
    """The lock is held until this time."""
    sent_ns: int | None = None
    """When it was sent; None if it was not."""
    lifetime: LocalSharePartition | None = None
    """The share partition to which it was sent, if it is known."""
    is_repeated: bool = False
    """Whether it was sent several times. The first time may have had an effect."""

    def send(self, now_ns: int, lifetime: LocalSharePartition | None) -> None:
        """Note that a request has it."""
        if self.sent_ns is None:
            self.sent_ns, self.lifetime = now_ns, lifetime
        else:
            self.is_repeated, self.lifetime = True, None


@dataclass(slots=True)
class Life:
    """One member of the group, until it leaves or crashes."""

    membership: ShareMembership
    machine: ShareMachine
    wanted: dict[TopicIdPartition, int] = field(default_factory=dict)
    """The partitions with their leaders."""
    held: dict[RecordKey, Held] = field(default_factory=dict)
    acknowledgements: dict[RecordKey, Acknowledgement] = field(default_factory=dict)

    def lead(self, wanted: dict[TopicIdPartition, int]) -> None:
        """Fetch these partitions from these leaders."""
        self.wanted = wanted
        self.machine.assign(wanted)

    def lose_locks(self, node: int | None = None) -> None:
        """Note that a broker may release the records of the member; None for all brokers."""
        for each in self.held.values():
            if node in (None, each.node):
                each.delivery.end()


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
        self._number = 0
        self._is_draining = False
        self._life = self._begin()

    def _begin(self) -> Life:
        """Come back as a new member."""
        self._number += 1
        name = f"{self.name}-{self._number}"
        limits = DRAIN_LIMITS if self._is_draining else LIMITS
        machine = ShareMachine(self._group, name, limits, is_explicit=True)
        return Life(ShareMembership(self._group, name, [self._topic]), machine)

    async def run(self) -> None:
        """See `Actor`."""
        while len(self._shared.assigned) < self._partition_count:
            await self._heartbeat()
            await self.pause()
        while not self.is_stopping:
            chance = self.random.random()
            if chance < CRASH_SHARE:
                await self._crash()
            elif chance < CRASH_SHARE + LEAVE_SHARE:
                await self._leave()
            await self._heartbeat()
            await self._turn()
            await self.pause(PAUSE_S_MAX)
        await self._crash()

    async def drain(self, is_drained: Callable[[], bool]) -> None:
        """Accept records until the condition is true."""
        self._is_draining = True
        self._life = self._begin()
        while not is_drained():
            await self._turn()
        await self._crash()

    async def _crash(self) -> None:
        """End like a process that is killed, and come back as a new member."""
        life = self._life
        nodes = {*life.wanted.values(), *(each.node for each in life.acknowledgements.values())}
        for node in sorted(nodes):
            self.client.disconnect(node)
        life.lose_locks()
        for each in life.acknowledgements.values():
            self._settle_unknown(each)
        self._life = self._begin()

    async def _leave(self) -> None:
        """Send the acknowledgements, release all other records, leave the group, and come back."""
        life = self._life
        life.lose_locks()
        life.machine.close()
        for _ in range(CLOSING_TURNS_MAX):
            if life.machine.is_idle:
                break
            await self._exchange(life)
        request = life.membership.leave()
        if request is not None:
            await self.ask(request, ShareGroupHeartbeatResponse, group(self._group))
        self.facts.count("share members that left")
        await self._crash()

    # -- membership ---------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        """Join the group, or stay a member, if a heartbeat is due."""
        membership = self._life.membership
        request = membership.request(self.clock.monotonic_ms())
        if request is None:
            return
        try:
            response = await self.client.ask(
                request, ShareGroupHeartbeatResponse, group(self._group)
            )
        except ClientError as error:
            membership.failed(self.clock.monotonic_ms(), DisconnectedError(str(error)))
            await self.retry(group(self._group))
            return
        if membership.answered(response, self.clock.monotonic_ms()):
            await self.retry(group(self._group))
        self._shared.assign(index for _, index in membership.assigned)

    async def _find_leaders(self, life: Life) -> bool:
        """Fetch from the leaders of all partitions. Return False if none has a leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        response = await self.ask(request, MetadataResponse)
        if response is None:
            return False
        nodes = {each.node_id for each in response.brokers}
        (topic,) = response.topics
        life.lead(
            {
                TopicIdPartition(topic.topic_id, each.partition_index, self._topic): each.leader_id
                for each in topic.partitions
                if each.leader_id in nodes
            }
        )
        if not life.wanted:
            await self.pause()
        return bool(life.wanted)

    # -- records --------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Acknowledge what the member holds, and fetch."""
        life = self._life
        if life.machine.take_is_metadata_stale() or len(life.wanted) < self._partition_count:
            life.machine.take_hints()
            if not await self._find_leaders(life):
                return
        if life.held and self._happens(LATE_SHARE):
            self.facts.count("late acknowledgements of share members")
            await asyncio.sleep(LOCK_MS * self.random.uniform(0.8, 1.5) / 1000)
        self._decide(life)
        if life.machine.has_acknowledgements and self._happens(SEPARATE_SHARE):
            life.machine.hurry()
            await self._exchange(life)
            await self.pause(0.1)
        life.machine.fetch_more()
        await self._exchange(life)

    def _happens(self, share: float) -> bool:
        return not self._is_draining and self.random.random() < share

    def _decide(self, life: Life) -> None:
        """Acknowledge the records that the member holds."""
        now_ms = self.clock.monotonic_ms()
        renewing = {
            node
            for node in sorted({each.node for each in life.held.values()})
            if self._happens(RENEW_SHARE)
        }
        for key, held in list(life.held.items()):
            kind = AcknowledgeType.ACCEPT
            if held.node in renewing:
                kind = AcknowledgeType.RENEW
            elif not self._is_draining:
                kind = self.random.choice(KINDS)
            delivery = held.delivery
            noted = Acknowledgement(held.node, delivery, kind, delivery.until_ns)
            earlier = life.acknowledgements.get(key)  # a renewal that is repeated
            if earlier is not None and earlier.sent_ns is not None:
                noted.send(earlier.sent_ns, None)
                noted.send(earlier.sent_ns, None)
            life.acknowledgements[key] = noted
            life.machine.acknowledge(key, kind, now_ms)
            self._shared.begin(delivery, kind)
            if kind is not AcknowledgeType.RENEW:
                delivery.end()
                del life.held[key]

    # -- requests -------------------------------------------------------------------------------

    async def _exchange(self, life: Life) -> None:
        """Send the requests that are due, and wait for their responses."""
        requests = life.machine.requests(self.clock.monotonic_ms())
        if requests:
            await asyncio.gather(*(self._send(life, *each) for each in requests))
        else:
            await self.pause(0.1)
        self._note_results(life)
        while (error := life.machine.take_error()) is not None:
            if not error.retriable and getattr(error, "code", None) not in MOVED:
                self.unexpected_error("a share consumer", error)

    async def _send(self, life: Life, node: int, request: ShareRequest) -> None:
        sent_ns = self.simulation.now_ns
        for key in _acknowledged(request, self._topic):
            if key in life.acknowledgements:
                partition = TopicPartition(*key[:2])
                life.acknowledgements[key].send(sent_ns, self._find_lifetime(node, partition))
        led = [
            TopicPartition(each.topic, each.partition)
            for each, leader in life.wanted.items()
            if leader == node
        ]
        before = {each: self._find_lifetime(node, each) for each in led}
        response: ShareResponse
        try:
            if isinstance(request, ShareFetchRequest):
                response = await self.client.ask(request, ShareFetchResponse, To(node=node))
            else:
                response = await self.client.ask(request, ShareAcknowledgeResponse, To(node=node))
        except ClientError as error:
            self.client.disconnect(node)
            for partition in led if isinstance(request, ShareFetchRequest) else ():
                self._shared.lose_fetch(partition)
            life.lose_locks(node)
            life.machine.failed(node, error, self.clock.monotonic_ms())
            return
        if response.error_code:
            life.lose_locks(node)
        life.machine.answered(node, response, self.clock.monotonic_ms())
        records = life.machine.take(self.clock.monotonic_ms())
        for record in records:
            partition = record.topic_partition
            lifetime = self._find_lifetime(node, partition)
            leader_epoch = _leader_epoch(before.get(partition) or lifetime)
            if lifetime is not before.get(partition):
                lifetime = None
            self._receive(life, node, record, sent_ns, lifetime, leader_epoch)
        if isinstance(response, ShareFetchResponse):
            received = {each.topic_partition for each in records}
            for topic in response.responses:
                for data in topic.partitions:
                    partition = TopicPartition(self._topic, data.partition_index)
                    if data.acquired_records and partition not in received:
                        self._shared.lose_fetch(partition)  # the locks have ended on the way

    def _receive(
        self,
        life: Life,
        node: int,
        record: ShareRecord,
        sent_ns: int,
        lifetime: LocalSharePartition | None,
        leader_epoch: int | None,
    ) -> None:
        delivery = self._shared.deliver(
            life.membership.member_id,
            Reading(record.topic_partition, record.offset, (record.value or b"").decode()),
            record.delivery_count,
            sent_ns,
            self.simulation.now_ns,
            lifetime,
            leader_epoch,
        )
        life.held[record.topic, record.partition, record.offset] = Held(node, delivery)

    # -- results --------------------------------------------------------------------------------

    def _note_results(self, life: Life) -> None:
        for result in life.machine.take_results():
            found = [
                life.acknowledgements.pop((result.topic, result.partition, offset), None)
                for offset in result.types
            ]
            self._settle(result, [each for each in found if each is not None])

    def _settle(self, result: AcknowledgementResult, of: list[Acknowledgement]) -> None:
        """Note the result of the acknowledgements of one partition in a request."""
        code = result.error.code if isinstance(result.error, BrokerError) else None
        if code == E.INVALID_RECORD_STATE:
            self.facts.count("acknowledgements of share members refused")
            if of:  # otherwise they were of an earlier delivery of the same records
                self._check_refusal(result, of)
        elif code is not None and code not in MOVED and code != E.UNKNOWN_SERVER_ERROR:
            self.unexpected("acknowledgements", code)
        now_ns = self.simulation.now_ns
        for each in of:
            if each.sent_ns is None or (code == E.INVALID_RECORD_STATE and not each.is_repeated):
                self._shared.refused(each.delivery, each.kind)
            elif result.error is not None:
                self._settle_unknown(each)
            else:
                partition = each.delivery.partition
                lifetime = self._find_lifetime(each.node, partition)
                self._shared.acknowledged(
                    each.delivery,
                    each.kind,
                    each.sent_ns,
                    now_ns,
                    lifetime if lifetime is each.lifetime else None,
                    _leader_epoch(each.lifetime),
                )

    def _settle_unknown(self, each: Acknowledgement) -> None:
        if each.sent_ns is None:
            self._shared.refused(each.delivery, each.kind)
        else:
            self._shared.unknown(each.delivery, each.kind)

    def _check_refusal(self, result: AcknowledgementResult, of: list[Acknowledgement]) -> None:
        """Check that one of the locks may have ended, or that the share partition is another one."""
        first = of[0]
        lifetime = self._find_lifetime(first.node, first.delivery.partition)
        is_same = all(
            each.lifetime is lifetime
            and each.delivery.lifetime is lifetime
            and not each.is_repeated
            for each in of
        )
        until_ns = min(each.until_ns for each in of)
        if lifetime is not None and is_same and self.simulation.now_ns < until_ns:
            self._shared.refused_holder(first.delivery, error_code(E.INVALID_RECORD_STATE).name)


def _acknowledged(request: ShareRequest, topic: str) -> Iterator[RecordKey]:
    """Yield the offsets that a request acknowledges. All are of one topic."""
    for each in request.topics:
        for partition in each.partitions:
            for batch in partition.acknowledgement_batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    yield topic, partition.partition_index, offset


def _leader_epoch(lifetime: LocalSharePartition | None) -> int | None:
    return None if lifetime is None else lifetime.machine.leader_epoch
