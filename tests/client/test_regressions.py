"""Regressions of other clients, planted into ours: each is found by a test of the machines, or in the simulation.

They are defects that librdkafka (rd), franz-go (fg), aiokafka (ak), kafka-python (kp) and Apache Kafka's own
client (AK) have had. The tests of the machines must fail with the defect. `make proofs` looks for those that
the simulation finds (`tests.sim.client_bugs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.client import test_fetch_leaders as leaders
from tests.client import test_fetch_machine as fetches
from tests.client import test_member_machines as members
from tests.client import test_metadata as metadata
from tests.client import test_producer_machine as producers
from tests.client import test_share_machine as shares
from tests.client.group_lab import Lab
from tests.sim import client_bugs
from tests.sim.planted_bugs import BUGS

from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import Commits
from odradek.client.core.fetch_state import FetchState
from odradek.client.core.fetched_chunk import FetchedChunk
from odradek.client.core.fetcher import Fetcher
from odradek.client.core.group_protocol import encode_assignment
from odradek.client.core.member_events import Joined
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.producer_batch import ProducerBatch
from odradek.client.core.routes import Routes
from odradek.client.core.topic_names import TopicNames
from odradek.client.share.session import ShareSession
from odradek.records.compiled import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="methods of a compiled class cannot be replaced")


class Regression(NamedTuple):
    """A defect, and what finds it: a test of machines, or a planted bug of the simulation."""

    number: int
    source: str
    plant: Callable[[pytest.MonkeyPatch], None] | None
    finder: Callable[[], None] | str


# -- defects ----------------------------------------------------------------------------------


def reuse_buffers(patch):
    """The buffer of a batch that is done is given to another one."""
    finish = ProducerBatch.finish

    def overwrite(batch, *arguments, **named):
        batch.data[:] = bytes(len(batch.data))
        finish(batch, *arguments, **named)

    patch.setattr(ProducerBatch, "finish", overwrite)


def send_retries_with_others(patch):
    """While a batch waits for its retry, later ones are sent."""
    patch.setattr(
        PartitionQueue,
        "may_send",
        lambda queue, now_ms, in_flight_max: (
            bool(queue.ready) and len(queue.in_flight) < in_flight_max
        ),
    )


def adopt_at_once(patch):
    """An assignment is in effect before the user polls."""
    adopt = ClassicSubscription.adopt

    def take(subscription, joined):
        events = adopt(subscription, joined)
        for each in events:
            subscription.taken(each)
        return events

    patch.setattr(ClassicSubscription, "adopt", take)


def wait_for_no_names(patch):
    """A topic that the broker has matched, and the client does not know, is never asked for."""
    patch.setattr(TopicNames, "poll", lambda names, now_ms: [])


def send_later_commits_first(patch):
    """A commit that is asked for later is sent first."""
    poll = Commits.poll

    def newest_first(commits, now_ms):
        if not commits._is_asked:
            commits._waiting.reverse()
        return poll(commits, now_ms)

    patch.setattr(Commits, "poll", newest_first)


def forget_nothing(patch):
    """A partition that was named only for its acknowledgements stays in the session."""
    fill_fetch = ShareSession.fill_fetch

    def without_forgotten(session, request, *arguments, **named):
        fill_fetch(session, request, *arguments, **named)
        request.forgotten_topics_data = []

    patch.setattr(ShareSession, "fill_fetch", without_forgotten)


def ask_one_node(patch):
    """Metadata are asked for at one node, also if it does not answer."""
    ask = Routes._ask

    def ask_first(routes, *arguments):
        found = ask(routes, *arguments)
        found.link = 1, ""
        return found

    patch.setattr(Routes, "_ask", ask_first)


def keep_what_is_revoked(patch):
    """Records of a partition are handed out while it is being given up."""
    patch.setattr(FetchState, "revoke", lambda state: None)


def count_fetched_as_read(patch):
    """The position is that of the next fetch."""
    fetched_to = FetchState.fetched_to

    def read_ahead(state, offset):
        fetched_to(state, offset)
        state.offset = offset

    patch.setattr(FetchState, "fetched_to", read_ahead)


def rewind_on_resume(patch):
    """Resume fetches what was fetched before the pause again."""
    pause = FetchState.pause

    def rewind(state, is_paused):
        pause(state, is_paused)
        state.refetch()

    patch.setattr(FetchState, "pause", rewind)


def show_aborted_records(patch):
    """Records of aborted transactions are shown if the broker's list is not sorted."""
    take_data = Fetcher._take_data

    def unsorted(fetcher, node, state, data, *rest):
        if data.aborted_transactions:
            data.aborted_transactions = data.aborted_transactions[:1]
        take_data(fetcher, node, state, data, *rest)

    patch.setattr(Fetcher, "_take_data", unsorted)


def believe_late_answers(patch):
    """An answer is believed that was asked for before the position has changed."""
    change = FetchState._change

    def same_version(state, stage):
        change(state, stage)
        state.version -= 1

    patch.setattr(FetchState, "_change", same_version)


def keep_the_offset_of_the_request(patch):
    """What was fetched from a replica is fetched from the leader again."""
    prefer = FetchState.prefer

    def go_back(state, replica, until_ms):
        if state.replica >= 0 and replica < 0:
            state.offset = state.fetch_offset = 0
        prefer(state, replica, until_ms)

    patch.setattr(FetchState, "prefer", go_back)


def keep_what_was_fetched(patch):
    """Records that were fetched before are handed out after a seek."""
    patch.setattr(FetchedChunk, "is_late", property(lambda chunk: False))


def trust_committed_offsets(patch):
    """A committed offset is not validated."""
    seek = FetchState.seek
    patch.setattr(FetchState, "seek", lambda state, offset, epoch=-1: seek(state, offset))


