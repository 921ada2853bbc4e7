"""Applications of Streams on Spark: the tasks' output, and who may run them when."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest
from tests.streams_api.test_process import running

from odradek.client import Admin, Consumer, Producer
from odradek.core.streams.partition_group import Consumed
from odradek.model.topic_partition import TopicPartition
from odradek.streams import App, StreamsError, TestDriver

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("transactions", "spark"),
    pytest.mark.timeout(600),
]
PATIENCE_SECONDS = 120
EXACTLY_ONCE = {"processing_guarantee": "exactly_once_v2", "commit_interval_ms": 50}
LINES = ("to be or not to be", "be quick", "or not") * 20


class Words:
    """A word count on topics of its own, its input, and what it has committed as output."""

    def __init__(self, servers, make_topic, split=str.split):
        self.servers = servers
        self.lines, self.counts = make_topic(partitions=2), make_topic(partitions=2)
        self.said = []
        self.totals = {}
        self.app = App(f"app-of-{self.lines}", servers)
        (
            self.app.stream(self.lines)
            .flat_map_values(lambda line: list(split(line)))
            .group_by(lambda word: word)
            .count(store="counts")
            .to_stream()
            .to(self.counts, value=int)
        )
        places = [(self.counts, partition, 0) for partition in range(2)]
        self.consumer = Consumer(bootstrap_servers=servers, isolation_level="read_committed")
        self.consumer.assign(places)

    def say(self, *lines):
        self.said += lines
        with Producer(bootstrap_servers=self.servers) as producer:
            for line in lines:
                producer.send(self.lines, line.encode())

    def core(self):
        """What the core counts."""
        with TestDriver(self.app) as driver:
            for line in self.said:
                driver.pipe(self.lines, Consumed(0, 0, None, line.encode(), ()))
            return driver.topic(self.counts).read_values()

    def check(self):
        """Read the output until it is that of the core. A total that does not grow is an error."""
        wanted = self.core()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.totals != wanted and time.monotonic() < deadline:
            for record in self.consumer.poll(0.2) or ():
                word, total = record.key.decode(), int.from_bytes(record.value, "big")
                assert total > self.totals.get(word, 0), "a total is written again"
                self.totals[word] = total
        assert self.totals == wanted

    def lags(self):
        """By topic: the records behind the committed offsets."""
        with Admin(bootstrap_servers=self.servers) as admin:
            committed = admin.list_consumer_group_offsets(self.app.application_id)
        ends = self.consumer.end_offsets(*committed)
        return {each: ends[each] - at.offset for each, at in committed.items()}

    def wait_until_all_is_read(self):
        repartition = f"{self.app.application_id}-counts-repartition"
        wanted = {TopicPartition(t, p): 0 for t in (self.lines, repartition) for p in range(2)}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.lags() != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    @contextmanager
    def on_spark(self, **settings):
        """Run it on Spark in another thread. An error there fails the test."""
        runner = self.app.spark_runner(**settings)
        errors = []

        def run():
            try:
                runner.run()
            except Exception as error:  # noqa: BLE001 - raised again below
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            runner.stop()
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        if errors:
            raise errors[0]


@pytest.fixture
def words(servers, make_topic):
    made = Words(servers, make_topic)
    yield made
    made.consumer.close()


@pytest.mark.slow("four micro-batches with new workers, and two processes")
def test_spark_and_processes_take_turns(words, checkpoint):
    words.say(*LINES)
    with words.on_spark(checkpoint=checkpoint):
        words.check()
        words.say(*LINES)
        words.check()
        words.wait_until_all_is_read()
    words.say(*LINES)
    with running(words.app, **EXACTLY_ONCE):
        words.check()
        with pytest.raises(StreamsError, match=r"has 1 member\(s\): the application runs as a"):
            words.app.spark_runner().run()
    words.say(*LINES)
    with words.on_spark(checkpoint=checkpoint):
        words.check()
        words.wait_until_all_is_read()


def test_an_error_names_the_operator_and_the_record(servers, make_topic):
    words = Words(servers, make_topic, split=lambda line: [1 // 0])
    words.say("a line")
    with words.consumer, pytest.raises(StreamsError) as caught:
        words.app.spark_runner().run()
    assert "KSTREAM-FLATMAPVALUES-0000000001" in str(caught.value)
    assert f"{words.lines}-" in str(caught.value)


def test_settings_that_cannot_be_true_on_spark_are_refused(words):
    with pytest.raises(ValueError, match="processing_guarantee is always"):
        words.app.spark_runner(processing_guarantee="at_least_once")
    with pytest.raises(ValueError, match=r"group\.protocol is for processes"):
        words.app.spark_runner(group_protocol="streams")
