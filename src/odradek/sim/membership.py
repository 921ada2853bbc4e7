"""The consumers of a simulation: the shipped machine, with its member, its commits and its fetcher.

An actor uses a `SimConsumer` as a program uses a consumer: it polls, works on the events, takes records, and
commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from odradek.client.core.commits import Commits, Outsider
from odradek.client.core.consumed_batch import Batch
from odradek.client.core.consumer import ConsumerMachine
from odradek.client.core.consumer_settings import CLASSIC, ConsumerSettings
from odradek.client.core.fetch_settings import READ_COMMITTED, FetchSettings, ResetPolicy
from odradek.client.core.member_events import MemberEvent
from odradek.client.core.member_settings import MemberSettings
from odradek.client.errors import ClientError
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model import uuids
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import TIMEOUT_MS, SimClient

EAGER, COOPERATIVE, CONSUMER = "range", "cooperative-sticky", "consumer"
"""The two kinds of members of classic groups, and members of groups of the new protocol (KIP-848)."""
KINDS = (EAGER, COOPERATIVE, CONSUMER)
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 1_500, 300
REBALANCE_TIMEOUT_MS = 3_000
_WAIT_MS = 300
_POLL_S = 0.5


class SimConsumer:
    """One consumer, which is a member of a group."""

    def __init__(
        self,
        client: SimClient,
        group_id: str,
        topics: Iterable[str],
        kind: str,
        records_max: int | None = None,
    ) -> None:
        """A batch has at most `records_max` records."""
        self._client = client
        random = client.random_number
        member = MemberSettings(
            group_id,
            rack=client.rack,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
            request_timeout_ms=TIMEOUT_MS,
        )
        fetch = FetchSettings(
            wait_ms_max=_WAIT_MS,
            isolation=READ_COMMITTED,
            reset=ResetPolicy("earliest"),
            rack=client.rack,
            records_max=records_max,
            request_timeout_ms=TIMEOUT_MS,
        )
        settings = ConsumerSettings(
            fetch,
            member,
            CONSUMER if kind == CONSUMER else CLASSIC,
            (EAGER if kind == CONSUMER else kind,),
            api_timeout_ms=TIMEOUT_MS,
        )
        member_id = uuids.to_text(b"".join(random().to_bytes(4) for _ in range(4)))
        self._machine = ConsumerMachine(
            settings, client.routes, random, client.clock.now_ms, member_id
        )
        self._machine.subscribe(topics)
        client.add(self._machine)

    @property
    def identity(self) -> GroupMetadata:
        """The member as which the consumer got its partitions, for transactions."""
        return self._machine.identity

    @property
    def identity_now(self) -> GroupMetadata:
        """The identity of the member now."""
        assert self._machine.member is not None
        return self._machine.member.group_metadata

    # -- the group ------------------------------------------------------------------------------

    async def poll(self) -> MemberEvent | None:
        """Join if necessary. Return the next event; None if the member is in the group without one.

        Raises:
            ClientError: the group refuses the member.
        """
        polls = self._client.loop.create_task(self._keep_polling())
        try:
            return await self._next_event()
        finally:
            polls.cancel()

    async def _keep_polling(self) -> None:
        """Let the member know that its user waits for it, which is no reason to leave the group."""
        while True:
            self._machine.polled(self._client.clock.monotonic_ms())
            self._client.wake()
            await asyncio.sleep(_POLL_S)

    async def _next_event(self) -> MemberEvent | None:
        machine, clock = self._machine, self._client.clock
        found: list[MemberEvent] = []
        errors: list[ClientError] = []

        def has_news() -> bool:
            assert machine.member is not None
            event = machine.take_event(clock.monotonic_ms())
            if event is not None:
                found.append(event)
                return True
            error = machine.take_member_error(clock.monotonic_ms())
            if error is not None:
                errors.append(error)
            is_leaving = not machine.is_subscribed and machine.is_out
            return bool(errors) or machine.member.is_stable or is_leaving

        await self._client.until(has_news)
        if errors:
            raise errors[0]
        return found[0] if found else None

    def done(self) -> None:
        """Note that the event is worked on."""
        self._machine.done()
        self._client.wake()

    async def leave(self) -> None:
        """Leave the group. What is revoked needs no work."""
        self._machine.unsubscribe()
        while await self._next_event() is not None:
            self.done()
        self.close()

    def close(self) -> None:
        """End without leaving the group, as a process that is killed."""
        self._client.remove(self._machine)

    # -- records --------------------------------------------------------------------------------

    def take(self) -> Batch | None:
        """Return the next batch, if one is there.

        Raises:
            ClientError: a partition cannot be read.
        """
        batch = self._machine.take()
        self._client.wake()
        return batch

    async def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where reading begins in partitions that have just been assigned."""
        found: dict[TopicPartition, int] = {}

        def are_known() -> bool:
            for each in partitions:
                position = self._machine.position(each)
                if position is not None:
                    found[each] = position.offset
            return all(each in found for each in partitions)

        await self._client.until(are_known)
        return found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset."""
        self._machine.fetcher.seek(partition, offset)
        self._client.wake()

    # -- offsets --------------------------------------------------------------------------------

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets, without those of partitions that have none.

        Raises:
            ClientError: the coordinator refuses, or does not answer in time.
        """
        assert self._machine.commits is not None
        return await _committed(self._client, self._machine.commits, partitions)

    async def commit(self, partition: TopicPartition) -> None:
        """Commit the position in a partition.

        Raises:
            ClientError: it may not be committed.
        """
        assert self._machine.commits is not None
        position = self._machine.position(partition)
        assert position is not None
        deadline_ms = self._client.clock.monotonic_ms() + TIMEOUT_MS
        commit = self._machine.commits.commit({partition: position}, deadline_ms)
        await self._client.until(lambda: commit.done)
        if commit.error is not None:
            raise commit.error

    def position(self, partition: TopicPartition) -> int | None:
        """Return the position in an assigned partition; None if it is not known now."""
        position: CommittedOffset | None = self._machine.position(partition)
        return None if position is None else position.offset


async def _committed(
    client: SimClient, commits: Commits, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    fetch = commits.fetch(partitions, client.clock.monotonic_ms() + TIMEOUT_MS)
    await client.until(lambda: fetch.done)
    if fetch.error is not None:
        raise fetch.error
    found: Mapping[TopicPartition, CommittedOffset] = fetch.offsets
    return {each: committed.offset for each, committed in found.items()}


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
    try:
        return await _committed(client, commits, partitions)
    finally:
        client.remove(commits)