# -- what finds them --------------------------------------------------------------------------


def bytes_stay():
    """The bytes of a request in flight stay as they are when its batch expires."""
    lab = producers.established(1, delivery_timeout_ms=1_000)
    data = lab.data()
    before = bytes(data)
    lab.wait(1_100)
    assert lab.done[-1].error is not None
    lab.send(b"others")
    assert bytes(data) == before


def an_assignment_waits_for_the_user():
    """What is assigned is in effect when the user takes the event."""
    subscription = ClassicSubscription(Routes(lambda: 1), ["t"])
    assignment = encode_assignment([members.T0])
    (event,) = subscription.adopt(Joined(1, "range", False, assignment))
    assert subscription.assignment == frozenset()
    subscription.taken(event)
    assert subscription.assignment == {members.T0}


def any_node_is_asked():
    """Requests for metadata and coordinators go to any node that answers."""
    routes = Routes(lambda: 1)
    routes.topic("t", 0)
    assert routes.coordinator(0, "group") is None
    assert [each.link for each in routes.poll(0)] == [None, None]


def with_a_group(test, *arguments):
    """Return a test of members that makes its lab itself."""

    def run():
        made = []

        def make(**options):
            made.append(Lab(**options))
            return made[-1]

        try:
            test(make, *arguments)
        finally:
            for each in made:
                each.close()

    return run


def with_arguments(test, *arguments):
    """Return a test without parameters."""
    return lambda: test(*arguments)


REGRESSIONS = [
    Regression(1, "AK-19012", reuse_buffers, bytes_stay),
    Regression(2, "rd#3712", None, "the client restarts sequences with the leader"),
    Regression(
        3,
        "rd#3575",
        client_bugs.commit_in_spite_of_failed_batches,
        with_arguments(
            producers.test_after_an_abortable_error_the_next_transaction_has_a_new_epoch, 2
        ),
    ),
    Regression(
        4,
        "rd#4736",
        client_bugs.rebuild_retried_batches,
        producers.test_a_retry_is_the_same_bytes_and_alone,
    ),
    Regression(
        4, "rd#4736", send_retries_with_others, producers.test_a_retry_is_the_same_bytes_and_alone
    ),
    Regression(
        5,
        "rd#4953",
        client_bugs.renumber_in_flight,
        producers.test_after_a_final_error_only_that_partition_is_renumbered,
    ),
    Regression(
        6,
        "fg#1217",
        client_bugs.reuse_the_sequence_of_expired_batches,
        with_arguments(producers.test_an_expired_batch_leaves_the_sequence_unresolved, False),
    ),
    Regression(6, "AK-14034", None, "the client reuses the sequence of expired batches"),
    Regression(
        7, "AK-14196", keep_what_is_revoked, fetches.test_a_revoked_partition_hands_out_nothing
    ),
    Regression(
        8, "AK-18641", count_fetched_as_read, fetches.test_the_position_is_that_of_what_was_taken
    ),
    Regression(
        10, "rd#4686", rewind_on_resume, fetches.test_a_paused_partition_keeps_what_was_fetched
    ),
    Regression(
        11,
        "ak#781",
        show_aborted_records,
        leaders.test_aborted_records_are_left_out_when_reading_committed,
    ),
    Regression(
        12,
        "fg#1348",
        believe_late_answers,
        fetches.test_a_late_look_up_does_not_move_a_sought_position,
    ),
    Regression(
        13,
        "fg v1.20.3",
        keep_the_offset_of_the_request,
        leaders.test_the_closest_replica_is_used_for_a_while,
    ),
    Regression(16, "ck#1443", keep_what_was_fetched, fetches.test_seek_drops_what_was_fetched),
    Regression(
        17,
        "AK-20507",
        trust_committed_offsets,
        leaders.test_a_committed_offset_is_validated_first,
    ),
    Regression(
        9,
        "AK-20106",
        adopt_at_once,
        an_assignment_waits_for_the_user,
    ),
    Regression(14, "fg#1348", None, "the client takes an unknown end for a commit"),
    Regression(
        15,
        "fg v1.21.5",
        forget_nothing,
        shares.test_a_revoked_partition_is_acknowledged_and_forgotten,
    ),
    Regression(
        18,
        "fg v1.21.6",
        wait_for_no_names,
        with_a_group(members.test_topics_by_a_pattern_and_their_change),
    ),
    Regression(
        19, "fg", send_later_commits_first, with_a_group(members.test_later_commits_are_sent_later)
    ),
    Regression(20, "ak", None, "the client leaves the member out of transactions"),
    Regression(20, "fg v1.21", None, "the client fetches unstable offsets"),
    Regression(21, "rd#4970", ask_one_node, any_node_is_asked),
    Regression(
        0,
        "a former leader",
        client_bugs.believe_any_metadata,
        metadata.test_a_former_leader_does_not_replace_a_newer_one,
    ),
]
"""The defects, by number; 0 for one that our own client had."""


@pytest.mark.parametrize(
    "regression", [each for each in REGRESSIONS if each.plant], ids=lambda each: each.source
)
def test_the_machines_find_it(regression: Regression) -> None:
    assert callable(regression.finder)
    regression.finder()
    with pytest.MonkeyPatch.context() as patch:
        regression.plant(patch)
        with pytest.raises((AssertionError, AttributeError)):  # the latter: there is no batch
            regression.finder()


def test_all_are_there() -> None:
    assert {each.number for each in REGRESSIONS} == set(range(22))


def test_the_simulation_looks_for_the_others() -> None:
    names = [each.finder for each in REGRESSIONS if each.plant is None]
    assert len(names) >= 5
    for each in names:
        assert each in BUGS
