"""What a sink task commits, and where it reads on.

    poll --> delivered (positions) --> pre_commit says what is safe --> commit --> committed
                  ^                                                       |
                  +--------- rewind, if a commit fails -------------------+

Offsets are those of the next record, as in all of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.model.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


class SinkProgress:
    """The offsets of one task."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        """`interval_ms` is `offset.flush.interval.ms`."""
        self._interval_ms = interval_ms
        self._next_ms = now_ms + interval_ms
        self._is_asked = False
        self._delivered: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.sequence = 0
        """The number of the last commit."""

    @property
    def delivered(self) -> dict[TopicPartition, int]:
        """The offsets after the records that the task has got."""
        return dict(self._delivered)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The offsets of the last successful commit, or where reading began."""
        return dict(self._committed)

    def opened(self, positions: Offsets) -> None:
        """Note new partitions, with their first offsets."""
        self._committed.update(positions)
        self._delivered.update(positions)

    def closed(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions."""
        for each in partitions:
            self._committed.pop(each, None)
            self._delivered.pop(each, None)

    def note_delivered(self, positions: Offsets) -> None:
        """Note that the task has got the records before these offsets."""
        self._delivered.update({k: v for k, v in positions.items() if k in self._delivered})

    def rewound(self, positions: Offsets) -> None:
        """Note that reading continues elsewhere."""
        known = {k: v for k, v in positions.items() if k in self._delivered}
        self._delivered.update(known)
        self._committed.update(known)

    # -- commits --------------------------------------------------------------------------------

    def ask(self) -> None:
        """Commit at the next opportunity."""
        self._is_asked = True

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to commit."""
        return self._is_asked or now_ms >= self._next_ms

    def due_ms(self, now_ms: int) -> int:
        """Return in how many ms the next commit is due."""
        return 0 if self._is_asked else max(self._next_ms - now_ms, 0)

    def began(self, now_ms: int) -> int:
        """Begin a commit, and return its number."""
        self._is_asked = False
        self._next_ms = now_ms + self._interval_ms
        self.sequence += 1
        return self.sequence

    def commitable(self, wanted: Offsets) -> dict[TopicPartition, int]:
        """Return what of the offsets that the task returned is committed.

        Unknown partitions, and offsets of records that the task has not got, are left out. So is what is
        committed already.
        """
        return {
            each: offset
            for each, offset in wanted.items()
            if each in self._delivered
            and offset <= self._delivered[each]
            and offset != self._committed.get(each)
        }

    def commit_done(self, sequence: int, offsets: Offsets) -> bool:
        """Note a successful commit. Return False if a later one has begun since."""
        if sequence != self.sequence:
            return False
        self._committed.update({k: v for k, v in offsets.items() if k in self._delivered})
        return True
