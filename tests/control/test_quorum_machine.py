"""The quorum machine: one voter elects itself; nothing is committed before it is flushed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    ElectionPersisted,
    LogFlushed,
    PersistElection,
    Resign,
    Start,
    StopLeading,
)
from odradek.core.raft.machine import Candidate, Leader, QuorumError, QuorumMachine, Resigned
from odradek.core.raft.voters import ReplicaKey, Voter, VoterSet

DIRECTORY = bytes(range(16))
LOCAL = ReplicaKey(1, DIRECTORY)
ALONE = VoterSet([Voter(LOCAL, ())])


def machine(election=None):
    return QuorumMachine(LOCAL, ALONE, election or ElectionState())


def vote(epoch):
    return ElectionState(epoch, -1, LOCAL)


def leader(end_offset):
    """A machine that has become the leader of epoch 1."""
    quorum = machine()
    quorum.step(0, Start(end_offset, epoch=0))
    quorum.step(0, ElectionPersisted(vote(1)))
    assert isinstance(quorum.role, Leader)
    return quorum


def test_the_only_voter_leads_the_next_epoch_when_its_vote_is_durable():
    quorum = machine(ElectionState(4, 1))
    assert quorum.step(0, Start(end_offset=20, epoch=4)) == [PersistElection(vote(5))]
    assert isinstance(quorum.role, Candidate)
    assert (quorum.leader_id, quorum.epoch) == (-1, 5)
    effects = quorum.step(1, ElectionPersisted(vote(5)))
    assert effects == [PersistElection(ElectionState(5, 1)), BecomeLeader(5, 20, (1,))]
    assert isinstance(quorum.role, Leader)
    assert (quorum.leader_id, quorum.epoch, quorum.high_watermark) == (1, 5, -1)
    assert quorum.step(2, ElectionPersisted(ElectionState(5, 1))) == []


def test_an_older_state_that_becomes_durable_is_no_vote():
    quorum = machine(ElectionState(4, 1))
    quorum.step(0, Start(end_offset=20, epoch=4))
    assert quorum.step(0, ElectionPersisted(ElectionState(4, 1))) == []
    assert isinstance(quorum.role, Candidate)


def test_an_epoch_of_the_log_is_never_led_again():
    quorum = machine(ElectionState(2))
    assert quorum.step(0, Start(end_offset=20, epoch=7)) == [PersistElection(vote(8))]
    assert quorum.step(0, ElectionPersisted(vote(8)))[-1] == BecomeLeader(8, 20, (1,))


def test_commits_follow_flushes_of_the_own_epoch():
    quorum = leader(20)
    assert quorum.step(1, LogFlushed(20)) == []
    assert quorum.step(2, LogFlushed(21)) == [CommitUpTo(21)]
    assert quorum.step(3, LogFlushed(21)) == []
    assert quorum.step(4, LogFlushed(30)) == [CommitUpTo(30)]
    assert quorum.high_watermark == 30


def test_a_resigned_leader_commits_nothing():
    quorum = leader(0)
    assert quorum.step(1, Resign()) == [StopLeading(1)]
    assert isinstance(quorum.role, Resigned)
    assert quorum.step(2, LogFlushed(5)) == []
    assert quorum.step(3, Resign()) == []


def test_others_disks_are_not_voters():
    with pytest.raises(QuorumError, match="not among the voters"):
        QuorumMachine(ReplicaKey(1, bytes(16)), ALONE, ElectionState())
    with pytest.raises(QuorumError, match=r"not among the voters \(nodes 1\)"):
        QuorumMachine(ReplicaKey(2, DIRECTORY), ALONE, ElectionState())


def test_voters_that_are_not_in_the_log_are_asked_for():
    with pytest.raises(QuorumError, match=r"set controller\.quorum\.voters as it was"):
        QuorumMachine(LOCAL, VoterSet(), ElectionState())


def test_a_larger_quorum_is_refused():
    other = Voter(ReplicaKey(2, bytes(16)), ())
    with pytest.raises(QuorumError, match="2 voters"):
        QuorumMachine(LOCAL, ALONE.with_voter(other), ElectionState())


def test_a_voter_without_a_directory_is_known_by_its_id():
    static = VoterSet([Voter(ReplicaKey(1, bytes(16)), ())])
    assert static.is_only(LOCAL)


@given(st.dictionaries(st.integers(0, 9), st.integers(-1, 20), min_size=1))
def test_a_majority_has_what_is_committed(flushed):
    voters = VoterSet([Voter(ReplicaKey(each, bytes(16)), ()) for each in flushed])
    committed = voters.committed(flushed)
    have = [offset for offset in flushed.values() if offset >= committed]
    more = [offset for offset in flushed.values() if offset > committed]
    assert len(have) >= voters.majority
    assert len(more) < voters.majority
