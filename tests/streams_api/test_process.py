"""Applications as processes, with a broker: members come and go, state is restored, nothing is lost."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from odradek.client import Admin, Consumer, Producer
from odradek.streams import App, TopologyError

PATIENCE_SECONDS = 60
SHARED = {("0_0", "1_0"), ("0_1", "1_1")}
"""The tasks of two members: each has the same partitions of all topics."""


def word_count(bootstrap, **settings):
    app = App("word-count", bootstrap, **settings)
    (
        app.stream("lines", value=str)
        .flat_map_values(lambda line: line.lower().split())
        .group_by(lambda word: word)
        .count(store="counts")
        .to_stream()
        .to("word-counts")
    )
    return app


@contextmanager
def running(app, **settings):
    """Run an application in a thread. An error there fails the test."""
    worker = app.worker(**settings)
    errors = []

    def run():
        try:
            worker.run()
        except Exception as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        if errors:
            raise errors[0]


def wait_for(is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def say(bootstrap, *lines):
    with Producer(bootstrap_servers=bootstrap) as producer:
        for line in lines:
            producer.send("lines", line.encode())


def totals(bootstrap, wanted, isolation="read_committed"):
    """Read the output until the totals are as wanted; return them."""
    found = {}
    deadline = time.monotonic() + PATIENCE_SECONDS
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        consumer.assign([("word-counts", partition, 0) for partition in range(2)])
        while found != wanted and time.monotonic() < deadline:
            batch = consumer.poll(0.2)
            for record in batch or ():
                found[record.key.decode()] = int.from_bytes(record.value, "big")
    return found


@pytest.fixture
def bootstrap(odradek_broker):
    with Admin(bootstrap_servers=odradek_broker.bootstrap_servers) as admin:
        admin.create_topic("lines", 2)
        admin.create_topic("word-counts", 2)
    return odradek_broker.bootstrap_servers


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_words_are_counted_and_a_later_process_goes_on(bootstrap, guarantee):
    say(bootstrap, "to be or not to be", "to be")
    with running(
        word_count(bootstrap), processing_guarantee=guarantee, commit_interval_ms=50
    ) as worker:
        assert totals(bootstrap, {"to": 3, "be": 3, "or": 1, "not": 1}) == {
            "to": 3,
            "be": 3,
            "or": 1,
            "not": 1,
        }
        assert worker.tasks == ["0_0", "0_1", "1_0", "1_1"]
    say(bootstrap, "be quick")
    with running(word_count(bootstrap), processing_guarantee=guarantee, commit_interval_ms=50):
        wanted = {"to": 3, "be": 4, "or": 1, "not": 1, "quick": 1}
        assert totals(bootstrap, wanted) == wanted
    with Admin(bootstrap_servers=bootstrap) as admin:
        names = {each.name for each in admin.list_topics()}
    assert {"word-count-counts-changelog", "word-count-counts-repartition"} <= names


def test_offsets_are_committed_after_the_records_that_they_stand_for(bootstrap, monkeypatch):
    unfinished = []
    with running(
        word_count(bootstrap), processing_guarantee="exactly_once_v2", commit_interval_ms=20
    ) as worker:
        producer = worker._producer
        commit = producer.send_offsets_to_transaction

        def observed(offsets, group):
            unfinished.extend(producer._machine.unfinished())
            commit(offsets, group)

        monkeypatch.setattr(producer, "send_offsets_to_transaction", observed)
        say(bootstrap, *["a b c"] * 100)
        wanted = dict.fromkeys("abc", 100)
        assert totals(bootstrap, wanted) == wanted
    assert unfinished == []


def test_what_was_read_of_repartition_topics_is_deleted(bootstrap):
    places = [("word-count-counts-repartition", partition) for partition in range(2)]
    say(bootstrap, "to be or not to be")
    with (
        running(word_count(bootstrap), commit_interval_ms=20, repartition_purge_interval_ms=0),
        Consumer(bootstrap_servers=bootstrap) as consumer,
    ):
        wait_for(lambda: sum(consumer.beginning_offsets(*places).values()) == 6)
        assert sum(consumer.end_offsets(*places).values()) == 6


def test_two_members_share_the_tasks_and_one_takes_over(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 20)
    letters = "abcdefgh"
    with running(word_count(bootstrap), commit_interval_ms=50) as first:
        with running(word_count(bootstrap), commit_interval_ms=50) as second:
            wait_for(lambda: {*map(tuple, (first.tasks, second.tasks))} == SHARED)
            say(bootstrap, *["a b c d e f g h"] * 20)
            wanted = dict.fromkeys(letters, 40)
            assert totals(bootstrap, wanted) == wanted
        say(bootstrap, "a h")
        wanted = {**wanted, "a": 41, "h": 41}
        assert totals(bootstrap, wanted) == wanted


def test_a_missing_topic_is_named(odradek_broker):
    with pytest.raises(TopologyError, match="missing source topics: lines; create them first"):
        word_count(odradek_broker.bootstrap_servers).worker()


def test_a_stream_waits_for_the_rows_of_its_table(odradek_broker):
    """The rows are older, and arrive later: there are many bytes of them, and few of the stream."""
    bootstrap = odradek_broker.bootstrap_servers
    rows, records = 300, 3000
    app = App("prices", bootstrap)
    table = app.table("rows", store="rows")
    joined = app.stream("records").join(table, lambda left, right: left + right[:1])
    joined.to("joined")
    with Admin(bootstrap_servers=bootstrap) as admin:
        for topic in ("rows", "records", "joined"):
            admin.create_topic(topic, 1)
    now = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=bootstrap, compression_type="none") as producer:
        for key in range(rows):
            producer.send("rows", b"r" * 20_000, key=b"%d" % key, timestamp=now - 1000)
        for number in range(records):
            producer.send("records", b"s", key=b"%d" % (number % rows), timestamp=now)
    found = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    with (
        running(app, commit_interval_ms=50, fetch_max_bytes=100_000),
        Consumer(bootstrap_servers=bootstrap) as consumer,
    ):
        consumer.assign([("joined", 0, 0)])
        while found < records and time.monotonic() < deadline:
            found += len(consumer.poll(0.2) or ())
    assert found == records
