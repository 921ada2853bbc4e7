"""Regressions of other clients, planted into ours: each is found by a test of the machines, or in the simulation.

They are defects that librdkafka (rd), franz-go (fg), aiokafka (ak), kafka-python (kp) and Apache Kafka's own
client (AK) have had. The tests of the machines must fail with the defect. `make proofs` looks for those that
the simulation finds (`tests.sim.client_bugs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.client import test_member_machines as members
from tests.client import test_metadata as metadata
from tests.client import test_producer_machine as producers
from tests.client import test_share_machine as shares
from tests.client.group_lab import Lab
from tests.sim import client_bugs
from tests.sim.planted_bugs import BUGS

from odradek.client.core.classic_subscription import ClassicSubscription
from odradek.client.core.commits import Commits
from odradek.client.core.group_protocol import encode_assignment
from odradek.client.core.member_events import Joined
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.producer_batch import ProducerBatch
from odradek.client.core.routes import Routes
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
"""The defects. The numbers are those of docs/client.md; 0 for those that were our own."""


@pytest.mark.parametrize(
    "regression", [each for each in REGRESSIONS if each.plant], ids=lambda each: each.source
)
def test_the_machines_find_it(regression: Regression) -> None:
    assert callable(regression.finder)
    regression.finder()
    with pytest.MonkeyPatch.context() as patch:
        regression.plant(patch)
        with pytest.raises(AssertionError):
            regression.finder()


def test_the_simulation_looks_for_the_others() -> None:
    names = [each.finder for each in REGRESSIONS if each.plant is None]
    assert len(names) >= 5
    for each in names:
        assert each in BUGS
