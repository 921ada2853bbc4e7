"""The quorum machine: the role of this node in the metadata quorum.

    Unattached ──> Candidate ──> Leader ──> Resigned
         (Start)      (majority of votes)     (Resign)

A vote counts only when it is durable: a candidate that forgot its vote in a crash could vote for
another node in the same epoch. So the own vote is granted by `ElectionPersisted`, not before.

A node that was leader when it stopped does not lead that epoch again: its log may have lost
records of the epoch that were never flushed. It becomes a candidate in the next epoch. That is why
a leader need not wait until its own election state is durable: a crash can only lose the name of
the leader of an epoch that has ended.

A leader commits nothing before a majority has flushed a record of its own epoch; that record is
the LeaderChange that begins the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    Effect,
    ElectionPersisted,
    Event,
    LogFlushed,
    PersistElection,
    Resign,
    Start,
    StopLeading,
)
from odradek.core.raft.voters import ReplicaKey, VoterSet


class QuorumError(Exception):
    """This node cannot be part of the quorum that its disk describes."""


class Unattached:
    """Does not know the leader of the epoch."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Candidate:
    """Asks for votes to lead the epoch, which would begin at `end_offset`, the end of its log.

    `granted` holds the ids of the voters that voted for it; its own once that vote is durable.
    """

    __slots__ = ("end_offset", "epoch", "granted")

    def __init__(self, epoch: int, end_offset: int) -> None:
        self.epoch = epoch
        self.end_offset = end_offset
        self.granted: dict[int, None] = {}


class Leader:
    """Leads the epoch, whose first record is at `start_offset`.

    `flushed` holds for each voter id the end of its durable log; `high_watermark` is -1 until a
    record of the epoch is committed.
    """

    __slots__ = ("epoch", "flushed", "high_watermark", "start_offset")

    def __init__(self, epoch: int, start_offset: int) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.flushed: dict[int, int] = {}
        self.high_watermark = -1

    def on_flushed(self, voter_id: int, end_offset: int, voters: VoterSet) -> bool:
        """A voter has flushed its log to `end_offset`; return whether more is committed."""
        assert end_offset >= self.flushed.get(voter_id, 0), "a flushed log does not shrink"
        self.flushed[voter_id] = end_offset
        committed = voters.committed(self.flushed)
        if committed <= self.start_offset or committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True


class Resigned:
    """Led the epoch and will not lead it again."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


Role = Unattached | Candidate | Leader | Resigned

TRANSITIONS: dict[type, tuple[type, ...]] = {
    Unattached: (Candidate,),
    Candidate: (Leader,),
    Leader: (Resigned,),
    Resigned: (),
}
"""The roles that may follow a role; any other transition is a defect."""


class QuorumMachine:
    """See the module. `role` is read-only for others."""

    def __init__(self, local: ReplicaKey, voters: VoterSet, election: ElectionState) -> None:
        """`election` is the state on disk.

        Raises:
            QuorumError: there are no voters, or the replica is not one, or not the only one.
        """
        if not voters:
            raise QuorumError(
                "the metadata directory names no voters, so they come from the configuration: "
                "set controller.quorum.voters as it was when the directory was made"
            )
        if not voters.contains(local):
            ids = ", ".join(map(str, sorted(voters.voters)))
            raise QuorumError(
                f"node {local.id} with this metadata directory is not among the voters "
                f"(nodes {ids}); was the directory copied from another node, or meta.properties "
                "lost?"
            )
        if not voters.is_only(local):
            raise QuorumError(
                f"the quorum has {len(voters)} voters; this version runs a quorum of one"
            )
        self.local = local
        self.voters = voters
        self.role: Role = Unattached(election.epoch)
        self._election = election
        self._requested = election
        """The last state that was asked to be persisted."""

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; -1 if not known."""
        return self._election.leader_id

    @property
    def high_watermark(self) -> int:
        """The end of what is committed; -1 while that is not known."""
        return self.role.high_watermark if isinstance(self.role, Leader) else -1

    def step(self, now_ms: int, event: Event) -> Sequence[Effect]:
        """Take an event; see `events` for the order of the effects."""
        effects: list[Effect] = []
        match event:
            case Start():
                self._start(event)
            case ElectionPersisted():
                self._election_persisted(event, effects)
            case LogFlushed():
                self._log_flushed(event, effects)
            case Resign():
                self._resign(effects)
            case _:
                assert_never(event)
        if self._election != self._requested:
            self._requested = self._election
            effects.insert(0, PersistElection(self._election))
        return effects

    def _become(self, role: Role) -> None:
        assert type(role) in TRANSITIONS[type(self.role)], f"{self.role!r} to {role!r}"
        assert role.epoch >= self.role.epoch
        self.role = role

    def _start(self, event: Start) -> None:
        assert isinstance(self.role, Unattached), "a machine starts once"
        # The file may be older than the log, if it was lost or written by hand.
        epoch = max(self.role.epoch, event.epoch) + 1
        self._become(Candidate(epoch, event.end_offset))
        self._election = ElectionState(epoch, NO_LEADER, self.local)

    def _election_persisted(self, event: ElectionPersisted, effects: list[Effect]) -> None:
        role = self.role
        if not isinstance(role, Candidate) or event.election.epoch != role.epoch:
            return
        assert event.election.voted == self.local, "a candidate votes for itself"
        role.granted[self.local.id] = None
        if len(role.granted) >= self.voters.majority:
            self._become(Leader(role.epoch, role.end_offset))
            self._election = ElectionState(role.epoch, self.local.id)
            effects.append(BecomeLeader(role.epoch, role.end_offset, tuple(role.granted)))

    def _log_flushed(self, event: LogFlushed, effects: list[Effect]) -> None:
        role = self.role
        if not isinstance(role, Leader):
            return  # it has resigned since
        if role.on_flushed(self.local.id, event.end_offset, self.voters):
            effects.append(CommitUpTo(role.high_watermark))

    def _resign(self, effects: list[Effect]) -> None:
        if isinstance(self.role, Leader):
            epoch = self.role.epoch
            self._become(Resigned(epoch))
            effects.append(StopLeading(epoch))
