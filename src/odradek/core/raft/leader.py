"""The leader of an epoch: the progress of each replica, the high watermark, and the check that a
majority still fetches.

A fetch from an offset acknowledges that the replica has flushed its log up to this offset. The high
watermark is the offset up to which a majority of the voters has flushed its log. The leader's own
flushed offset counts as one voter. The high watermark first advances when the LeaderChange record
of this epoch is committed. Until then a majority may have a record of an older epoch, and a later
leader may still truncate this record (section 5.4.2 of the Raft paper).

If, for 1.5 fetch timeouts, the leader and the voters that fetched are not a majority, the leader
resigns, because the others may have elected another leader, and clients should not wait for this
one (check quorum).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.core.raft.election import ElectionState
from odradek.core.raft.voters import ReplicaKey, Voter, VoterSet

NEVER_MS = 2**62


class ReplicaProgress(NamedTuple):
    """The progress of a replica for DescribeQuorum. An age is None if it has not fetched."""

    key: ReplicaKey
    is_voter: bool
    end_offset: int
    last_fetch_age_ms: int | None
    last_caught_up_age_ms: int | None


class Progress:
    """How far one replica has fetched."""

    __slots__ = (
        "begin_epoch_ms",
        "end_offset",
        "key",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leaders_end_offset",
    )

    def __init__(self, key: ReplicaKey, now_ms: int) -> None:
        self.key = key
        self.end_offset = -1
        """The flushed end of the replica's log; -1 until the replica fetches."""
        self.last_fetch_ms = -1
        self.last_caught_up_ms = -1
        """The last time when the replica had all records of the leader."""
        self.leaders_end_offset = -1
        """The end of the leader's log at the replica's last fetch."""
        self.begin_epoch_ms = now_ms
        """The time of the next BeginQuorumEpoch request to the replica."""

    def on_fetch(self, now_ms: int, offset: int, leaders_end_offset: int) -> None:
        """Apply a fetch from `offset`."""
        if offset >= leaders_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.leaders_end_offset >= 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        # A replica that came back with a damaged log may fetch from an earlier offset.
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.leaders_end_offset = leaders_end_offset

    def is_alive(self, now_ms: int) -> None:
        """Apply a fetch of a part of a snapshot."""
        self.last_fetch_ms = now_ms

    def postpone_begin_epoch(self, until_ms: int) -> None:
        """BeginQuorumEpoch need not be sent before `until_ms`."""
        self.begin_epoch_ms = until_ms


class Leader:
    """The role of the leader. The first record of the epoch is at `start_offset`."""

    __slots__ = (
        "_elected_ms",
        "_local",
        "_progress",
        "described",
        "epoch",
        "high_watermark",
        "start_offset",
    )

    def __init__(self, epoch: int, start_offset: int, local: ReplicaKey, now_ms: int) -> None:
        assert epoch > 0, "an election begins an epoch"
        assert start_offset >= 0, "an offset in the log"
        self.epoch = epoch
        self.start_offset = start_offset
        self.high_watermark = -1
        """-1 until a record of the epoch is committed."""
        self._local = local
        self._elected_ms = now_ms
        self._progress: dict[ReplicaKey, Progress] = {}
        self.described: dict[int, Voter] = {}
        """With kraft.version 0: what the voters have sent in UpdateRaftVoter, by node id."""

    @property
    def leader_id(self) -> int:
        """The node itself."""
        return self._local.id

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, self._local.id)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote: never, because the epoch has a leader."""
        return False

    def describe(self, voter: Voter) -> None:
        """Keep the description that a voter has sent of itself."""
        self.described[voter.key.id] = voter

    # -- the replicas ---------------------------------------------------------------------------

    def progress_of(self, key: ReplicaKey, now_ms: int) -> Progress:
        """The progress of a replica, voter or observer."""
        found = self._progress.get(key)
        if found is None:
            found = self._progress[key] = Progress(key, now_ms)
        return found

    def known(self, key: ReplicaKey) -> Progress | None:
        """The progress of a replica that has fetched or is a voter; None if there is none."""
        return self._progress.get(key)

    def followers(self, voters: VoterSet, now_ms: int) -> Iterator[Progress]:
        """The progress of the voters other than the leader."""
        for voter in voters.voters.values():
            if voter.key.id != self._local.id:
                yield self._of_voter(voters, voter.key, now_ms)

    def _of_voter(self, voters: VoterSet, key: ReplicaKey, now_ms: int) -> Progress:
        """The progress of a voter. If the voter has no directory id, return the progress of the
        replica with this node id that has fetched last."""
        matching = [
            each
            for each in self._progress.values()
            if each.key.id == key.id and each.last_fetch_ms >= 0 and voters.contains(each.key)
        ]
        if not matching:
            return self.progress_of(key, now_ms)
        return max(matching, key=lambda each: each.last_fetch_ms)

    def observers(self, voters: VoterSet) -> list[Progress]:
        """The progress of the replicas that are not voters."""
        return [
            each
            for each in self._progress.values()
            if each.last_fetch_ms >= 0 and not voters.contains(each.key)
        ]

    def forget_observers(self, voters: VoterSet, before_ms: int) -> None:
        """Forget the observers that have not fetched since `before_ms`."""
        for each in self.observers(voters):
            if each.last_fetch_ms < before_ms:
                del self._progress[each.key]

    def replicas(self, voters: VoterSet, end_offset: int, now_ms: int) -> list[ReplicaProgress]:
        """All replicas; `end_offset` is the end of the leader's log."""
        found: list[ReplicaProgress] = []
        for voter in voters.voters.values():
            if voter.key.id == self._local.id:
                found.append(ReplicaProgress(voter.key, True, end_offset, 0, 0))
            else:
                progress = self._of_voter(voters, voter.key, now_ms)
                found.append(_described(progress, voter.key, True, now_ms))
        observers = self.observers(voters)
        return [*found, *(_described(each, each.key, False, now_ms) for each in observers)]

    def successors(self, voters: VoterSet, now_ms: int) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        followers = sorted(self.followers(voters, now_ms), key=lambda each: -each.end_offset)
        return tuple(each.key for each in followers)

    # -- the high watermark ---------------------------------------------------------------------

    def advance(self, voters: VoterSet, flushed_offset: int, now_ms: int) -> bool:
        """Compute the high watermark; return whether it advanced.

        `flushed_offset` is the flushed offset of this node.
        """
        flushed = {each.key.id: each.end_offset for each in self.followers(voters, now_ms)}
        if voters.contains(self._local):
            flushed[self._local.id] = flushed_offset
        committed = voters.committed(flushed)
        if committed <= self.start_offset or committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    # -- check quorum ---------------------------------------------------------------------------

    def check_quorum_ms(self, voters: VoterSet, timeout_ms: int) -> int:
        """Return when the leader must resign, unless more voters fetch before that time."""
        needed = voters.majority - voters.contains(self._local)
        if needed <= 0:
            return NEVER_MS
        fetched = sorted(
            (
                max(each.last_fetch_ms, self._elected_ms)
                for each in self.followers(voters, self._elected_ms)
            ),
            reverse=True,
        )
        if len(fetched) < needed:
            return NEVER_MS
        return fetched[needed - 1] + timeout_ms


def _described(progress: Progress, key: ReplicaKey, is_voter: bool, now_ms: int) -> ReplicaProgress:
    def age(time_ms: int) -> int | None:
        return None if time_ms < 0 else now_ms - time_ms

    return ReplicaProgress(
        key,
        is_voter,
        progress.end_offset,
        age(progress.last_fetch_ms),
        age(progress.last_caught_up_ms),
    )
