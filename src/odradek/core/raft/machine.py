"""The quorum machine: from one role to the next.

    Unattached ──> Candidate ──> Leader ──> Resigned
         (start)      (majority of votes)     (Resign)

A node that was leader when it stopped starts in the same epoch but may not lead it again: its
log may have lost records of that epoch which were never flushed. It votes itself into the next
one. The only voter wins with its own vote, within the same step.

A leader commits nothing before a record of its own epoch is flushed by a majority; that record
is the LeaderChange which begins the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    Effect,
    Event,
    LogFlushed,
    PersistElection,
    Resign,
    Start,
    StopLeading,
)
from odradek.core.raft.voters import ReplicaKey, VoterSet


class QuorumError(Exception):
    """This node cannot take part in the quorum that its disk describes."""


class Unattached:
    """Knows no leader of the epoch."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Candidate:
    """Asks for votes to lead the epoch. `granted` holds ids of voters, its own first."""

    __slots__ = ("epoch", "granted")

    def __init__(self, epoch: int, own_id: int) -> None:
        self.epoch = epoch
        self.granted = {own_id: None}


class Leader:
    """Leads the epoch, whose first record is at `start_offset`.

    `flushed` holds by voter id the end of what is on its disk; `high_watermark` is -1 until a
    record of the epoch is committed.
    """

    __slots__ = ("epoch", "flushed", "high_watermark", "start_offset")

    def __init__(self, epoch: int, start_offset: int) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.flushed: dict[int, int] = {}
        self.high_watermark = -1


class Resigned:
    """Led the epoch and will not again."""

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
"""From which role a node may go to which; anything else is a defect."""


class QuorumMachine:
    """See the module. `role` may be read by anyone."""

    def __init__(self, local: ReplicaKey, voters: VoterSet, election: ElectionState) -> None:
        """`election` is what the disk remembers.

        Raises:
            QuorumError: there are no voters, or the replica is none, or not the only one.
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
        self._persisted = election

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

    def deadline_ms(self) -> int | None:
        """When the next step is due without an event; a quorum of one has nothing to wait for."""
        return None

    def step(self, now_ms: int, event: Event) -> Sequence[Effect]:
        """Take an event; see `events` for the order of effects."""
        effects: list[Effect] = []
        match event:
            case Start():
                self._start(event, effects)
            case LogFlushed():
                self._log_flushed(event, effects)
            case Resign():
                self._resign(effects)
            case _:
                assert_never(event)
        if self._election != self._persisted:
            self._persisted = self._election
            effects.insert(0, PersistElection(self._election))
        return effects

    def _become(self, role: Role) -> None:
        assert type(role) in TRANSITIONS[type(self.role)], f"{self.role!r} to {role!r}"
        assert role.epoch >= self.role.epoch
        self.role = role

    def _start(self, event: Start, effects: list[Effect]) -> None:
        assert isinstance(self.role, Unattached), "a machine starts once"
        # The file may be older than the log, if it was lost or written by hand.
        epoch = max(self.role.epoch, event.epoch) + 1
        candidate = Candidate(epoch, self.local.id)
        self._become(candidate)
        self._election = ElectionState(epoch, NO_LEADER, self.local)
        if len(candidate.granted) >= self.voters.majority:
            self._become(Leader(epoch, event.end_offset))
            self._election = ElectionState(epoch, self.local.id)
            effects.append(BecomeLeader(epoch, event.end_offset, tuple(candidate.granted)))

    def _log_flushed(self, event: LogFlushed, effects: list[Effect]) -> None:
        role = self.role
        if not isinstance(role, Leader):
            return  # flushed after the resignation
        assert event.end_offset >= role.flushed.get(self.local.id, 0), (
            "a flushed log does not shrink"
        )
        role.flushed[self.local.id] = event.end_offset
        committed = self.voters.committed(role.flushed)
        if committed > role.start_offset and committed > role.high_watermark:
            role.high_watermark = committed
            effects.append(CommitUpTo(committed))

    def _resign(self, effects: list[Effect]) -> None:
        if isinstance(self.role, Leader):
            epoch = self.role.epoch
            self._become(Resigned(epoch))
            effects.append(StopLeading(epoch))
