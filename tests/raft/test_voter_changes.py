"""Single steps of the quorum machine: changes of the voters, and the upgrade of kraft.version."""

from dataclasses import replace

import pytest

from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import (
    AppendVoters,
    ElectionPersisted,
    PersistElection,
    RequestReceived,
    Respond,
    ResponseReceived,
    SendRequest,
    UpgradeVersion,
)
from odradek.core.raft.machine import RaftMachine
from odradek.core.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.settings import RaftSettings
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.model.errors import ErrorCode

from .simulated_log import Entry, Log, voter

ONE, TWO, THREE, FOUR = (voter(each) for each in (1, 2, 3, 4))
TRIO = VoterSet([ONE, TWO, THREE])
SETTINGS = RaftSettings()
PERIOD_MS = SETTINGS.membership_period_ms


def static(*ids):
    """Voters of the configuration: without directory ids."""
    return VoterSet(Voter(ReplicaKey(each, bytes(16)), voter(each).endpoints) for each in ids)


class Leader:
    """Node 1, the leader of epoch 1. Its log is committed, and `FOUR` follows it as an observer."""

    def __init__(self, voters, kraft_version=1):
        self.log = Log(voters)
        self.log.kraft_version = kraft_version
        self.machine = RaftMachine(ONE, self.log, ElectionState(), SETTINGS, bytes)
        self.now_ms = 10_000
        self._elect([*self.machine.start(self.now_ms)])
        self.append("leader 1")
        self.commit()

    def _elect(self, effects):
        """Stand for election, and get the votes of all voters."""
        while effects or not self.machine.is_leader:
            assert self.now_ms < 20_000
            if not effects:
                self.now_ms += 400
            else:
                effects += self._elected(effects.pop(0))
            effects += self.machine.poll(self.now_ms)

    def _elected(self, effect):
        if isinstance(effect, PersistElection):
            return self.machine.step(self.now_ms, ElectionPersisted(effect.election))
        if isinstance(effect, SendRequest) and isinstance(effect.request, VoteRequest):
            granted = VoteResponse(epoch=effect.request.epoch, is_granted=True)
            return self.machine.step(self.now_ms, ResponseReceived(effect.request_id, granted))
        return []

    def append(self, value):
        self.log.append(Entry(1, value))
        self.log.flushed_offset = self.log.end_offset

    def commit(self):
        """The other voters and the observer fetch from the end of the log."""
        effects = []
        keys = [each.key for each in self.log.voters.voters.values() if each.key.id != 1]
        for key in {*keys, FOUR.key}:
            request = FetchRequest(1, key, self.log.end_offset, 1, 0)
            effects += self.ask(request, "fetch")
        return [each for each in effects if getattr(each, "token", None) != "fetch"]

    def ask(self, request, token="token"):
        return self.step(RequestReceived(token, request))

    def step(self, event):
        effects = self.machine.step(self.now_ms, event)
        for each in effects:
            if isinstance(each, AppendVoters):
                self.append(each.voters)
        return [*effects, *self.machine.poll(self.now_ms)]

    def answer(self, sent, **fields):
        """The voter responds to ApiVersions."""
        response = VersionsResponse(**{"kraft_version_max": 1, **fields})
        return self.step(ResponseReceived(sent.request_id, response))


def only(effects, kind):
    (found,) = [each for each in effects if isinstance(each, kind)]
    return found


def responses(effects):
    return [each for each in effects if isinstance(each, Respond)]


def refusal(effects):
    return only(effects, Respond).response.error


def to_versions(effects):
    sent = [each for each in effects if isinstance(each, SendRequest)]
    (found,) = [each for each in sent if isinstance(each.request, VersionsRequest)]
    return found


