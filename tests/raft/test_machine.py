"""Single steps of the quorum machine: the only voter, votes, epochs, and waits for the disk."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.raft.configuration import check_voters
from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import (
    AppendRecords,
    AppendRefused,
    BecomeLeader,
    CommitUpTo,
    ElectionPersisted,
    FollowLeader,
    PersistElection,
    RequestReceived,
    Resign,
    Respond,
    ResponseReceived,
    SendRequest,
    StopLeading,
)
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import NeedsSnapshot, OffsetAndEpoch, compare
from odradek.core.raft.machine import QuorumError, RaftMachine
from odradek.core.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from odradek.model.errors import ErrorCode

from .simulated_log import Entry, Log, voter

ONE, TWO, THREE = (voter(each) for each in (1, 2, 3))
ALONE = VoterSet([ONE])
TRIO = VoterSet([ONE, TWO, THREE])
NOTHING = OffsetAndEpoch(0, 0)


def vote(epoch, candidate=ONE):
    return ElectionState(epoch, -1, candidate.key)


def machine(voters=ALONE, election=None, entries=(), flushed=True):
    log = Log(voters)
    for entry in entries:
        log.append(entry)
    if flushed:
        log.flushed_offset = log.end_offset
    election = election or ElectionState()
    return RaftMachine(ONE, log, election, RaftSettings(), bytes), log


def leader(entries=()):
    """A machine that has become the leader of epoch 1, with its LeaderChange record."""
    quorum, log = machine(entries=entries)
    quorum.start(0)
    quorum.step(0, ElectionPersisted(vote(1)))
    quorum.poll(0)
    assert isinstance(quorum.role, Leader)
    log.append(Entry(1, "leader 1"))
    return quorum, log


def test_the_only_voter_leads_the_next_epoch_when_its_vote_is_durable():
    quorum, _ = machine(election=ElectionState(4, 1), entries=[Entry(4, 0)] * 20)
    assert quorum.start(0) == [PersistElection(vote(5)), FollowLeader(5, -1)]
    assert isinstance(quorum.role, Candidate)
    assert (quorum.leader_id, quorum.epoch) == (-1, 5)
    assert quorum.step(1, ElectionPersisted(vote(5))) == []
    effects = quorum.poll(1)
    assert effects == [PersistElection(ElectionState(5, 1)), BecomeLeader(5, 20, (1,))]
    assert (quorum.leader_id, quorum.epoch, quorum.high_watermark) == (1, 5, -1)
    assert quorum.step(2, ElectionPersisted(ElectionState(5, 1))) == []
    assert quorum.next_deadline_ms(2) is None


def test_an_epoch_of_the_log_is_never_led_again():
    quorum, _ = machine(election=ElectionState(2), entries=[Entry(7, 0)])
    assert PersistElection(vote(8)) in quorum.start(0)


def test_commits_follow_flushes_of_the_own_epoch():
    quorum, log = leader([Entry(0, 0)] * 20)
    assert quorum.poll(1) == []
    log.flushed_offset = 21
    assert quorum.poll(2) == [CommitUpTo(21)]
    assert quorum.poll(3) == []


def test_a_resigned_leader_commits_nothing():
    quorum, log = leader()
    assert quorum.step(1, Resign()) == [StopLeading(1)]
    assert isinstance(quorum.role, Resigned)
    log.flushed_offset = 1
    assert quorum.poll(2) == []
    assert quorum.step(3, Resign()) == []
    assert quorum.next_deadline_ms(3) is None


def ask(quorum, request, now_ms=10):
    return quorum.step(now_ms, RequestReceived("token", request))


def test_a_vote_is_answered_when_it_is_durable():
    quorum, _ = machine(TRIO)
    quorum.start(0)
    effects = ask(quorum, VoteRequest(1, TWO.key, ONE.key, NOTHING))
    persisted = [ElectionState(1), vote(1, TWO)]
    assert [each.election for each in effects if isinstance(each, PersistElection)] == persisted
    assert not [each for each in effects if isinstance(each, Respond)]
    assert quorum.step(11, ElectionPersisted(persisted[0])) == []
    (answer,) = quorum.step(12, ElectionPersisted(persisted[1]))
    assert answer == Respond("token", VoteResponse(epoch=1, is_granted=True))
    assert not ask(quorum, VoteRequest(1, THREE.key, ONE.key, NOTHING))[0].response.is_granted
    assert ask(quorum, VoteRequest(1, TWO.key, ONE.key, NOTHING))[0].response.is_granted


@pytest.mark.parametrize(
    ("last", "granted"),
    [((2, 1), False), ((3, 2), True), ((5, 2), True), ((2, 3), True), ((9, 1), False)],
)
def test_only_a_candidate_with_all_records_gets_a_vote(last, granted):
    quorum, _ = machine(TRIO, entries=[Entry(1, 0), Entry(1, 0), Entry(2, 0)])
    quorum.start(0)
    request = VoteRequest(3, TWO.key, ONE.key, OffsetAndEpoch(*last), is_pre_vote=True)
    ask(quorum, request)
    (answer,) = quorum.step(11, ElectionPersisted(ElectionState(3)))
    assert answer.response.is_granted is granted


def test_a_follower_that_hears_its_leader_refuses_pre_votes_and_keeps_its_epoch():
    quorum, _ = machine(TRIO)
    quorum.start(0)
    ask(quorum, BeginQuorumEpochRequest(1, 2, ONE.key, TWO.endpoints))
    quorum.step(11, ElectionPersisted(ElectionState(1, 2)))
    (fetch,) = quorum.poll(12)
    assert isinstance(fetch, SendRequest)
    assert fetch.destination.node_id == 2
    request = VoteRequest(1, THREE.key, ONE.key, NOTHING, is_pre_vote=True)
    assert ask(quorum, request)[0].response.is_granted, "the leader may be dead"
    quorum.step(13, ResponseReceived(fetch.request_id, FetchResponse(epoch=1, leader_id=2)))
    assert not ask(quorum, request)[0].response.is_granted
    assert isinstance(quorum.role, Follower)


def responses(quorum, now_ms, effects, is_granted):
    """Answer all requests for votes in `effects`."""
    for each in effects:
        if isinstance(each, SendRequest):
            answer = VoteResponse(epoch=quorum.epoch, leader_id=-1, is_granted=is_granted)
            quorum.step(now_ms, ResponseReceived(each.request_id, answer))


def test_a_candidate_that_has_lost_waits_for_the_end_of_its_election_timeout():
    quorum, _ = machine(TRIO)
    quorum.start(0)
    now_ms = quorum.next_deadline_ms(0)
    responses(quorum, now_ms, quorum.poll(now_ms), is_granted=True)
    assert PersistElection(vote(1)) in quorum.poll(now_ms)
    votes = quorum.step(now_ms, ElectionPersisted(vote(1))) + quorum.poll(now_ms)
    assert [each.request.is_pre_vote for each in votes if isinstance(each, SendRequest)] == [
        False,
        False,
    ]
    responses(quorum, now_ms, votes, is_granted=False)
    assert isinstance(quorum.role, Candidate)
    end_ms = quorum.next_deadline_ms(now_ms)
    assert end_ms >= now_ms + RaftSettings().election_timeout_ms
    assert quorum.poll(end_ms - 1) == []
    quorum.poll(end_ms)
    assert isinstance(quorum.role, Prospective)


def test_fetch_timeouts_differ():
    settings = RaftSettings()
    random = Random(1)
    timeouts = {settings.random_fetch_timeout_ms(random.randbytes) for _ in range(50)}
    longest_ms = settings.fetch_timeout_ms * 11 // 10
    assert len(timeouts) > 20
    assert all(settings.fetch_timeout_ms <= each <= longest_ms for each in timeouts)


def test_a_follower_that_cannot_append_waits_before_it_fetches_again():
    quorum, _ = machine(TRIO)
    quorum.start(0)
    ask(quorum, BeginQuorumEpochRequest(1, 2, ONE.key, TWO.endpoints))
    quorum.step(11, ElectionPersisted(ElectionState(1, 2)))
    (fetch,) = quorum.poll(12)
    response = FetchResponse(epoch=1, leader_id=2, records=["damaged"])
    (append,) = quorum.step(13, ResponseReceived(fetch.request_id, response))
    assert isinstance(append, AppendRecords)
    assert quorum.step(13, AppendRefused(1)) == []
    assert quorum.poll(13) == []
    retry_ms = 13 + RaftSettings().retry_backoff_ms
    assert quorum.next_deadline_ms(13) == retry_ms
    assert [type(each) for each in quorum.poll(retry_ms)] == [SendRequest]


def test_requests_for_another_disk_and_of_an_old_epoch_are_refused():
    quorum, _ = machine(TRIO, election=ElectionState(4))
    quorum.start(0)
    other = ReplicaKey(1, bytes([9] * 16))
    answer = ask(quorum, VoteRequest(5, TWO.key, other, NOTHING))[0].response
    assert answer.error is ErrorCode.INVALID_VOTER_KEY
    answer = ask(quorum, VoteRequest(3, TWO.key, ONE.key, NOTHING))[0].response
    assert (answer.error, answer.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 4)
    assert isinstance(quorum.role, Unattached)


def test_a_replica_fetches_only_from_the_leader_of_its_epoch():
    quorum, log = leader()
    log.flushed_offset = 1
    quorum.poll(1)
    observer = voter(7).key
    for epoch, error in ((0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        answer = ask(quorum, FetchRequest(epoch, observer, 0, 0, 500))[0].response
        assert (answer.error, answer.leader_id, answer.epoch) == (error, 1, 1)
    answer = ask(quorum, FetchRequest(1, observer, 0, 0, 500))[0].response
    assert (answer.read_offset, answer.high_watermark) == (0, 1)
    assert ask(quorum, FetchRequest(1, observer, 1, 1, 500, 1)) == [], "nothing new: it waits"
    assert quorum.next_deadline_ms(10) == 510
    log.append(Entry(1, "new"))
    (answer,) = quorum.poll(20)
    assert answer.response.read_offset == 1
    answer = ask(quorum, FetchRequest(1, observer, 9, 1, 500))[0].response
    assert answer.diverging == OffsetAndEpoch(2, 1)


def test_the_document_lists_the_transitions():
    text = (Path(__file__).parents[2] / "docs" / "quorum.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| ")]
    told = {row[0].removeprefix("| "): row[1].split(", ") for row in rows}
    for role, following in TRANSITIONS.items():
        assert told[role.__name__] == [each.__name__ for each in following]


def test_who_is_no_voter_does_not_start_alone():
    with pytest.raises(QuorumError, match="not among the voters"):
        check_voters(Voter(ReplicaKey(1, bytes(16)), ()), ALONE, is_alone=True)
    with pytest.raises(QuorumError, match=r"not among the voters \(nodes 1\)"):
        check_voters(TWO, ALONE, is_alone=True)
    with pytest.raises(QuorumError, match=r"set controller\.quorum\.voters as it was"):
        check_voters(ONE, VoterSet(), is_alone=True)
    with pytest.raises(QuorumError, match="3 voters"):
        check_voters(ONE, TRIO, is_alone=True)
    check_voters(ONE, TRIO, is_alone=False)


def test_a_voter_without_a_directory_is_known_by_its_id():
    static = VoterSet([Voter(ReplicaKey(1, bytes(16)), ())])
    assert static.is_only(ONE.key)


def test_the_voters_follow_the_log():
    history = VoterHistory(ALONE)
    history.add(5, TRIO)
    history.add(9, TRIO.without_voter(3))
    assert history.at(5) == ALONE
    assert history.at(6) == TRIO
    assert len(history.latest) == 2
    history.truncate_to(9)
    assert (history.latest, history.latest_offset) == (TRIO, 5)
    history.start_at(7)
    assert (history.latest, history.latest_offset) == (TRIO, -1)


@given(st.dictionaries(st.integers(0, 9), st.integers(-1, 20), min_size=1))
def test_a_majority_has_what_is_committed(flushed):
    voters = VoterSet([Voter(ReplicaKey(each, bytes(16)), ()) for each in flushed])
    committed = voters.committed(flushed)
    have = [offset for offset in flushed.values() if offset >= committed]
    more = [offset for offset in flushed.values() if offset > committed]
    assert len(have) >= voters.majority
    assert len(more) < voters.majority


@pytest.mark.parametrize(
    ("voted", "candidate", "is_granted"),
    [
        (ReplicaKey(2, b"a" * 16), ReplicaKey(2, b"a" * 16), True),
        (ReplicaKey(2, b"a" * 16), ReplicaKey(2, b"b" * 16), False),
        (ReplicaKey(2, b"a" * 16), ReplicaKey(3, b"a" * 16), False),
        # The state was read from a file of kraft.version 0, which has no directory id.
        (ReplicaKey(2, bytes(16)), ReplicaKey(2, b"a" * 16), True),
        (ReplicaKey(2, bytes(16)), ReplicaKey(3, b"a" * 16), False),
    ],
)
def test_a_vote_is_granted_again_to_the_same_candidate_only(voted, candidate, is_granted):
    role = Unattached(1, -1, voted, 0)
    assert role.may_grant(candidate, is_up_to_date=True, is_pre_vote=False) is is_granted


def test_a_log_that_ends_where_this_log_begins_needs_a_snapshot_only_if_its_epoch_differs():
    log = Log(TRIO)
    log.start_offset = 4
    log.snapshots = dict.fromkeys([OffsetAndEpoch(1, 1), OffsetAndEpoch(4, 2)])
    assert compare(log, 4, 2) is None
    del log.snapshots[OffsetAndEpoch(1, 1)]
    assert compare(log, 4, 2) is None
    assert compare(log, 4, 3) == NeedsSnapshot(OffsetAndEpoch(4, 2))
    assert compare(log, 3, 2) == NeedsSnapshot(OffsetAndEpoch(4, 2))
