"""Random histories break no rule, and the checks find planted bugs."""

from collections import Counter

import pytest
from tests.support.run_seed import numbers_of_histories

from odradek.core.controller import (
    alter_partition,
    brokers,
    machine,
    partition_change,
    partition_updates,
    periodic,
)
from odradek.core.controller.heartbeats import BrokerHeartbeats
from odradek.core.controller.partition_change import PartitionChange
from odradek.core.controller.partition_index import PartitionIndex

from .histories import History

LENGTH = 150
FOUND_WITHIN = 15
"""The number of seeds within which a planted bug is found."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Decisions are split, so that a failover may lose the end of one."""
    monkeypatch.setattr(machine, "RECORDS_PER_BATCH_MAX", 3)


@pytest.mark.parametrize("seed", numbers_of_histories("ODRADEK_CONTROLLER_HISTORIES", 25))
def test_all_rules_hold(seed):
    History(seed).run(LENGTH)


def test_the_histories_contain_everything():
    """All kinds of steps occur. Otherwise the histories would not test them."""
    counts = Counter()
    for seed in range(12):
        counts.update(History(seed).run(LENGTH))
    for what in (
        "unfenced", "stopped", "duplicates", "lost", "alter done", "alter refused", "completed",
        "completed, new leader", "fail_over", "stall", "unregister", "lose_directory", "assign",
    ):  # fmt: skip
        assert counts[what] > 0, what


def test_a_seed_twice_gives_the_same_log():
    logs = []
    for _ in range(2):
        history = History(7)
        history.run(LENGTH)
        logs.append([(at, epoch, repr(records)) for at, epoch, records in history.log])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 20


def no_check(*arguments):
    return True


def forgetful_index(self, delta):
    """Leave a partition in the lists of the brokers that it had before."""
    for topic_id, topic in delta.topics.changed.items():
        for index, partition in topic.partitions.items():
            self._add(topic_id, index, partition)


def changes_that_elect_the_fenced(original):
    def changed(state, partitions, may_lead, removed=-1, unclean=-1):
        return original(state, partitions, state.is_active, -1, unclean)

    return changed


def sessions_of_nobody(original):
    def begin(self, session_timeout_ms, brokers, offset, now_ms):
        original(self, session_timeout_ms, brokers, offset, now_ms)
        self._contacts.clear()

    return begin


def sessions_that_have_expired(original):
    def begin(self, session_timeout_ms, brokers, offset, now_ms):
        original(self, session_timeout_ms, brokers, offset, now_ms)
        for key in self._contacts:
            self._contacts[key] = now_ms - session_timeout_ms

    return begin


def without_grace(self, now_ms):
    """Fence brokers with expired sessions at once, even if the check is late."""
    deadline_ms = self.deadline_ms
    return None if deadline_ms is None or now_ms < deadline_ms else next(iter(self._contacts))


def never(self, *arguments):
    return None


def nothing(self, record):
    """Write nothing."""


def unchanged_epoch(self, record):
    """Do not fence removed replicas."""


def shutdown_with_leaders(original):
    def next_state(self, broker, brokers, **wants):
        wants["leads"] = lambda: False
        return original(self, broker, brokers, **wants)

    return next_state


def fence_only(state, broker):
    return [brokers._change(broker, fenced=brokers.FENCE)]


def fence_first(original):
    def fence(state, broker):
        records = original(state, broker)
        return [records[-1], *records[:-1]]

    return fence


def clean_shutdown(state, broker_id):
    return partition_updates.broker_fenced(state, broker_id)


def unclean_without_recovery(original):
    def elect(self, record):
        original(self, record)
        record.leader_recovery_state = -1

    return elect


def without_partition_epoch(original):
    def problem(state, broker_id, topic, partition, wanted, isr):
        if partition is not None:
            wanted.partition_epoch = partition.partition_epoch
        return original(state, broker_id, topic, partition, wanted, isr)

    return problem


def reassignment_at_once(replicas, isr, removing, adding):
    if not removing and not adding:
        return None
    new_isr = [each for each in isr if each not in removing]
    return [each for each in replicas if each not in removing], new_isr or list(isr)


def registrations_at_the_start(original):
    def replay_registration(self, record, offset):
        """Brokers are unfenced too early."""
        original(self, record, min(offset, 5))

    return replay_registration


def wrapped(owner, name, wrapper):
    return owner, name, wrapper(getattr(owner, name))


def planted():
    """By name: the owner, the attribute, and what replaces it."""
    return {
        "the index keeps what has left": (PartitionIndex, "update", forgetful_index),
        "a replica that is not eligible joins the ISR": (alter_partition, "_is_eligible", no_check),
        "an old partition epoch is accepted": wrapped(
            alter_partition, "_problem", without_partition_epoch
        ),
        "silent brokers are never fenced": (BrokerHeartbeats, "expired", never),
        "a new controller knows no sessions": wrapped(
            BrokerHeartbeats, "__init__", sessions_of_nobody
        ),
        "a new controller fences everybody": wrapped(
            BrokerHeartbeats, "__init__", sessions_that_have_expired
        ),
        "unread heartbeats are not waited for": (BrokerHeartbeats, "expired", without_grace),
        "a broker is unfenced before it has caught up": (
            BrokerHeartbeats,
            "is_caught_up",
            no_check,
        ),
        "the offset of a registration is forgotten": wrapped(
            machine.ControllerMachine, "_replay_registration", registrations_at_the_start
        ),
        "a broker that leads may stop": wrapped(
            BrokerHeartbeats, "next_state", shutdown_with_leaders
        ),
        "a fenced broker may be elected": wrapped(
            partition_updates, "_changes", changes_that_elect_the_fenced
        ),
        "an expired broker keeps its partitions": (periodic, "fence_broker", fence_only),
        "a broker is fenced before its leaders have moved": wrapped(
            periodic, "fence_broker", fence_first
        ),
        "an unclean shutdown counts as clean": (brokers, "unclean_shutdown", clean_shutdown),
        "an unclean election is not recorded": wrapped(
            PartitionChange, "_elect", unclean_without_recovery
        ),
        "a removed replica is not fenced": (
            PartitionChange,
            "_bump_epoch_for_lost_replicas",
            unchanged_epoch,
        ),
        "a lost directory may lead": (partition_change, "has_online_directory", no_check),
        "a reassignment does not wait": (
            partition_change.reassignment,
            "completed",
            reassignment_at_once,
        ),
        "a second broker with the id is let in": (
            BrokerHeartbeats,
            "has_valid_session",
            lambda *arguments: False,
        ),
    }


@pytest.mark.parametrize("bug", list(planted()))
def test_a_planted_bug_is_found(bug, monkeypatch):
    owner, name, replacement = planted()[bug]
    monkeypatch.setattr(owner, name, replacement)
    for seed in range(FOUND_WITHIN):
        try:
            History(seed).run(LENGTH)
        except (AssertionError, KeyError):  # a `Violation` or an assertion of the code
            return
    raise AssertionError(f"not found in {FOUND_WITHIN} seeds")
