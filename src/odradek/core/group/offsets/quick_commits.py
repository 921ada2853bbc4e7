"""Commits are what a log of groups is full of: most are packed, and taken while it is loaded, as
bytes.

The key of a commit ends with the partition; all before it, type, group and topic, is the same for
many records and is looked up instead of decoded. A value of the usual form (without text, with a
topic id) has fixed places for its fields. All else goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from odradek.core.group.offsets.store import CommittedOffset, PartitionOffsets
from odradek.core.group.records import OFFSET_COMMIT_VERSION
from odradek.wire.generated.offset_commit_key import OffsetCommitKey
from odradek.wire.primitives import MalformedMessage

_PARTITION = Struct(">i")
_KIND = Struct(">h")
_SIZE = Struct(">h")
_KEY = Struct(">hh")
"""Type, the group id's size."""
_VALUE = Struct(">hqiBqBBB16s")
"""Version, offset, leader epoch, metadata's length + 1, time, tags, a tag, its size, topic id."""
_USUAL = (OFFSET_COMMIT_VERSION, 1, 1, 0, 16)
"""Of these: version, metadata's length + 1, tags, a tag, its size."""


def key_prefix(group_id: str, topic: str) -> bytes:
    """The key of a commit without the partition."""
    group, name = group_id.encode(), topic.encode()
    return _KEY.pack(OffsetCommitKey.API_KEY, len(group)) + group + _SIZE.pack(len(name)) + name


def pack_commit(
    prefix: bytes, partition: int, offset: int, leader_epoch: int, time_ms: int, topic_id: bytes
) -> tuple[bytes, bytes]:
    """Key and value of a commit in the usual form."""
    value = _VALUE.pack(OFFSET_COMMIT_VERSION, offset, leader_epoch, 1, time_ms, 1, 0, 16, topic_id)
    return prefix + _PARTITION.pack(partition), value


FindPlace = Callable[[str, str], PartitionOffsets]
"""(group id, topic): where the offsets are kept."""


class QuickCommits:
    """See the module. Only for a machine whose journal does not record."""

    def __init__(self, find_place: FindPlace) -> None:
        self._find_place = find_place
        self._places: dict[bytes, PartitionOffsets] = {}
        """By the key without the partition."""
        self._topic_id = b""

    def take(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """See `odradek.core.coordinator.machine.QuickReplay`."""
        if producer_id >= 0 or key is None or value is None or len(value) != _VALUE.size:
            return self.forget()
        place = self._places.get(key[: -_PARTITION.size])
        if place is None:
            place = self._place(key)
            if place is None:
                return self.forget()
        version, committed, epoch, text, time_ms, tags, tag, size, topic_id = _VALUE.unpack(value)
        if (version, text, tags, tag, size) != _USUAL:
            return self.forget()
        if topic_id == self._topic_id:
            topic_id = self._topic_id  # one object for all
        else:
            self._topic_id = topic_id
        (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
        place[partition] = CommittedOffset(offset, committed, epoch, "", time_ms, -1, topic_id)
        return True

    def forget(self) -> bool:
        """What is replayed otherwise may remove places. Always False."""
        if self._places:
            self._places.clear()
        return False

    def _place(self, key: bytes) -> PartitionOffsets | None:
        """Where the offsets of the group and topic of a key go; None if it is another key."""
        if len(key) < _KIND.size or _KIND.unpack_from(key)[0] != OffsetCommitKey.API_KEY:
            return None
        try:
            known = OffsetCommitKey.decode(key, 0, _KIND.size)
        except MalformedMessage:
            return None  # reported by the general way
        place = self._find_place(known.group, known.topic)
        self._places[key[: -_PARTITION.size]] = place
        return place
