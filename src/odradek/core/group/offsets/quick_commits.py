"""Encodes and replays offset commit records faster than the general code.

Most records in `__consumer_offsets` are offset commits. The key of a commit ends with the
partition. The bytes before the partition (type, group and topic) are the same in many records. So
this module does not decode these bytes, but looks them up in a dict. A value in the usual form has
no metadata and has a topic id. Its fields are at fixed positions. The general code replays all
other records.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from odradek.core.group.offset_store import CommittedOffset, PartitionOffsets
from odradek.core.group.records import OFFSET_COMMIT_VERSION
from odradek.wire.generated.offset_commit_key import OffsetCommitKey
from odradek.wire.primitives import MalformedMessage

_PARTITION = Struct(">i")
_KIND = Struct(">h")
_SIZE = Struct(">h")
_KEY = Struct(">hh")
"""Record type, size of the group id."""
_VALUE = Struct(">hqiBqBBB16s")
"""Version, offset, leader epoch, metadata length + 1, time, number of tagged fields, number of the
first tag, size of the tagged field, topic id."""
_USUAL = (OFFSET_COMMIT_VERSION, 1, 1, 0, 16)
"""In the usual form: version, metadata length + 1, number of tagged fields, tag, and tag size."""


def key_prefix(group_id: str, topic: str) -> bytes:
    """Return the key of a commit without the partition."""
    group, name = group_id.encode(), topic.encode()
    return _KEY.pack(OffsetCommitKey.API_KEY, len(group)) + group + _SIZE.pack(len(name)) + name


def pack_commit(
    prefix: bytes, partition: int, offset: int, leader_epoch: int, time_ms: int, topic_id: bytes
) -> tuple[bytes, bytes]:
    """Encode the key and value of a commit in the usual form."""
    value = _VALUE.pack(OFFSET_COMMIT_VERSION, offset, leader_epoch, 1, time_ms, 1, 0, 16, topic_id)
    return prefix + _PARTITION.pack(partition), value


FindPlace = Callable[[str, str], PartitionOffsets]
"""Returns the dict with the committed offsets of a group id and a topic."""


class QuickCommits:
    """Replays offset commits in the usual form while a log is loaded.

    The journal must not be recording, because this class does not use the journal.
    """

    def __init__(self, find_place: FindPlace) -> None:
        self._find_place = find_place
        self._places: dict[bytes, PartitionOffsets] = {}
        """Key without the partition -> the dict with its offsets."""
        self._topic_id = b""

    def take(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """Replay a record; see `odradek.core.coordinator.machine.QuickReplay`."""
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
            topic_id = self._topic_id  # one shared object for all commits
        else:
            self._topic_id = topic_id
        (partition,) = _PARTITION.unpack_from(key, len(key) - _PARTITION.size)
        place[partition] = CommittedOffset(offset, committed, epoch, "", time_ms, -1, topic_id)
        return True

    def forget(self) -> bool:
        """Clear the cache, because other records may remove offsets. Return False."""
        if self._places:
            self._places.clear()
        return False

    def _place(self, key: bytes) -> PartitionOffsets | None:
        """Return the dict of the group and topic in a key; None if the key has another type."""
        if len(key) < _KIND.size or _KIND.unpack_from(key)[0] != OffsetCommitKey.API_KEY:
            return None
        try:
            known = OffsetCommitKey.decode(key, 0, _KIND.size)
        except MalformedMessage:
            return None  # the general code reports the error
        place = self._find_place(known.group, known.topic)
        self._places[key[: -_PARTITION.size]] = place
        return place
