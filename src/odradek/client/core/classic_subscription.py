"""The protocol of consumers in classic groups: topics, assignors, eager and cooperative (KIP-429).

An eager member gives up all partitions before each rebalance. A cooperative member keeps them, gives
up those that it does not find in its new assignment, and then joins again, so that others get them.
A member is cooperative if all its assignors are.

The leader also joins again if a topic that it has assigned gets partitions, appears or disappears, or
if replicas are in other racks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client.core import group_protocol
from odradek.client.core.assignors import ASSIGNORS, Topics
from odradek.client.core.member_events import Assigned, Joined, Lost, MemberEvent, Revoked
from odradek.client.core.routes import Routes
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.join_group_response import JoinGroupResponseMember


class ClassicSubscription:
    """The topics of a consumer, and the partitions that it has."""

    def __init__(
        self,
        routes: Routes,
        topics: Iterable[str],
        assignors: Sequence[str] = ("range", "cooperative-sticky"),
        rack: str = "",
    ) -> None:
        """`assignors` are in order of preference.

        Raises:
            ValueError: there is no such assignor, or none is given.
        """
        for name in assignors:
            if name not in ASSIGNORS:
                raise ValueError(f"{name!r} is not an assignor; there are {', '.join(ASSIGNORS)}")
        if not assignors:
            raise ValueError(f"no assignor is given; there are {', '.join(ASSIGNORS)}")
        self._routes = routes
        self._topics = frozenset(topics)
        self._assignors = [ASSIGNORS[name] for name in assignors]
        self.is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._rack = rack
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions that the member has."""
        self._last: tuple[TopicPartition, ...] | None = None
        """The last assignment, which `sticky` members tell the leader."""
        self._last_generation_id = -1
        self._generation_id = -1
        """The generation of the assignment."""
        self._must_join_again = False
        self._assigned_topics: Topics | None = None
        """What the leader has assigned; None for other members."""
        self._seen_metadata_ms = -1

    @property
    def protocol_type(self) -> str:
        """See `MemberProtocol`."""
        return group_protocol.PROTOCOL_TYPE

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the member is subscribed to."""
        return self._topics

    def change(self, topics: Iterable[str]) -> None:
        """Subscribe to other topics."""
        topics = frozenset(topics)
        if topics != self._topics:
            self._topics = topics
            self._must_join_again = True

    # -- MemberProtocol -------------------------------------------------------------------------

    def wants_to_join_again(self, now_ms: int) -> bool:
        """See `MemberProtocol`."""
        if self._assigned_topics is not None:
            for name in self._assigned_topics:
                self._routes.topic(name, now_ms)
            if self._routes.metadata_at_ms != self._seen_metadata_ms:
                self._seen_metadata_ms = self._routes.metadata_at_ms
                found = self._known(self._assigned_topics)
                self._must_join_again |= found != self._assigned_topics
        return self._must_join_again

    def before_join(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        given_up = self.assignment
        if self.is_cooperative:
            given_up = frozenset(each for each in given_up if each.topic not in self._topics)
        return [Revoked(tuple(sorted(given_up)))] if given_up else []

    def give_up(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        self._assigned_topics = None
        return [Revoked(tuple(sorted(self.assignment)))] if self.assignment else []

    def lose(self) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        self._assigned_topics = None
        self._generation_id = -1
        return [Lost(tuple(sorted(self.assignment)))] if self.assignment else []

    def metadata(self) -> list[tuple[str, bytes]]:
        """See `MemberProtocol`."""
        self._must_join_again = False
        return [
            (
                each.name,
                group_protocol.encode_subscription(
                    self._topics,
                    self.assignment,
                    self._generation_id,
                    user_data=each.user_data(self._last, self._last_generation_id),
                    rack=self._rack,
                ),
            )
            for each in self._assignors
        ]

    def assign(
        self, protocol_name: str, members: Sequence[JoinGroupResponseMember], now_ms: int
    ) -> Mapping[str, bytes] | None:
        """See `MemberProtocol`."""
        subscriptions = {
            each.member_id: group_protocol.decode_subscription(
                each.metadata, each.group_instance_id
            )
            for each in members
        }
        wanted = sorted({topic for each in subscriptions.values() for topic in each.topics})
        unknown = [
            name
            for name in wanted
            if self._routes.topic(name, now_ms) is None and self._routes.topic_error(name) is None
        ]
        if unknown:
            return None
        self._seen_metadata_ms = self._routes.metadata_at_ms
        self._assigned_topics = self._known(wanted)
        existing = {name: racks for name, racks in self._assigned_topics.items() if racks}
        shares = ASSIGNORS[protocol_name].assign(existing, subscriptions)
        return {
            member_id: group_protocol.encode_assignment(some) for member_id, some in shares.items()
        }

    def _known(self, names: Iterable[str]) -> Topics:
        """Return the racks of the partitions of topics; topics that do not exist have none."""
        metadata = self._routes.metadata
        return {name: metadata.racks_of(name) if name in metadata.topics else [] for name in names}

    def adopt(self, joined: Joined) -> list[MemberEvent]:
        """See `MemberProtocol`."""
        assigned = group_protocol.decode_assignment(joined.assignment)
        if not joined.is_leader:
            self._assigned_topics = None
        if any(each.topic not in self._topics for each in assigned):
            self._must_join_again = True  # the topics have changed since this member joined
            return []
        self._last = assigned
        self._generation_id = self._last_generation_id = joined.generation_id
        revoked = self.assignment.difference(assigned)
        added = [each for each in assigned if each not in self.assignment]
        if not revoked:
            return [Assigned(tuple(added))]
        self._must_join_again = True
        return [Revoked(tuple(sorted(revoked))), Assigned(tuple(added))]

    def taken(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""
        if isinstance(event, Assigned):
            self.assignment |= set(event.partitions)

    def done(self, event: MemberEvent) -> None:
        """See `MemberProtocol`."""
        if isinstance(event, Revoked | Lost):
            self.assignment -= set(event.partitions)
