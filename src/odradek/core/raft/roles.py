"""The roles of a replica in an epoch, and the state of each role.

    Unattached ──> Prospective ──> Candidate ──> Leader ──> Resigned
                     ^  ^  ^           │                        │
       Follower ─────┘  │  └───────────┘                        │
                        └───────────────────────────────────────┘

Each role becomes `Unattached` or `Follower` when a newer epoch is known. In the same epoch,
`Unattached`, `Prospective` and `Candidate` become `Follower` when the leader is known, and a
`Prospective` that loses becomes `Follower` or `Unattached`.

- `Unattached`: does not follow a leader. It may have voted in the epoch.
- `Prospective`: asks the other voters, in the old epoch, whether they would vote for it (pre-vote,
  KIP-996). So a disconnected replica that returns does not disturb the leader.
- `Candidate`: has voted for itself in a new epoch, and requests the votes of the others.
- `Leader` (in the module `leader`): leads the epoch.
- `Resigned`: has led the epoch, and does not lead it again.
- `Follower`: fetches from the leader.

A replica that is not a voter is an observer. An observer is `Unattached` or `Follower`. It fetches
as a voter does, and never starts an election.

A role belongs to one epoch. One epoch may have several roles of a replica, for example `Unattached`
and then `Follower`. Times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import Destination, ReplicaKey, VoterSet
from odradek.model.uuids import ZERO


class Votes:
    """The responses of the voters in one election, by node id."""

    __slots__ = ("granted", "refused")

    def __init__(self) -> None:
        self.granted: dict[int, None] = {}
        self.refused: dict[int, None] = {}

    def record(self, voter_id: int, is_granted: bool) -> None:
        """Record the response of a voter. A voter's response does not change within an election."""
        if voter_id not in self.granted and voter_id not in self.refused:
            (self.granted if is_granted else self.refused)[voter_id] = None

    def has_answered(self, voter_id: int) -> bool:
        """Whether the voter has responded."""
        return voter_id in self.granted or voter_id in self.refused

    def is_won(self, voters: VoterSet) -> bool:
        """Whether a majority of the voters has granted its vote."""
        granted = [each for each in self.granted if each in voters.voters]
        return len(granted) >= voters.majority

    def is_lost(self, voters: VoterSet) -> bool:
        """Whether so many voters have refused that the other voters are not a majority."""
        refused = [each for each in self.refused if each in voters.voters]
        return len(voters) - len(refused) < voters.majority


