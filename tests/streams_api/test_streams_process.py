"""Applications whose processes are members of Streams groups (KIP-1071): tasks move alone, standbys take over."""

from __future__ import annotations

import pytest
from compat.lab.apache_kafka import BriefApacheKafka
from compat.lab.toolchain import Missing
from tests.streams_api.test_process import running, say, totals, wait_for, word_count

from odradek.client import Admin
from odradek.client.errors import ClientError
from odradek.streams import StreamsError, TopologyError
from odradek.streams.process.membership import ApplicationEndedError
from odradek.testing import Broker

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
}
LETTERS = "abcdefgh"
PARTITIONS = 2


def group(**settings):
    return {"group_protocol": "streams", "commit_interval_ms": 50, **settings}


@pytest.fixture
def bootstrap(request):
    with Broker(settings={**SETTINGS, **getattr(request, "param", {})}) as broker:
        broker.create_topics({"lines": PARTITIONS, "word-counts": PARTITIONS})
        yield broker.bootstrap_servers


def all_tasks(*workers):
    return sorted(task for each in workers for task in each.tasks)


EVERYTHING = ["0_0", "0_1", "1_0", "1_1"]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted_while_members_come_and_go(bootstrap, guarantee):
    def start():
        return running(word_count(bootstrap), **group(processing_guarantee=guarantee))

    say(bootstrap, *["a b c d e f g h"] * 20)
    with start() as first:
        wait_for(lambda: first.tasks == EVERYTHING)
        with start() as second:
            wait_for(lambda: len(second.tasks) == 2 and all_tasks(first, second) == EVERYTHING)
            say(bootstrap, *["a b c d e f g h"] * 20)
            wanted = dict.fromkeys(LETTERS, 40)
            assert totals(bootstrap, wanted) == wanted
        wait_for(lambda: first.tasks == EVERYTHING)
        say(bootstrap, "a h")
        wanted = {**wanted, "a": 41, "h": 41}
        assert totals(bootstrap, wanted) == wanted
    with Admin(bootstrap_servers=bootstrap) as admin:
        names = {each.name for each in admin.list_topics()}
        (listed,) = [each for each in admin.list_groups() if each.id == "word-count"]
    assert listed.type == "streams"
    assert {"word-count-counts-changelog", "word-count-counts-repartition"} <= names


def test_a_task_that_stays_is_not_closed_when_another_moves(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 20)
    with running(word_count(bootstrap), **group()) as first:
        wait_for(lambda: first.tasks == EVERYTHING)
        before = dict(first._running)
        with running(word_count(bootstrap), **group()) as second:
            wait_for(lambda: len(second.tasks) == 2 and all_tasks(first, second) == EVERYTHING)
            assert all(before[each] is task for each, task in first._running.items())


def test_a_task_that_returns_goes_on_with_its_state(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 20)
    with running(word_count(bootstrap), **group()) as first:
        wait_for(lambda: first.tasks == EVERYTHING)
        assert totals(bootstrap, dict.fromkeys(LETTERS, 20)) == dict.fromkeys(LETTERS, 20)
        before = {each: task.stores for each, task in first._running.items() if task.stores}
        with running(word_count(bootstrap), **group()) as second:
            wait_for(lambda: len(second.tasks) == 2 and all_tasks(first, second) == EVERYTHING)
            say(bootstrap, *["a b c d e f g h"] * 20)
            assert totals(bootstrap, dict.fromkeys(LETTERS, 40)) == dict.fromkeys(LETTERS, 40)
        wait_for(lambda: first.tasks == EVERYTHING)
        for each, stores in before.items():
            assert first._running[each].stores["counts"] is stores["counts"]
        say(bootstrap, *["a b c d e f g h"] * 20)
        assert totals(bootstrap, dict.fromkeys(LETTERS, 60)) == dict.fromkeys(LETTERS, 60)


