"""Performs a plan of moves, and shows the progress. Ctrl-C cancels it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from odradek.cli.output import note
from odradek.client.admin.reassignments import list_reassignments, reassign
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_moves import Moves
from odradek.operations.cluster_plans import Replicas
from odradek.operations.texts import plural

POLL_SECONDS = 0.2
NOTE_MS = 60_000
"""If no move is complete for this time, the user is told."""


class Mover:
    """Moves partitions. Ctrl-C cancels the moves that are in progress, and keeps the others."""

    def __init__(
        self, cluster: Cluster, moves: Mapping[TopicPartition, Replicas], at_once: int
    ) -> None:
        self._cluster = cluster
        self._count = len(moves)
        self._moves = Moves(moves, at_once, now_ms=_now_ms())
        self._is_drawn = False

    @property
    def moved(self) -> int:
        """How many partitions are moved."""
        return self._moves.moved

    @property
    def errors(self) -> list[ClientError]:
        """Why the controller refused to move partitions."""
        return self._moves.errors

    def run(self) -> None:
        """Move all partitions. `errors` has the partitions that the controller refuses.

        Raises:
            KeyboardInterrupt: Ctrl-C; the moves in progress are cancelled.
            ClientError: the controller does not respond.
        """
        try:
            while not self._moves.is_done:
                self._moves.begun(reassign(self._cluster, self._moves.begin()))
                self._look()
                if self._moves.active:
                    time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self._cancel()
            raise
        finally:
            if self._is_drawn:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _look(self) -> None:
        """Find out which moves are complete, and show the progress."""
        if self._moves.active:
            self._moves.seen(list_reassignments(self._cluster), _now_ms())
        if self._moves.stalled(_now_ms(), NOTE_MS):
            active = self._moves.active
            note(
                f"\nNo move was completed for {NOTE_MS // 1000} s; "
                f"{plural(len(active), 'partition')} in progress, such as "
                f"{min(active)}. Large partitions take long. If a broker does not run, its "
                "moves wait: odradek cluster status"
            )
        if sys.stderr.isatty():
            self._is_drawn = True
            text = f"{self.moved} of {plural(self._count, 'partition')} moved"
            print(
                f"\r{text}, {len(self._moves.active)} in progress\x1b[K",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _cancel(self) -> None:
        moves = self._moves
        moves.cancellations(reassign(self._cluster, moves.cancel()))
        note(
            f"\nCancelled {plural(moves.cancelled, 'move')} in progress; "
            f"{plural(moves.moved, 'partition')} moved, {moves.not_begun} not begun."
        )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