def _may_vote(
    election: ElectionState, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    """Whether a replica without a live leader grants a vote.

    A replica has one vote in each epoch, and none in an epoch that has a leader."""
    if is_pre_vote:
        return is_up_to_date
    voted = election.voted
    if voted is not None:
        # With kraft.version 0 the election state on disk has no directory id.
        return voted.id == candidate.id and voted.directory_id in (ZERO, candidate.directory_id)
    return election.leader_id == NO_LEADER and is_up_to_date


class Unattached:
    """Follows no leader. `leader_id` is the leader if only the leader's address is unknown."""

    __slots__ = ("election_deadline_ms", "epoch", "leader_id", "voted")

    def __init__(
        self, epoch: int, leader_id: int, voted: ReplicaKey | None, election_deadline_ms: int
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.voted = voted
        self.election_deadline_ms = election_deadline_ms

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote."""
        return _may_vote(self.election(), candidate, is_up_to_date, is_pre_vote)


class Prospective:
    """Requests pre-votes from the voters before it begins a new epoch."""

    __slots__ = ("election_deadline_ms", "epoch", "leader", "leader_id", "voted", "votes")

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader: Destination | None,
        voted: ReplicaKey | None,
        election_deadline_ms: int,
    ) -> None:
        """`leader` is the leader that this replica followed."""
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader = leader
        self.voted = voted
        self.votes = Votes()
        self.election_deadline_ms = election_deadline_ms

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote."""
        return _may_vote(self.election(), candidate, is_up_to_date, is_pre_vote)


class Candidate:
    """Requests votes to lead the epoch. Its own vote counts when this vote is durable."""

    __slots__ = ("election_deadline_ms", "epoch", "local", "votes")

    leader_id = NO_LEADER

    def __init__(self, epoch: int, local: ReplicaKey, election_deadline_ms: int) -> None:
        self.epoch = epoch
        self.local = local
        self.votes = Votes()
        self.election_deadline_ms = election_deadline_ms

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, NO_LEADER, self.local)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote: only a pre-vote, because this replica has voted."""
        return is_pre_vote and is_up_to_date


class Download:
    """A snapshot that is being fetched from the leader."""

    __slots__ = ("is_writing", "position", "snapshot")

    def __init__(self, snapshot: OffsetAndEpoch) -> None:
        self.snapshot = snapshot
        self.position = 0
        """The number of bytes that were received."""
        self.is_writing = False
        """Whether the last part is still being written."""

    def received(self, size: int) -> None:
        """Record that a part was received and is being written."""
        assert not self.is_writing, "one part at a time"
        assert size > 0, "each part moves the download forward"
        self.position += size
        self.is_writing = True

    def written(self) -> None:
        """Record that the part is written."""
        self.is_writing = False


class Follower:
    """Fetches from the leader of the epoch."""

    __slots__ = (
        "download",
        "epoch",
        "fetch_deadline_ms",
        "fetch_timeout_ms",
        "has_fetched",
        "is_described",
        "leader",
        "leader_high_watermark",
        "leader_id",
        "membership_ms",
        "voted",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader: Destination,
        voted: ReplicaKey | None,
        now_ms: int,
        fetch_timeout_ms: int,
        membership_ms: int,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader = leader
        self.voted = voted
        self.fetch_timeout_ms = fetch_timeout_ms
        self.fetch_deadline_ms = now_ms + fetch_timeout_ms
        self.has_fetched = False
        """Whether the leader has responded to a fetch in this epoch and has not resigned."""
        self.leader_high_watermark = -1
        """The leader's high watermark. All of this log is equal to the leader's log."""
        self.download: Download | None = None
        self.membership_ms = membership_ms
        """When this replica looks again whether the voters contain it as they should."""
        self.is_described = False
        """Whether the leader has accepted an UpdateRaftVoter request in this epoch."""

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, self.leader_id, self.voted)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote: only a pre-vote, and not while `has_fetched`."""
        return is_pre_vote and is_up_to_date and not self.has_fetched

    def on_fetched(self, now_ms: int) -> None:
        """Apply a response of the leader to a fetch."""
        self.has_fetched = True
        self.fetch_deadline_ms = now_ms + self.fetch_timeout_ms

    def on_high_watermark(self, offset: int) -> None:
        """Set the leader's high watermark. All of this log is equal to the leader's log."""
        self.leader_high_watermark = max(self.leader_high_watermark, offset)

    def on_leader_resigned(self, election_ms: int) -> None:
        """Stand for election at `election_ms` or earlier, because the leader has resigned.

        From now on other candidates get a pre-vote.
        """
        self.has_fetched = False
        self.fetch_deadline_ms = min(self.fetch_deadline_ms, election_ms)

    def postpone_membership(self, until_ms: int) -> None:
        """Look again at `until_ms` whether the voters contain this replica as they should."""
        self.membership_ms = until_ms

    def on_described(self) -> None:
        """Record that the leader has accepted an UpdateRaftVoter request."""
        self.is_described = True

    def set_download(self, snapshot: OffsetAndEpoch | None) -> None:
        """Begin to fetch a snapshot, or end the fetch (None)."""
        self.download = Download(snapshot) if snapshot is not None else None


class Resigned:
    """Has led the epoch. Sends EndQuorumEpoch to each voter until the voter responds."""

    __slots__ = ("election_deadline_ms", "epoch", "leader_id", "successors", "untold")

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        successors: tuple[ReplicaKey, ...],
        untold: Iterable[int],
        election_deadline_ms: int,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.successors = successors
        self.untold = dict.fromkeys(untold)
        """The ids of voters that have not responded to EndQuorumEpoch."""
        self.election_deadline_ms = election_deadline_ms

    def election(self) -> ElectionState:
        """The election state that is kept on disk."""
        return ElectionState(self.epoch, self.leader_id)

    def told(self, voter_id: int) -> None:
        """Record that the voter has responded."""
        self.untold.pop(voter_id, None)

    def may_grant(self, candidate: ReplicaKey, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Whether the candidate gets the vote: only a pre-vote, because the epoch had a leader."""
        return is_pre_vote and is_up_to_date


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned

TRANSITIONS: dict[type, tuple[type, ...]] = {
    Unattached: (Unattached, Prospective, Follower),
    Prospective: (Unattached, Prospective, Candidate, Follower),
    Candidate: (Unattached, Prospective, Follower, Leader),
    Follower: (Unattached, Prospective, Follower),
    Leader: (Unattached, Resigned, Follower),
    Resigned: (Unattached, Prospective, Follower),
}
"""The roles that may follow a role; any other transition is a defect."""
