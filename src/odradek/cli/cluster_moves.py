"""Performs a plan of moves, a few partitions at a time. Ctrl-C cancels it."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping

from odradek.cli.output import note
from odradek.client.admin.reassignments import list_reassignments, reassign
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_plans import Replicas
from odradek.operations.texts import plural

POLL_SECONDS = 0.2
NOTE_SECONDS = 60.0
"""If no move is complete for this time, the user is told."""


class Mover:
    """Moves partitions. Ctrl-C cancels the moves that are in progress, and keeps the others."""

    def __init__(
        self, cluster: Cluster, moves: Mapping[TopicPartition, Replicas], at_once: int
    ) -> None:
        self._cluster = cluster
        self._moves = moves
        self._waiting = deque(moves)
        self._active: set[TopicPartition] = set()
        self._at_once = at_once
        self._is_drawn = False
        self._noted_at = time.monotonic()
        """When the last move was complete, or the user was told that none is."""
        self.moved = 0
        self.errors: list[ClientError] = []

    def run(self) -> None:
        """Move all partitions. `errors` has the partitions that the controller refuses.

        Raises:
            KeyboardInterrupt: Ctrl-C; the moves in progress are cancelled.
            ClientError: the controller does not respond.
        """
        try:
            while self._waiting or self._active:
                self._begin()
                self._look()
                if self._active:
                    time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self._cancel()
            raise
        finally:
            if self._is_drawn:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _begin(self) -> None:
        """Begin as many moves as may be in progress."""
        wanted: dict[TopicPartition, Replicas | None] = {}
        while self._waiting and len(self._active) < self._at_once:
            key = self._waiting.popleft()
            wanted[key] = self._moves[key]
            # Before the request: Ctrl-C may come when the move has begun, but not its response.
            self._active.add(key)
        for key, error in reassign(self._cluster, wanted).items():
            if error is not None:
                self._active.discard(key)
                self.errors.append(error)

    def _look(self) -> None:
        """Find out which moves are complete, and show the progress."""
        if self._active:
            done = self._active.difference(list_reassignments(self._cluster))
            self._active -= done
            self.moved += len(done)
            self._note_waiting(is_waiting=not done)
        if sys.stderr.isatty():
            self._is_drawn = True
            text = f"{self.moved} of {plural(len(self._moves), 'partition')} moved"
            print(
                f"\r{text}, {len(self._active)} in progress\x1b[K",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _note_waiting(self, *, is_waiting: bool) -> None:
        now = time.monotonic()
        if is_waiting and now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        if is_waiting:
            note(
                f"\nNo move was completed for {NOTE_SECONDS:.0f} s; "
                f"{plural(len(self._active), 'partition')} in progress, such as "
                f"{min(self._active)}. Large partitions take long. If a broker does not run, its "
                "moves wait: odradek cluster status"
            )

    def _cancel(self) -> None:
        results = reassign(self._cluster, dict.fromkeys(self._active))
        cancelled = sum(error is None for error in results.values())
        rest = len(self._moves) - len(self.errors) - cancelled - self.moved
        note(
            f"\nCancelled {plural(cancelled, 'move')} in progress; "
            f"{plural(self.moved, 'partition')} moved, {rest} not begun."
        )