@pytest.mark.parametrize("bootstrap", [{"group.streams.num.standby.replicas": "1"}], indirect=True)
def test_a_standby_has_read_the_changelog_before_it_takes_over(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 200)
    with (
        running(word_count(bootstrap), **group()) as first,
        running(word_count(bootstrap), **group()) as second,
    ):
        wait_for(lambda: len(second.tasks) == 2 and all_tasks(first, second) == EVERYTHING)
        wanted = dict.fromkeys(LETTERS, 200)
        assert totals(bootstrap, wanted) == wanted
        wait_for(lambda: sorted(first.standby_tasks + second.standby_tasks) == ["1_0", "1_1"])
        theirs = second.standby_tasks
        assert not set(theirs) & set(second.tasks)
        standby = {f"{n}_{p}": each for (n, p), each in second._tasks.standby.items()}
        stores = {name: each.stores["counts"] for name, each in standby.items()}
        sizes = {
            name: len(first._running[int(name[0]), int(name[2])].stores["counts"])
            for name in theirs
        }
        wait_for(lambda: {name: len(each) for name, each in stores.items()} == sizes)
        first.stop()
        wait_for(lambda: second.tasks == EVERYTHING)
        for name, store in stores.items():
            task = second._running[int(name[0]), int(name[2])]
            assert task.stores["counts"] is store, "the standby's store is the task's"
        say(bootstrap, "a h")
        wanted = {**wanted, "a": 201, "h": 201}
        assert totals(bootstrap, wanted) == wanted


def ended(bootstrap, act):
    """Run until something ends the application; return why."""
    try:
        with running(word_count(bootstrap), **group()) as worker:
            wait_for(lambda: worker.tasks == EVERYTHING)
            act(worker)
            wait_for(lambda: worker._has_failed)
    except (ClientError, StreamsError) as error:
        return error
    return None


def test_a_missing_source_topic_ends_the_application_after_two_heartbeats(bootstrap):
    def delete(_worker):
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics(["lines"])

    error = ended(bootstrap, delete)
    assert isinstance(error, TopologyError)
    assert "missing source topics" in str(error)
    assert "lines" in str(error)


def test_one_process_ends_the_application(bootstrap):
    error = ended(bootstrap, lambda worker: worker.shut_down_application())
    assert isinstance(error, ApplicationEndedError)


@pytest.mark.parametrize(
    "bootstrap", [{"group.coordinator.rebalance.protocols": "classic"}], indirect=True
)
def test_a_cluster_without_streams_groups_is_named(bootstrap):
    worker = word_count(bootstrap).worker(**group())
    with pytest.raises(ClientError, match="the cluster has no Streams groups"):
        worker.run()


@pytest.mark.java
@pytest.mark.cluster
@pytest.mark.slow("a broker of Apache Kafka starts")
def test_processes_share_tasks_and_stand_by_on_apache_kafka(tmp_path):
    settings = {**SETTINGS, "group.streams.num.standby.replicas": "1"}
    settings.pop("group.streams.assignment.interval.ms")  # new in 4.4
    exactly = group(processing_guarantee="exactly_once_v2")
    try:
        kafka = BriefApacheKafka(settings=settings, directory=tmp_path)
    except Missing as reason:
        pytest.skip(str(reason))
    with kafka:
        bootstrap = kafka.bootstrap
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topic("lines", PARTITIONS)
            admin.create_topic("word-counts", PARTITIONS)
        say(bootstrap, *["a b c d e f g h"] * 20)
        with running(word_count(bootstrap), **exactly) as first:
            wait_for(lambda: first.tasks == EVERYTHING)
            with running(word_count(bootstrap), **exactly) as second:
                wait_for(lambda: len(second.tasks) == 2 and all_tasks(first, second) == EVERYTHING)
                wait_for(lambda: len(first.standby_tasks + second.standby_tasks) == 2)
                say(bootstrap, *["a b c d e f g h"] * 20)
                wanted = dict.fromkeys(LETTERS, 40)
                assert totals(bootstrap, wanted) == wanted
            wait_for(lambda: first.tasks == EVERYTHING)
            say(bootstrap, "a h")
            wanted = {**wanted, "a": 41, "h": 41}
            assert totals(bootstrap, wanted) == wanted
