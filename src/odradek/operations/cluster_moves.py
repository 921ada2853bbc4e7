"""The moves of a plan, a few partitions at a time: which to begin, and which are complete.

`Moves` performs no IO. Its owner sends what `begin` and `cancel` return to the controller as
reassignments (KIP-455), lists the reassignments in progress again and again, and passes the results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_plans import Replicas


class Moves:
    """The state of all moves of a plan.

    A partition waits, is in progress, or is done: moved, refused by the controller, or cancelled.
    `at_once` is the number of partitions that are in progress at the same time.
    """

    def __init__(
        self, moves: Mapping[TopicPartition, Replicas], at_once: int, *, now_ms: int
    ) -> None:
        self._moves = moves
        self._waiting = deque(moves)
        self._active: set[TopicPartition] = set()
        self._at_once = at_once
        self._noticed_ms = now_ms
        self.moved = 0
        """How many partitions are moved."""
        self.cancelled = 0
        self.errors: list[ClientError] = []
        """Why the controller refused to move partitions; one error a partition."""

    @property
    def is_done(self) -> bool:
        """Whether no partition waits or is in progress."""
        return not (self._waiting or self._active)

    @property
    def active(self) -> frozenset[TopicPartition]:
        """The partitions whose moves are in progress."""
        return frozenset(self._active)

    @property
    def not_begun(self) -> int:
        """How many partitions wait."""
        return len(self._waiting)

    def begin(self) -> dict[TopicPartition, Replicas]:
        """Return the reassignments to request now.

        They count as in progress before the request: it may reach the controller although no response
        comes, and then `cancel` must include them.
        """
        wanted: dict[TopicPartition, Replicas] = {}
        while self._waiting and len(self._active) < self._at_once:
            key = self._waiting.popleft()
            wanted[key] = self._moves[key]
            self._active.add(key)
        return wanted

    def begun(self, results: Mapping[TopicPartition, ClientError | None]) -> None:
        """Take the controller's response to the reassignments of `begin`."""
        for key, error in results.items():
            if error is not None:
                self._active.discard(key)
                self.errors.append(error)

    def seen(self, in_progress: Collection[TopicPartition], now_ms: int) -> None:
        """Take the reassignments that are in progress. The others are complete."""
        done = self._active.difference(in_progress)
        self._active -= done
        self.moved += len(done)
        if done:
            self._noticed_ms = now_ms

    def stalled(self, now_ms: int, after_ms: int) -> bool:
        """Whether no move was completed for `after_ms`. Then it is False for `after_ms` again."""
        if not self._active or now_ms - self._noticed_ms < after_ms:
            return False
        self._noticed_ms = now_ms
        return True

    def cancel(self) -> dict[TopicPartition, None]:
        """Return the reassignments in progress, to be cancelled."""
        return dict.fromkeys(self._active)

    def cancellations(self, results: Mapping[TopicPartition, ClientError | None]) -> None:
        """Take the controller's response to the cancellations. No other move begins."""
        self.cancelled += sum(error is None for error in results.values())
        self._active.clear()
