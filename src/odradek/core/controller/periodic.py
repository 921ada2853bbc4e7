"""The work that the active controller does without a request (Kafka's periodic tasks).

- A broker whose session has expired is fenced (maybeFenceStaleBroker). Each decision fences one
  broker, so that the next decision is based on the new state.
- If `auto.leader.rebalance.enable` is set, the preferred replica of each partition becomes the
  leader again, if it can (electPreferred). This is done `leader.imbalance.check.interval.seconds`
  after a partition has got another leader.
- For partitions without a leader, another election is tried every
  `unclean.leader.election.interval.ms`, if the topic allows unclean elections (electUnclean).
- If nothing was written for `metadata.max.idle.interval.ms`, a NoOp record is written
  (writeNoOpRecord, KIP-835). It shows to the other voters that the leader is alive and can commit.
  A quorum with one voter writes none. (Apache Kafka also writes the record if the log is not idle,
  and in a quorum with one voter.)
- While there are delegation tokens, those that have expired are removed every
  `delegation.token.expiry.check.interval.ms` (sweepExpiredDelegationTokens).

`PeriodicWork` has the deadlines. `odradek.broker.controller.quorum_controller` calls
`ControllerMachine.due` when the first deadline has passed. The response of a decision is a message
for the server log, which may be empty. A run makes at most `ELECTIONS_MAX` elections, or removes at
most `REMOVALS_MAX` tokens. If there are more, the next run follows soon.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.core.controller.brokers import fence_broker
from odradek.core.controller.delegation_tokens import REMOVALS_MAX, sweep
from odradek.core.controller.partition_change import Election, PartitionChange
from odradek.core.controller.partition_index import PartitionIndex
from odradek.core.controller.partition_updates import located
from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.image import MetadataImage
from odradek.wire.generated.no_op_record import NoOpRecord
from odradek.wire.primitives import Message

ELECTIONS_MAX = 1000
"""Maximum number of elections in one run, as in Apache Kafka."""
SOON_MS = 10
"""Time until the next run if a run has reached its maximum."""
RETRY_MS = 1000
"""Time until work is repeated whose records could not be appended."""


class Intervals(NamedTuple):
    """The intervals of periodic work."""

    session_timeout_ms: int
    rebalance_ms: int | None
    """None: leaders are not changed back."""
    unclean_election_ms: int
    idle_ms: int | None
    """None: no NoOp records are written."""
    token_check_ms: int | None = None
    """None: delegation tokens are disabled."""


def fence_stale_broker(state: ControllerState, broker_id: int) -> Decision[str]:
    """Fence a broker whose session has expired."""
    broker = state.image.cluster.brokers[broker_id]
    text = f"broker {broker_id} is fenced: no heartbeat for longer than its session"
    return Decision(fence_broker(state, broker), text, is_atomic=False)


def elect_preferred(state: ControllerState) -> Decision[str]:
    """Make the first replica the leader of partitions that have another leader."""
    records: list[Message] = []
    for each in located(state, state.index.unbalanced()):
        record = PartitionChange(state, *each, election=Election.PREFERRED).record()
        if record is not None:
            records.append(record)
            if len(records) == ELECTIONS_MAX:
                break
    return _elections(records, "preferred leaders are elected")


def elect_unclean(state: ControllerState) -> Decision[str]:
    """Elect leaders for partitions without a leader, if the topic allows unclean elections."""
    records: list[Message] = []
    for each in located(state, state.index.leaderless()):
        if not state.unclean_election_enabled(each.topic):
            continue
        record = PartitionChange(state, *each, election=Election.UNCLEAN).record()
        if record is not None:
            records.append(record)
            if len(records) == ELECTIONS_MAX:
                break
    return _elections(records, "partitions without leader get one, possibly an unclean one")


def _elections(records: list[Message], what: str) -> Decision[str]:
    return Decision(records, f"{len(records)} {what}" if records else "", is_atomic=False)


class PeriodicWork:
    """The deadlines of the work. A deadline is None if there is nothing to do."""

    def __init__(self, intervals: Intervals, now_ms: int) -> None:
        self._intervals = intervals
        self._rebalance_at_ms: int | None = None
        self._unclean_election_at_ms: int | None = None
        self._token_check_at_ms: int | None = None
        self._idle_since_ms = now_ms

    def deadlines(self, voter_count: int) -> list[int]:
        """Return all deadlines."""
        found = (
            self._rebalance_at_ms,
            self._unclean_election_at_ms,
            self._token_check_at_ms,
            self._no_op_at_ms(voter_count),
        )
        return [each for each in found if each is not None]

    def on_appended(self, index: PartitionIndex, image: MetadataImage, now_ms: int) -> None:
        """After an append, set the deadlines of work that has become necessary."""
        self._idle_since_ms = now_ms
        interval_ms = self._intervals.rebalance_ms
        if self._rebalance_at_ms is None and interval_ms is not None and index.has_unbalanced:
            self._rebalance_at_ms = now_ms + interval_ms
        if self._unclean_election_at_ms is None and index.has_leaderless:
            self._unclean_election_at_ms = now_ms + self._intervals.unclean_election_ms
        check_ms = self._intervals.token_check_ms
        if self._token_check_at_ms is None and check_ms is not None and image.delegation_tokens:
            self._token_check_at_ms = now_ms + check_ms

    def due(self, state: ControllerState, voter_count: int) -> Decision[str] | None:
        """Return the records of the next work that is due; None if none is due."""
        now_ms = state.now_ms
        if _is_due(self._rebalance_at_ms, now_ms):
            self._rebalance_at_ms = None
            interval_ms = self._intervals.rebalance_ms
            if state.index.has_unbalanced and interval_ms is not None:
                decision = elect_preferred(state)
                self._rebalance_at_ms = now_ms + _pause(decision, interval_ms)
                return decision
        if _is_due(self._unclean_election_at_ms, now_ms):
            self._unclean_election_at_ms = None
            if state.index.has_leaderless:
                decision = elect_unclean(state)
                interval_ms = self._intervals.unclean_election_ms
                self._unclean_election_at_ms = now_ms + _pause(decision, interval_ms)
                return decision
        if _is_due(self._token_check_at_ms, now_ms):
            self._token_check_at_ms = None
            check_ms = self._intervals.token_check_ms
            if state.image.delegation_tokens and check_ms is not None:
                decision = sweep(state)
                self._token_check_at_ms = now_ms + _pause(decision, check_ms)
                return decision
        if _is_due(self._no_op_at_ms(voter_count), now_ms):
            return Decision([NoOpRecord()], "")
        return None

    def _no_op_at_ms(self, voter_count: int) -> int | None:
        idle_ms = self._intervals.idle_ms
        return None if idle_ms is None or voter_count < 2 else self._idle_since_ms + idle_ms


def _is_due(deadline_ms: int | None, now_ms: int) -> bool:
    return deadline_ms is not None and deadline_ms <= now_ms


def _pause(decision: Decision[str], interval_ms: int) -> int:
    is_full = len(decision.records) in (ELECTIONS_MAX, REMOVALS_MAX)
    return SOON_MS if is_full else interval_ms
