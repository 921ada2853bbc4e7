"""Bugs that the simulation must find. Each bug changes a decision of a machine or of the broker."""

from __future__ import annotations

from typing import NamedTuple

from tests.replica.broker import Planted

from odradek.core.replica.effects import HighWatermark, Truncate
from odradek.core.replica.fetch_states import Status
from odradek.core.replica.follower import ReplicaFetcher
from odradek.core.replica.leader import PartitionLeader


class AdvancesEarly(PartitionLeader):
    """The high watermark follows the leader's log end offset."""

    def _is_counted(self, now_ms, follower):
        return False


class CountsOthers(PartitionLeader):
    """As in a quorum: any `min.insync.replicas` replicas are enough, in the ISR or not."""

    def _committed(self, now_ms):
        if self.is_under_min_isr:
            return ()
        ends = [each.log_end_offset for each in self.followers.values()]
        ends = sorted([self._stored_offset, *ends], reverse=True)
        found = ends[self.min_insync_replicas - 1]
        if found <= self.high_watermark:
            return ()
        self.high_watermark = found
        return (HighWatermark(found),)


class IgnoresPending(PartitionLeader):
    """A follower counts only when the controller's response says that it has joined."""

    def _is_counted(self, now_ms, follower):
        return follower.broker_id in self._committed_isr


class ShrinksAtOnce(PartitionLeader):
    """A follower that is to leave the ISR does not count any more."""

    def _is_counted(self, now_ms, follower):
        if self.pending is not None:
            return follower.broker_id in self.pending.broker_ids
        return super()._is_counted(now_ms, follower)


class AdmitsLagging(PartitionLeader):
    """A follower joins the ISR although it lacks committed records."""

    def _has_committed(self, follower):
        return follower.log_end_offset >= 0


class IgnoresEpochStart(PartitionLeader):
    """A new leader's high watermark is lower than the end of the committed records."""

    def _has_committed(self, follower):
        return follower.log_end_offset >= self.high_watermark

    def _is_counted(self, now_ms, follower):
        return follower.broker_id in self.maximal_isr


class AdmitsEarlierIncarnations(PartitionLeader):
    """Broker epochs are ignored (before KIP-903)."""

    def _is_stale(self, broker_id, broker_epoch):
        return False

    def _is_eligible(self, follower):
        broker = self._broker_of(follower.broker_id)
        return not broker.fenced and follower.broker_epoch >= 0

    def _epoch_of(self, broker_id):
        return -1


class CommitsAlone(PartitionLeader):
    """The high watermark moves although the ISR is smaller than `min.insync.replicas`."""

    @property
    def is_under_min_isr(self):
        return False


class TruncatesToHighWatermark(ReplicaFetcher):
    """As before KIP-101: a follower begins at its high watermark."""

    def add(self, key, topic, leader_epoch, log):
        known = self.states.get(key)
        if known is not None and known.leader_epoch == leader_epoch:
            return []
        effects = super().add(key, topic, leader_epoch, log)
        if not effects:
            self._become_busy(self.states[key])
        return [Truncate(key, leader_epoch, min(log.high_watermark, log.log_end_offset))]


class TruncatesTooLittle(ReplicaFetcher):
    """The end of the epoch in the follower's own log is used, not the leader's."""

    def _truncation_offset(self, state, data):
        _, end = state.log.end_offset_for_epoch(data.diverging_epoch.epoch)
        return end


class IgnoresPositions(ReplicaFetcher):
    """A response is applied although the fetch offset has changed since the request."""

    def responded(self, now_ms, response):
        for key, state in self._ready.items():
            self._session.sent[key] = state.position
        return super().responded(now_ms, response)

    def _become_ready(self, state):
        super()._become_ready(state)
        assert state.status is Status.READY


class Bug(NamedTuple):
    """A planted bug, found within `seeds` histories (seeds 0, 1, ...)."""

    planted: Planted
    seeds: int = 10
    late_share: float | None = None


def _leader(of: type[PartitionLeader], seeds: int = 10, late_share: float | None = None) -> Bug:
    planted = Planted()
    planted.leader = of
    return Bug(planted, seeds, late_share)


def _fetcher(of: type[ReplicaFetcher], seeds: int = 10) -> Bug:
    planted = Planted()
    planted.fetcher = of
    return Bug(planted, seeds)


def _with(**switches: bool) -> Bug:
    planted = Planted()
    for name, value in switches.items():
        assert getattr(planted, name) is not value
        setattr(planted, name, value)
    return Bug(planted)


BUGS: dict[str, Bug] = {
    "advances the high watermark early": _leader(AdvancesEarly),
    "counts followers outside the ISR": _leader(CountsOthers),
    "ignores a pending expansion": _leader(IgnoresPending),
    "shrinks the ISR before the controller": _leader(ShrinksAtOnce),
    "admits a lagging follower to the ISR": _leader(AdmitsLagging),
    "ignores the start of the epoch": _leader(IgnoresEpochStart),
    "does not fence earlier incarnations": _leader(AdmitsEarlierIncarnations, 100, 0.5),
    "commits below min.insync.replicas": _leader(CommitsAlone),
    "truncates to the high watermark": _fetcher(TruncatesToHighWatermark),
    "truncates too little": _fetcher(TruncatesTooLittle),
    "applies responses for other positions": _fetcher(IgnoresPositions, 60),
    "ignores the epoch of the last record": _with(checks_divergence=False),
    "acknowledges before the ISR": _with(acknowledges_at_once=True),
}
