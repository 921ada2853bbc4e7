"""The members of groups in a simulation: the shipped machines of both protocols, and their commits.

An actor uses a `SimMember` as a program uses a consumer: it polls, works on the events, and commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from odradek.client.core.classic_member import ClassicMember
from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import Commits, Outsider
from odradek.client.core.consumer_member import ConsumerMember
from odradek.client.core.member_events import MemberEvent
from odradek.client.core.member_settings import MemberSettings
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import TIMEOUT_MS, SimClient

EAGER, COOPERATIVE, CONSUMER = "range", "cooperative-sticky", "consumer"
"""The two kinds of members of classic groups, and members of groups of the new protocol (KIP-848)."""
KINDS = (EAGER, COOPERATIVE, CONSUMER)
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 1_500, 300
REBALANCE_TIMEOUT_MS = 3_000
_POLL_S = 0.5


class SimMember:
    """One member of one group."""

    def __init__(self, client: SimClient, group_id: str, topics: Iterable[str], kind: str) -> None:
        self._client = client
        settings = MemberSettings(
            group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            request_timeout_ms=TIMEOUT_MS,
        )
        routes, random = client.routes, client.random_number
        self._member: ClassicMember | ConsumerMember
        if kind == CONSUMER:
            number = b"".join(random().to_bytes(4) for _ in range(4))
            member_id = uuids.to_text(number)
            self._member = ConsumerMember(routes, settings, member_id, random, topics=topics)
        else:
            subscription = ClassicSubscription(routes, topics, [kind])
            self._member = ClassicMember(routes, settings, subscription, random)
        self._commits = Commits(routes, self._member, random, request_timeout_ms=TIMEOUT_MS)
        client.add(self._member, self._commits)

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of the member now."""
        return self._member.group_metadata

    async def poll(self) -> MemberEvent | None:
        """Join if necessary. Return the next event; None if the member is in the group without one.

        Raises:
            ClientError: the group refuses the member.
        """
        polls = self._client.loop.create_task(self._keep_polling())
        self._member.join(self._client.clock.monotonic_ms())
        try:
            return await self._next_event()
        finally:
            polls.cancel()

    async def _keep_polling(self) -> None:
        """Let the member know that its user waits for it, which is no reason to leave the group."""
        while True:
            self._member.polled(self._client.clock.monotonic_ms())
            self._client.wake()
            await asyncio.sleep(_POLL_S)

    async def _next_event(self) -> MemberEvent | None:
        member = self._member
        found: list[MemberEvent] = []

        def has_news() -> bool:
            event = None if found else member.take_event()
            if event is not None:
                found.append(event)
            return bool(found) or member.is_stable or member.is_at_rest

        await self._client.until(has_news)
        if not found and member.error is not None:
            raise member.error
        return found[0] if found else None

    def done(self, event: MemberEvent) -> None:
        """Note that an event is worked on."""
        self._member.done(event)
        self._client.wake()

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets, without those of partitions that have none.

        Raises:
            ClientError: the coordinator refuses, or does not answer in time.
        """
        deadline_ms = self._client.clock.monotonic_ms() + TIMEOUT_MS
        fetch = self._commits.fetch(partitions, deadline_ms)
        await self._client.until(lambda: fetch.done)
        if fetch.error is not None:
            raise fetch.error
        return {each: committed.offset for each, committed in fetch.offsets.items()}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets.

        Raises:
            ClientError: they may not be committed.
        """
        deadline_ms = self._client.clock.monotonic_ms() + TIMEOUT_MS
        wanted = {each: CommittedOffset(offset) for each, offset in offsets.items()}
        commit = self._commits.commit(wanted, deadline_ms)
        await self._client.until(lambda: commit.done)
        if commit.error is not None:
            raise commit.error

    async def leave(self) -> None:
        """Leave the group. What is revoked needs no work."""
        self._member.leave()
        while (event := await self._next_event()) is not None:
            self.done(event)
        self.close()

    def close(self) -> None:
        """End without leaving the group, as a process that is killed."""
        self._client.remove(self._member, self._commits)


async def committed_offsets(
    client: SimClient, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, without those of partitions that have none.

    Raises:
        ClientError: the coordinator refuses, or does not answer in time.
    """
    commits = Commits(
        client.routes,
        Outsider(group_id),
        client.random_number,
        request_timeout_ms=TIMEOUT_MS,
    )
    client.add(commits)
    fetch = commits.fetch(partitions, client.clock.monotonic_ms() + TIMEOUT_MS)
    await client.until(lambda: fetch.done)
    client.remove(commits)
    if fetch.error is not None:
        raise fetch.error
    return {each: committed.offset for each, committed in fetch.offsets.items()}
