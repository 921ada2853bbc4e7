"""The times and limits of the quorum, and its source of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

RandomBytes = Callable[[int], bytes]
"""Returns the given number of random bytes."""

CHECK_QUORUM_FACTOR = 1.5
"""A leader resigns after this many fetch timeouts without fetches of a majority (KAFKA-15489)."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Settings with the names and defaults of Apache Kafka, without `controller.quorum.`."""

    election_timeout_ms: int = 1000
    """Time in which a candidate must win. The time used is random, up to twice as long."""
    election_backoff_max_ms: int = 1000
    """Longest time that a successor of a resigned leader waits before it starts an election."""
    fetch_timeout_ms: int = 2000
    """Time without a successful fetch after which a follower starts an election."""
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    """Longest time that a fetch waits for records at the leader (Kafka's constant)."""
    observer_session_ms: int = 300_000
    """An observer that has not fetched for this time is forgotten (Kafka's constant)."""
    caught_up_within_ms: int = 3_600_000
    """A new voter must have been caught up within this time (Kafka's constant)."""
    auto_join: bool = False
    """Whether this replica becomes a voter by itself. Only controllers can be voters."""

    @property
    def membership_period_ms(self) -> int:
        """Time after which a follower looks whether the voters contain it as they should, as in
        Apache Kafka 4.3."""
        return self.fetch_timeout_ms

    def random_election_timeout_ms(self, random_bytes: RandomBytes) -> int:
        """An election timeout, from one to two times `election_timeout_ms`."""
        return _lengthened(self.election_timeout_ms, self.election_timeout_ms, random_bytes)

    def random_fetch_timeout_ms(self, random_bytes: RandomBytes) -> int:
        """A fetch timeout, longer than `fetch_timeout_ms` by up to a tenth.

        The leader responds to the fetches of all followers at the same time. With equal timeouts
        they would all stand for election at the same time when the leader fails, and divide the
        votes. Apache Kafka uses equal timeouts.
        """
        return _lengthened(self.fetch_timeout_ms, self.fetch_timeout_ms // 10, random_bytes)


def _lengthened(timeout_ms: int, longest_ms: int, random_bytes: RandomBytes) -> int:
    chance = int.from_bytes(random_bytes(4), "big")
    return timeout_ms + chance * longest_ms // 2**32
