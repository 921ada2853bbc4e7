"""A member of a consumer group of the new protocol (KIP-848): the coordinator assigns the partitions.

See `heartbeat_member` for its states. The target assignment names topics by id: the names are asked for,
and what has no name yet waits while the rest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.client.core.asks import Ask
from odradek.client.core.backoff import RandomNumber
from odradek.client.core.group_member import MemberState
from odradek.client.core.heartbeat_member import Fields, HeartbeatMember
from odradek.client.core.member_events import Assigned, MemberEvent, Revoked
from odradek.client.core.member_settings import MemberSettings
from odradek.client.core.routes import Routes
from odradek.client.core.topic_names import TopicNames
from odradek.wire.generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from odradek.wire.generated.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)

_Target = dict[bytes, tuple[int, ...]]
"""Partitions by topic id."""


class ConsumerMember(HeartbeatMember):
    """One member of one group."""

    _response_class = ConsumerGroupHeartbeatResponse

    def __init__(
        self,
        routes: Routes,
        settings: MemberSettings,
        member_id: str,
        random: RandomNumber,
        *,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        assignor: str | None = None,
    ) -> None:
        """`member_id` is a new UUID. `pattern` (RE2) and `assignor` are the coordinator's to apply."""
        super().__init__(routes, settings, member_id, random)
        self._names = TopicNames(routes, settings.request_timeout_ms)
        self._topics = sorted(set(topics))
        self._pattern = pattern
        self._assignor = assignor
        self._target: _Target = {}

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None) -> None:
        """Subscribe to other topics."""
        self._topics = sorted(set(topics))
        self._pattern = pattern
        self._beat_soon()

    def _differences(self, now_ms: int) -> list[MemberEvent] | None:
        """See `HeartbeatMember`."""
        known, is_complete = self._names.resolve(self._target, now_ms)
        revoked = self.assignment - known
        added = known - self.assignment
        events: list[MemberEvent] = []
        if revoked:
            events.append(Revoked(tuple(sorted(revoked))))
        if added:
            events.append(Assigned(tuple(sorted(added))))
        if events:
            return events
        must_tell = is_complete and self._told.get("topic_partitions") != self._owned()
        return [] if must_tell else None

    def _owned(self) -> list[tuple[bytes, list[int]]]:
        """Return what the member has, as heartbeats name it."""
        return self._names.by_id(self.assignment)

    def _other_asks(self, now_ms: int) -> tuple[list[Ask], int | None]:
        """See `HeartbeatMember`."""
        return self._names.poll(now_ms), self._names.next_deadline_ms

    def _take(self, response: Any, now_ms: int) -> bool:
        """See `HeartbeatMember`."""
        before = self._target
        if response.assignment is not None:
            self._target = {
                each.topic_id: tuple(each.partitions)
                for each in response.assignment.topic_partitions
            }
        return self._target != before

    def _forget(self) -> None:
        """See `HeartbeatMember`."""
        self._target = {}

    def _request(
        self, epoch: int, now_ms: int, *, is_leaving: bool
    ) -> tuple[ConsumerGroupHeartbeatRequest, Fields]:
        """See `HeartbeatMember`."""
        fields = {} if is_leaving else self._fields()
        settings = self._settings
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=settings.instance_id,
            **self._news(fields),
        )
        return request, fields

    def _fields(self) -> Fields:
        """Return all fields as they are now."""
        settings = self._settings
        owned = self._owned()
        is_busy = self.state in (MemberState.RECONCILING, MemberState.CLOSING)
        return {
            "rebalance_timeout_ms": settings.max_poll_interval_ms,
            "subscribed_topic_names": self._topics,
            "subscribed_topic_regex": self._pattern or "",
            "server_assignor": self._assignor,
            "rack_id": settings.rack or None,
            "topic_partitions": self._told.get("topic_partitions", owned) if is_busy else owned,
        }

    def _news(self, fields: Fields) -> Fields:
        """Return the fields that the coordinator does not know, as the message has them."""
        found = {
            name: value
            for name, value in fields.items()
            if name not in self._told or self._told[name] != value
        }
        regex = "subscribed_topic_regex"
        if not found.get(regex) and not self._told.get(regex):
            found.pop(regex, None)  # brokers of version 0 do not know the field
        if "topic_partitions" in found:
            found["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in found["topic_partitions"]
            ]
        return found
