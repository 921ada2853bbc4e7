"""The assignors `sticky` and `cooperative-sticky` (KIP-54, KIP-341, KIP-429, KIP-881).

Both make the numbers of partitions as equal as possible, and leave members what they owned as far
as this allows. They make the same decisions as Java's, also where these depend on the order of a
hash table (docs/decisions/group-kafkas-order.md), with two exceptions: they assign partitions only
to members that are subscribed to the topic, and only partitions that exist.

Members of `sticky` give up their partitions before they join, and name them in their user data.
Members of `cooperative-sticky` keep them. A partition that another member may still own is left out
of the assignment; when that member has revoked it, it joins again, and the partition is assigned.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from odradek.client.core.assignors.group import Assignments, Assignor, Member, Members, Topics
from odradek.client.core.assignors.sticky_claims import (
    NO_GENERATION,
    Claim,
    Claims,
    Ownership,
    Racks,
)
from odradek.client.core.assignors.sticky_equal import EqualShares
from odradek.client.core.assignors.sticky_general import GeneralShares
from odradek.model.topic_partition import TopicPartition, by_topic

_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def _assign(
    topics: Topics, members: Members, claims: Claims
) -> tuple[Assignments, dict[TopicPartition, str] | None]:
    """Return the assignments, and the new owners of partitions that moved, if these are known."""
    ownership = Ownership(topics, members, claims)
    racks = Racks(topics, members)
    wishes = {frozenset(member.topics) for member in members.values()}
    if len(wishes) > 1:
        return GeneralShares(topics, members, claims, ownership, racks).make(), None
    shares = EqualShares(topics, ownership, racks)
    shares.make()
    return shares.assignments, shares.moved


def assign_sticky(topics: Topics, members: Members) -> Assignments:
    """Assign partitions; each member's earlier ones are in its user data."""
    claims = {member_id: _sticky_claim(member.user_data) for member_id, member in members.items()}
    return _assign(topics, members, claims)[0]


def assign_cooperatively(topics: Topics, members: Members) -> Assignments:
    """Assign partitions, without those that another member must revoke first."""
    claims = {member_id: _cooperative_claim(member) for member_id, member in members.items()}
    assignments, moved = _assign(topics, members, claims)
    if moved is None:
        moved = _moved(members, assignments)
    return {
        member_id: [each for each in some if moved.get(each) != member_id]
        for member_id, some in assignments.items()
    }


def _moved(
    members: Members, assignments: Mapping[str, Sequence[TopicPartition]]
) -> dict[TopicPartition, str]:
    """Return the new owners of partitions that another member must revoke."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, some in assignments.items():
        owned = set(members[member_id].owned)
        added.update((each, member_id) for each in some if each not in owned)
        revoked |= owned.difference(some)
    return {each: member_id for each, member_id in added.items() if each in revoked}


# -- user data ----------------------------------------------------------------------------------


def sticky_user_data(owned: Sequence[TopicPartition] | None, generation_id: int) -> bytes | None:
    """Encode what a member owned and in which generation; None before the first assignment."""
    if owned is None:
        return None
    topics = by_topic(owned)
    parts = [_INT32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name, _INT32.pack(len(indexes)))
        parts += map(_INT32.pack, indexes)
    return b"".join((*parts, _INT32.pack(generation_id)))


def _sticky_claim(data: bytes | None) -> Claim:
    """Decode `sticky_user_data`. Old clients leave the generation out; what is damaged is no claim."""
    if not data:
        return Claim(())
    try:
        return _read_claim(data)
    except (struct.error, UnicodeDecodeError):
        return Claim(())


def _read_claim(data: bytes) -> Claim:
    partitions = []
    (count,), place = _INT32.unpack_from(data), 4
    for _ in range(_checked(count)):
        (length,), place = _INT16.unpack_from(data, place), place + 2
        end = place + _checked(length)
        if end > len(data):
            raise struct.error("the name is cut off")
        topic, place = data[place:end].decode(), end
        (size,), place = _INT32.unpack_from(data, place), place + 4
        for (index,) in _INT32.iter_unpack(_slice(data, place, 4 * _checked(size))):
            partitions.append(TopicPartition(topic, index))
        place += 4 * size
    if len(data) - place < 4:
        return Claim(partitions)
    return Claim(partitions, _INT32.unpack_from(data, place)[0])


def _slice(data: bytes, start: int, length: int) -> bytes:
    if start + length > len(data):
        raise struct.error("the partitions are cut off")
    return data[start : start + length]


def _checked(count: int) -> int:
    if count < 0:
        raise struct.error("a negative count")
    return count


def cooperative_user_data(_owned: Sequence[TopicPartition] | None, generation_id: int) -> bytes:
    """Encode the generation, for leaders that know no newer version of the subscription."""
    return _INT32.pack(generation_id)


def _cooperative_claim(member: Member) -> Claim:
    if member.generation_id >= 0:
        return Claim(member.owned, member.generation_id)
    data = member.user_data
    if data is None or len(data) < _INT32.size:
        return Claim(member.owned, NO_GENERATION)
    return Claim(member.owned, _INT32.unpack_from(data)[0])


STICKY = Assignor("sticky", assign_sticky, sticky_user_data)
COOPERATIVE_STICKY = Assignor(
    "cooperative-sticky", assign_cooperatively, cooperative_user_data, is_cooperative=True
)
