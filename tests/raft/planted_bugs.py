"""Bugs that are planted into the machine, to show that the simulation finds such bugs.

Each bug is a function that patches the machine with pytest's `monkeypatch`, and the number of seeds
within which the checks must find the bug.
"""

from odradek.core.raft import fetching, quorum, roles, serving
from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import BecomeLeader
from odradek.core.raft.leader import Leader
from odradek.core.raft.outbox import Outbox

from . import cluster
from .simulated_log import Log


def vote_twice(patch):
    """A vote that was given to another candidate in the epoch is ignored."""

    def may_vote(election, candidate, is_up_to_date, is_pre_vote):
        return is_up_to_date

    patch.setattr(roles, "_may_vote", may_vote)


def forget_the_vote(patch):
    """A crash loses the vote, but not the epoch."""
    start = cluster.Node.start

    def forgetful(node):
        node.election = ElectionState(node.election.epoch, node.election.leader_id)
        start(node)

    patch.setattr(cluster.Node, "start", forgetful)


def speak_before_the_vote_is_durable(patch):
    """Messages do not wait for the election state."""

    def hold(outbox, message):
        outbox.add(message)

    patch.setattr(Outbox, "_hold", hold)


def elect_shorter_logs(patch):
    """A vote does not depend on the candidate's log."""
    may_vote = roles._may_vote

    def any_log(election, candidate, is_up_to_date, is_pre_vote):
        return may_vote(election, candidate, True, is_pre_vote)

    patch.setattr(roles, "_may_vote", any_log)


def commit_older_epochs_by_counting(patch):
    """A record of an older epoch is committed when a majority has it."""

    def advance(leader, voters, flushed_offset, now_ms):
        flushed = {each.key.id: each.end_offset for each in leader.followers(voters, now_ms)}
        flushed[leader.leader_id] = flushed_offset
        committed = voters.committed(flushed)
        if committed <= leader.high_watermark:
            return False
        leader.high_watermark = committed
        return True

    patch.setattr(Leader, "advance", advance)


def acknowledge_before_the_flush(patch):
    """The log counts as flushed when it is written. Only a crash of a majority shows it."""
    patch.setattr(
        Log,
        "flushed_offset",
        property(lambda log: log.end_offset, lambda log, offset: setattr(log, "_flushed", offset)),
        raising=False,
    )

    def crash(log, rng):
        log.truncate(rng.randint(min(log._flushed, log.end_offset), log.end_offset))

    patch.setattr(Log, "crash", crash)


def ignore_the_epoch_of_a_fetch(patch):
    """A fetch is compared by its offset alone."""
    patch.setattr(serving, "compare", lambda log, offset, epoch: None)


def truncate_too_much(patch):
    """A follower truncates to before what it has committed."""
    offset = fetching.truncation_offset
    patch.setattr(fetching, "truncation_offset", lambda log, end: max(0, offset(log, end) - 3))


def commit_what_was_not_fetched(patch):
    """A follower uses the leader's high watermark even if its own log is shorter."""

    def poll(part, now_ms):
        role = part._quorum.role
        if isinstance(role, roles.Follower):
            part._quorum.commit(role.leader_high_watermark)
        original(part, now_ms)

    original = fetching.Fetching.poll
    patch.setattr(fetching.Fetching, "poll", poll)


def lead_the_old_epoch_again(patch):
    """A leader that restarts continues to lead its epoch."""
    start = quorum.Quorum.start

    def again(self, now_ms):
        election = self.outbox.election
        start(self, now_ms)
        if election.leader_id == self.local.id:
            self.role = Leader(election.epoch, self.log.end_offset, self.local, now_ms)
            self.outbox.add(BecomeLeader(election.epoch, self.log.end_offset, (self.local.id,)))

    patch.setattr(quorum.Quorum, "start", again)


PLANTED = {
    vote_twice: 20,
    forget_the_vote: 80,
    speak_before_the_vote_is_durable: 100,
    elect_shorter_logs: 20,
    commit_older_epochs_by_counting: 250,
    acknowledge_before_the_flush: 20,
    ignore_the_epoch_of_a_fetch: 20,
    truncate_too_much: 20,
    commit_what_was_not_fetched: 20,
    lead_the_old_epoch_again: 60,
}
"""The bugs, and the number of seeds within which each is found.

With these numbers, less than one run in a thousand misses a bug. `commit_older_epochs_by_counting`
is found by one seed in 27, `speak_before_the_vote_is_durable` by one in 9.
"""
