"""Records that cannot be decoded or processed: the application stops, or skips them."""

from __future__ import annotations

import pytest

from odradek.core.streams.partition_group import Consumed
from odradek.core.streams.task import Task
from odradek.streams import App, ProcessingError, StreamsError, TestDriver


def halves(**settings):
    app = App("app", key=str, **settings)
    app.stream("in", value=int).map_values(lambda number: 100 // number, value=int).to("out")
    return app


def raw(value, time=7, headers=()):
    return Consumed(0, time, b"a", value, headers)


NUMBER = bytes(7) + b"\x05"
ZERO = bytes(8)


def test_an_error_of_a_function_stops_the_application():
    with TestDriver(halves()) as driver, pytest.raises(ProcessingError, match="in-0 offset 0"):
        driver.pipe("in", raw(ZERO))


def test_an_undecodable_record_stops_the_application():
    with TestDriver(halves()) as driver, pytest.raises(StreamsError, match="cannot decode in-0"):
        driver.pipe("in", raw(b"short"))


def test_skipped_records_are_counted_and_go_to_the_topic_of_dead_letters():
    app = halves(on_undecodable="skip", on_error="skip", dead_letters="failed")
    with TestDriver(app) as driver:
        driver.pipe("in", raw(ZERO, headers=(("id", b"1"),)))
        driver.pipe("in", raw(b"short", time=8))
        driver.pipe("in", raw(NUMBER))
        assert driver.topic("out").read() == [("a", 20, 7)]
        assert driver.dropped() == {"errors": 1, "undecodable records": 1}
        one, two = driver.topic("failed").read_raw()
    assert (one.key, one.value, one.timestamp) == (b"a", ZERO, 7)
    headers = dict(one.headers)
    assert headers.pop("id") == b"1"
    assert b"100 // number" in headers.pop("__streams.errors.stacktrace")
    assert headers == {
        "__streams.errors.exception": b"builtins.ZeroDivisionError",
        "__streams.errors.message": b"integer division or modulo by zero",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"0",
        "__streams.errors.offset": b"0",
    }
    assert (two.key, two.value, two.timestamp) == (b"a", b"short", 8)
    assert dict(two.headers)["__streams.errors.offset"] == b"1"


def test_without_topic_skipped_records_are_only_counted():
    with TestDriver(halves(on_error="skip")) as driver:
        driver.pipe("in", raw(ZERO))
        assert driver.dropped() == {"errors": 1}
        assert driver.topics() == []


def test_a_function_decides():
    seen = []

    def decide(failure):
        seen.append((failure.node, failure.record.offset, failure.value))
        return "skip" if failure.record.offset == 0 else "fail"

    with TestDriver(halves(on_error=decide)) as driver:
        driver.pipe("in", raw(ZERO))
        with pytest.raises(ProcessingError):
            driver.pipe("in", raw(ZERO))
    node = "KSTREAM-MAPVALUES-0000000001"
    assert seen == [(node, 0, ZERO), (node, 1, ZERO)]


def test_an_error_of_a_processor_is_skipped():
    app = App("app", on_error="skip", dead_letters="failed")

    def broken(record, context):
        raise ValueError(record.value)

    app.stream("in").process(broken).to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe("a", "b", at=3)
        (record,) = driver.topic("failed").read_raw()
    assert (record.key, record.value) == (b"a", b"b")


@pytest.mark.parametrize("values", ["bn", "bbn", "bb", "nb", "nbbn", "nbnb"])
def test_a_dead_letter_is_committed_together_with_the_offset_behind_its_record(values):
    """Otherwise a failure between them writes the letter again."""
    app = halves(on_undecodable="skip", dead_letters="failed")
    topology = app.topology()
    task = Task(topology, topology.nodes, 0, 0, app.task_settings())
    task.set_lag("in", 0, 0)
    task.start(0)
    records = [
        Consumed(offset, 7, b"a", {"b": b"short", "n": NUMBER}[each], ())
        for offset, each in enumerate(values)
    ]
    letters = []

    def check():
        for produced in task.take_output():
            if produced.topic == "failed":
                offset = int(dict(produced.headers)["__streams.errors.offset"])
                letters.append(offset)
                assert task.positions["in", 0] > offset
                assert task.needs_commit
        task.commit(0)

    for record in records[:2], records[2:]:
        task.add("in", 0, record)
        check()
    while task.step(0):
        check()
    assert letters == [offset for offset, each in enumerate(values) if each == "b"]
    assert task.positions["in", 0] == len(values)


def test_another_answer_is_refused():
    with pytest.raises(ValueError, match="ignore"):
        App("app", on_error="ignore")