def test_a_voter_is_added_when_its_software_is_known():
    leader = Leader(VoterSet([ONE]))
    sent = to_versions(leader.ask(AddVoterRequest(FOUR)))
    assert (sent.destination.host, sent.destination.port) == ("node4", 9093)
    effects = leader.answer(sent, kraft_version_max=3)
    expected = FOUR._replace(kraft_version_max=3)
    assert only(effects, AppendVoters) == AppendVoters(1, VoterSet([ONE, expected]))
    assert not responses(effects)
    assert refusal(leader.commit()) is ErrorCode.NONE
    assert refusal(leader.ask(AddVoterRequest(FOUR))) is ErrorCode.DUPLICATE_VOTER


def test_a_voter_that_joins_by_itself_gets_a_response_before_the_commit():
    leader = Leader(VoterSet([ONE]))
    sent = to_versions(leader.ask(AddVoterRequest(FOUR, ack_when_committed=False)))
    assert refusal(leader.answer(sent)) is ErrorCode.NONE
    assert refusal(leader.ask(RemoveVoterRequest(ONE.key))) is ErrorCode.REQUEST_TIMED_OUT
    leader.commit()
    assert refusal(leader.ask(AddVoterRequest(FOUR))) is ErrorCode.DUPLICATE_VOTER


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kraft_version_max": 0}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_min": 2, "kraft_version_max": 2}, ErrorCode.INVALID_REQUEST),
        ({"error": ErrorCode.UNSUPPORTED_VERSION}, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_software_that_does_not_fit(fields, expected):
    leader = Leader(TRIO)
    sent = to_versions(leader.ask(AddVoterRequest(FOUR)))
    assert refusal(leader.answer(sent, **fields)) is expected
    assert leader.log.voters == TRIO


def test_an_address_that_does_not_respond():
    leader = Leader(TRIO)
    sent = to_versions(leader.ask(AddVoterRequest(FOUR)))
    assert refusal(leader.ask(RemoveVoterRequest(TWO.key))) is ErrorCode.REQUEST_TIMED_OUT
    leader.now_ms += SETTINGS.request_timeout_ms
    (answer,) = [e for e in leader.machine.poll(leader.now_ms) if isinstance(e, Respond)]
    assert answer.response.error is ErrorCode.REQUEST_TIMED_OUT
    assert not responses(leader.answer(sent)), "too late"
    assert leader.log.voters == TRIO


def test_a_late_response_of_another_voter_is_ignored():
    leader = Leader(TRIO)
    first = to_versions(leader.ask(AddVoterRequest(FOUR, timeout_ms=10)))
    leader.now_ms += 10
    leader.machine.poll(leader.now_ms)
    other = voter(5)
    second = to_versions(leader.ask(AddVoterRequest(other)))
    assert not responses(leader.answer(first))
    assert refusal(leader.answer(second)) is ErrorCode.REQUEST_TIMED_OUT, "it has not fetched"


def test_a_replica_that_has_not_fetched_is_not_added():
    leader = Leader(TRIO)
    sent = to_versions(leader.ask(AddVoterRequest(voter(5))))
    assert refusal(leader.answer(sent)) is ErrorCode.REQUEST_TIMED_OUT


ELSEWHERE = FOUR._replace(endpoints=(VoterEndpoint("INTERNAL", "node4", 9093),))
NO_DIRECTORY = FOUR._replace(key=ReplicaKey(4, bytes(16)))
STRANGER = ReplicaKey(2, bytes([9] * 16))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (AddVoterRequest(ELSEWHERE), ErrorCode.INVALID_REQUEST),
        (AddVoterRequest(NO_DIRECTORY), ErrorCode.INVALID_REQUEST),
        (
            AddVoterRequest(FOUR._replace(key=ReplicaKey(-1, FOUR.key.directory_id))),
            ErrorCode.INVALID_REQUEST,
        ),
        (AddVoterRequest(TWO), ErrorCode.DUPLICATE_VOTER),
        (RemoveVoterRequest(ReplicaKey(2, bytes(16))), ErrorCode.INVALID_REQUEST),
        (RemoveVoterRequest(STRANGER), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoterRequest(FOUR.key), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoterRequest(0, TWO), ErrorCode.FENCED_LEADER_EPOCH),
        (UpdateVoterRequest(2, TWO), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (UpdateVoterRequest(1, FOUR), ErrorCode.VOTER_NOT_FOUND),
        (UpdateVoterRequest(1, TWO._replace(kraft_version_max=0)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_that_are_refused(request_, expected):
    leader = Leader(TRIO)
    assert refusal(leader.ask(request_)) == expected
    assert leader.log.voters == TRIO


def test_only_a_leader_changes_the_voters():
    follower = Follower(TRIO)
    for request in (AddVoterRequest(FOUR), RemoveVoterRequest(TWO.key), UpdateVoterRequest(1, TWO)):
        assert refusal(follower.ask(request)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_voter_with_another_address_is_updated_at_once():
    leader = Leader(TRIO)
    moved = TWO._replace(endpoints=(VoterEndpoint("CONTROLLER", "elsewhere", 1),))
    effects = leader.ask(UpdateVoterRequest(1, moved))
    assert only(effects, AppendVoters).voters == TRIO.with_voter(moved)
    assert refusal(effects) is ErrorCode.NONE
    again = moved._replace(endpoints=TWO.endpoints)
    refused = leader.ask(UpdateVoterRequest(1, again))
    assert refusal(refused) is ErrorCode.REQUEST_TIMED_OUT, "the last change is not committed"
    leader.commit()
    assert refusal(leader.ask(UpdateVoterRequest(1, again))) is ErrorCode.NONE


def test_static_voters_are_not_changed():
    leader = Leader(static(1, 2, 3), kraft_version=0)
    for request in (AddVoterRequest(FOUR), RemoveVoterRequest(TWO.key)):
        assert refusal(leader.ask(request)) is ErrorCode.UNSUPPORTED_VERSION


def test_the_upgrade_needs_the_descriptions_of_all_voters():
    leader = Leader(static(1, 2, 3), kraft_version=0)
    assert "2, 3" in leader.machine.upgrade_problem()
    assert refusal(leader.ask(UpdateVoterRequest(1, TWO))) is ErrorCode.NONE
    assert refusal(leader.ask(UpdateVoterRequest(1, FOUR))) is ErrorCode.VOTER_NOT_FOUND
    old = THREE._replace(kraft_version_max=0)
    assert refusal(leader.ask(UpdateVoterRequest(1, old))) is ErrorCode.NONE
    assert leader.machine.upgrade_problem() == "The voters 3 do not support it."
    assert refusal(leader.ask(UpdateVoterRequest(1, THREE))) is ErrorCode.NONE
    assert leader.machine.upgrade_problem() is None
    effects = leader.step(UpgradeVersion())
    assert only(effects, AppendVoters) == AppendVoters(1, TRIO, is_upgrade=True)
    leader.log.kraft_version = 1
    assert leader.machine.upgrade_problem() == "It was raised already."


def test_a_new_leader_does_not_know_the_descriptions():
    leader = Leader(static(1), kraft_version=0)
    assert leader.machine.upgrade_problem() is None, "the only voter knows itself"
    assert Follower(static(1, 2), kraft_version=0).machine.upgrade_problem() is not None


# -- the side of the follower -----------------------------------------------------------------------


class Follower:
    """A replica that follows node 2 in epoch 1. A fetch is in flight."""

    def __init__(self, voters, local=ONE, kraft_version=1, **settings):
        self.log = Log(voters)
        self.log.kraft_version = kraft_version
        self.settings = replace(SETTINGS, **settings)
        self.machine = RaftMachine(local, self.log, ElectionState(), self.settings, bytes)
        self.machine.start(0)
        self.now_ms = 0
        begin = BeginQuorumEpochRequest(1, 2, None, TWO.endpoints)
        self.machine.step(0, RequestReceived("begin", begin))
        self.machine.step(0, ElectionPersisted(ElectionState(1, 2)))
        self.sent = only(self.machine.poll(0), SendRequest)

    def ask(self, request):
        return self.machine.step(self.now_ms, RequestReceived("token", request))

    def respond(self, now_ms, response=None):
        """The leader responds to the request in flight; return the next request."""
        self.now_ms = now_ms
        response = response or FetchResponse(epoch=1, leader_id=2)
        self.machine.step(now_ms, ResponseReceived(self.sent.request_id, response))
        self.sent = only(self.machine.poll(now_ms), SendRequest)
        return self.sent.request

    def until_period(self):
        """Fetch until the follower looks at the voters; return the request that it sends then."""
        for now_ms in range(self.now_ms + 500, self.now_ms + PERIOD_MS, 500):
            assert isinstance(self.respond(now_ms), FetchRequest)
        return self.respond(self.now_ms + 500)


ACCEPTED = VoterChangeResponse(epoch=1, leader_id=2)


def test_a_voter_whose_entry_is_correct_sends_nothing():
    follower = Follower(TRIO)
    assert isinstance(follower.until_period(), FetchRequest)


def test_a_voter_that_has_moved_says_so():
    old = ONE._replace(endpoints=(VoterEndpoint("CONTROLLER", "before", 1),))
    follower = Follower(TRIO.with_voter(old))
    assert follower.until_period() == UpdateVoterRequest(1, ONE)
    assert isinstance(follower.respond(follower.now_ms, ACCEPTED), FetchRequest)
    assert follower.until_period() == UpdateVoterRequest(1, ONE), "the record has not come"
    follower.log.append(Entry(1, TRIO))
    follower.log.flushed_offset = follower.log.end_offset
    follower.respond(follower.now_ms, ACCEPTED)
    assert isinstance(follower.until_period(), FetchRequest)


def test_with_static_voters_each_leader_gets_one_description():
    follower = Follower(static(1, 2, 3), kraft_version=0)
    assert follower.until_period() == UpdateVoterRequest(1, ONE)
    refused = replace(ACCEPTED, error=ErrorCode.REQUEST_TIMED_OUT)
    follower.now_ms += SETTINGS.retry_backoff_ms
    follower.machine.step(follower.now_ms, ResponseReceived(follower.sent.request_id, refused))
    follower.now_ms += SETTINGS.retry_backoff_ms
    follower.sent = only(follower.machine.poll(follower.now_ms), SendRequest)
    assert follower.until_period() == UpdateVoterRequest(1, ONE)
    follower.respond(follower.now_ms, ACCEPTED)
    assert isinstance(follower.until_period(), FetchRequest)


@pytest.mark.parametrize("auto_join", [False, True])
def test_a_controller_joins_if_it_may(auto_join):
    follower = Follower(TRIO, FOUR, auto_join=auto_join)
    request = follower.until_period()
    if auto_join:
        assert request == AddVoterRequest(
            FOUR, ack_when_committed=False, timeout_ms=SETTINGS.request_timeout_ms
        )
        later = VoterChangeResponse(error=ErrorCode.REQUEST_TIMED_OUT, epoch=-1)
        assert isinstance(follower.respond(follower.now_ms, later), FetchRequest)
        assert isinstance(follower.until_period(), AddVoterRequest)
    else:
        assert isinstance(request, FetchRequest)


def test_a_controller_with_a_new_disk_replaces_itself():
    new = ONE._replace(key=ReplicaKey(1, bytes([9] * 16)))
    follower = Follower(TRIO, new, auto_join=True)
    assert follower.until_period() == RemoveVoterRequest(ONE.key)
    done = VoterChangeResponse(epoch=-1)
    follower.log.append(Entry(1, TRIO.without_voter(1)))
    follower.log.flushed_offset = follower.log.end_offset
    assert isinstance(follower.respond(follower.now_ms, done), FetchRequest)
    assert follower.until_period() == AddVoterRequest(
        new, ack_when_committed=False, timeout_ms=SETTINGS.request_timeout_ms
    )


def test_static_voters_are_not_joined():
    follower = Follower(static(1, 2, 3), FOUR, kraft_version=0, auto_join=True)
    assert isinstance(follower.until_period(), FetchRequest)
