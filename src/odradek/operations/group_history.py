"""How the members of a group have changed, from the coordinator's log.

For a classic group the coordinator writes a record for each generation. For a group of the new
protocol (KIP-848) the coordinator writes a record for each epoch and a record for each member.
Compaction keeps only the newest record of each key. Older rebalances are therefore missing, or
several appear as one. This works with every broker that allows reading `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.offsets import EARLIEST, offsets_at
from odradek.core.coordinator.placement import partition_for
from odradek.core.coordinator.record import MalformedRecord, decode
from odradek.core.group.records import MESSAGES
from odradek.model.topic_name import OFFSETS_TOPIC
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record
from odradek.wire.generated.consumer_group_member_metadata_key import (
    ConsumerGroupMemberMetadataKey,
)
from odradek.wire.generated.consumer_group_member_metadata_value import (
    ConsumerGroupMemberMetadataValue,
)
from odradek.wire.generated.consumer_group_metadata_key import ConsumerGroupMetadataKey
from odradek.wire.generated.consumer_group_metadata_value import ConsumerGroupMetadataValue
from odradek.wire.generated.group_metadata_key import GroupMetadataKey
from odradek.wire.generated.group_metadata_value import GroupMetadataValue

KINDS = {
    each.API_KEY
    for each in (GroupMetadataKey, ConsumerGroupMetadataKey, ConsumerGroupMemberMetadataKey)
}
_KIND = Struct(">h")


class Known(NamedTuple):
    """A member, as recorded in the log."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: object
    """The subscription in a form that can be compared."""

    @property
    def name(self) -> str:
        """The displayed name."""
        return self.instance_id or self.id


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A generation (classic) or epoch of a group. `reasons` say what changed since the previous."""

    time_ms: int
    type: str
    """`classic` or `consumer`; empty if the group was deleted."""
    generation: int
    members: tuple[Known, ...]
    reasons: tuple[str, ...]


@dataclass(slots=True)
class History:
    """Collects the records of one group."""

    group: str
    _members: dict[str, Known] = field(default_factory=dict)
    _before: dict[str, Known] = field(default_factory=dict)
    """The members of the last rebalance."""
    _last: tuple[str, int] = ("", -1)
    _end: Rebalance | None = None
    """A deletion of the group that is not returned yet. It is dropped if the group continues at the
    same time as a group of the other type, because then the group was converted."""

    def rebalances(self, records: Iterable[Record]) -> Iterator[Rebalance]:
        """Yield the rebalances, oldest first."""
        known = {kind: pair for kind, pair in MESSAGES.items() if kind in KINDS}
        for record in records:
            key = record.key
            if key is None or len(key) < _KIND.size or _KIND.unpack_from(key)[0] not in known:
                continue
            try:
                found = decode(key, record.value, known)
            except MalformedRecord:
                continue  # `odradek consume` shows the record and its error
            if found is not None and getattr(found.key, "group", None) == self.group:
                yield from self._on_classic(record.timestamp, found.value)
            elif found is not None and getattr(found.key, "group_id", None) == self.group:
                yield from self._on_modern(record.timestamp, found.key, found.value)
        yield from self._ended()

    def _on_classic(self, time_ms: int, value: object) -> Iterator[Rebalance]:
        if isinstance(value, GroupMetadataValue):
            self._members = {
                each.member_id: Known(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host.removeprefix("/"),
                    bytes(each.subscription),
                )
                for each in value.members
            }
            yield from self._moved(time_ms, "classic", value.generation)
        elif self._last[0] == "classic":
            self._end_at(time_ms)

    def _on_modern(self, time_ms: int, key: object, value: object) -> Iterator[Rebalance]:
        if isinstance(value, ConsumerGroupMemberMetadataValue):
            assert isinstance(key, ConsumerGroupMemberMetadataKey)
            topics = tuple(sorted(value.subscribed_topic_names))
            self._members[key.member_id] = Known(
                key.member_id,
                value.instance_id,
                value.client_id,
                value.client_host.removeprefix("/"),
                (topics, value.subscribed_topic_regex, value.server_assignor, value.rack_id),
            )
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._members.pop(key.member_id, None)
        elif isinstance(value, ConsumerGroupMetadataValue):
            yield from self._moved(time_ms, "consumer", value.epoch)
        elif self._last[0] == "consumer":
            self._end_at(time_ms)

    def _moved(self, time_ms: int, kind: str, generation: int) -> Iterator[Rebalance]:
        if self._end is not None and self._end.time_ms == time_ms and self._last[0] != kind:
            self._end = None
        yield from self._ended()
        reasons = tuple(self._reasons(kind))
        if reasons or (kind, generation) != self._last:
            members = tuple(self._members.values())
            reasons = reasons or ("the same members, assigned anew" if members else "created",)
            yield Rebalance(time_ms, kind, generation, members, reasons)
        self._last = (kind, generation)
        self._before = dict(self._members)

    def _end_at(self, time_ms: int) -> None:
        reason = "deleted, or forgotten as it was empty"
        self._end = Rebalance(time_ms, "", -1, (), (reason,))
        self._members = {}

    def _ended(self) -> Iterator[Rebalance]:
        if self._end is not None:
            yield self._end
            self._end, self._last, self._before = None, ("", -1), {}

    def _reasons(self, kind: str) -> Iterator[str]:
        """Yield the differences between the previous and the current members."""
        is_converted = self._last[0] not in ("", kind)
        if is_converted:
            yield f"the group is of type {kind} now"
        before, after = self._before, self._members
        gone = {one.instance_id: one for one in before.values() if one.id not in after}
        for member in after.values():
            earlier = before.get(member.id)
            if earlier is None and member.instance_id and gone.pop(member.instance_id, None):
                yield f"{member.name} came back"
            elif earlier is None:
                yield f"{member.name} joined"
            elif earlier.subscription != member.subscription and not is_converted:
                yield f"{member.name} changed its subscription"
        for one in before.values():
            if one.id not in after and (not one.instance_id or one.instance_id in gone):
                yield f"{one.name} left"


def read_log(cluster: Cluster, group: str) -> Iterator[Record]:
    """Read the records of the group's partition of `__consumer_offsets`, up to its current end.

    Raises:
        ClientError: the partition cannot be read.
    """
    count = len(cluster.topic(OFFSETS_TOPIC).partitions)
    place = TopicPartition(OFFSETS_TOPIC, partition_for(group, count))
    for batch in read_to_ends(cluster, offsets_at(cluster, [place], EARLIEST)):
        yield from records_of(batch)
