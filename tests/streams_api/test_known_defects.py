"""Cases in which versions of Kafka Streams gave wrong results. Each has the number of its issue."""

from __future__ import annotations

from contextlib import contextmanager

from odradek.streams import (
    App,
    Hopping,
    JoinWindow,
    Session,
    Sliding,
    Store,
    TestDriver,
    Tumbling,
)


def joined(left, right):
    return f"{left}-{right}"


@contextmanager
def driver_of(build, **settings):
    app = App("app", key=str, value=str, **{"cache_max_bytes": 0, **settings})
    build(app)
    with TestDriver(app) as driver:
        yield driver


def pipe(driver, *records):
    """Pipe records: topic, key, value, time."""
    for topic, key, value, time in records:
        driver.topic(topic).pipe(key, value, at=time)


def results(driver, topic="out"):
    return [tuple(each) for each in driver.topic(topic).read()]


def stream_join(how, window):
    def build(app):
        getattr(app.stream("left"), how)(app.stream("right"), joined, window).to("out")

    return build


def foreign_join(how):
    """Rows of the left table are `foreign key:value`, or have no foreign key."""

    def build(app):
        left, right = app.table("left"), app.table("right")
        on = lambda row: row.split(":")[0] if ":" in row else None  # noqa: E731
        getattr(left, how)(right, joined, on=on).to_stream().to("out")

    return build


def test_kafka_10847_a_left_join_gives_no_null_before_the_window_closes():
    with driver_of(stream_join("left_join", JoinWindow(10))) as driver:
        pipe(driver, ("left", "a", "x", 0), ("right", "a", "y", 5))
        assert results(driver) == [("a", "x-y", 5)]
        pipe(driver, ("left", "b", "z", 6), ("left", "c", "w", 17))
        driver.advance(1000)
        pipe(driver, ("left", "c", "w", 40))
        assert results(driver) == [("b", "z-None", 6), ("c", "w-None", 17)]


def test_kafka_15417_the_wait_for_a_partner_is_that_of_its_own_side():
    window = JoinWindow(before=10, after=0)
    with driver_of(stream_join("outer_join", window)) as driver:
        pipe(driver, ("left", "a", "x", 100), ("right", "b", "y", 100))
        pipe(driver, ("left", "c", "w", 105))
        assert results(driver) == [("a", "x-None", 100)]
        pipe(driver, ("left", "b", "z", 108))
        assert results(driver) == [("b", "z-y", 108)]


def test_kafka_16394_a_deletion_is_sent_once_by_a_foreign_key_left_join():
    with driver_of(foreign_join("left_join")) as driver:
        pipe(driver, ("right", "f", "r", 0), ("left", "a", "f:1", 1), ("left", "a", None, 2))
        assert results(driver) == [("a", "f:1-r", 1), ("a", None, 2)]
        pipe(driver, ("right", "g", "s", 3), ("left", "a", "f:1", 4), ("left", "a", "g:1", 5))
        assert results(driver) == [("a", "f:1-r", 4), ("a", "g:1-s", 5)]


def test_kafka_16407_a_foreign_key_becomes_null_and_comes_back():
    with driver_of(foreign_join("join")) as driver:
        pipe(driver, ("right", "f", "r", 0), ("left", "a", "f:1", 1), ("left", "a", "none", 2))
        pipe(driver, ("left", "a", "f:2", 3))
        assert results(driver) == [("a", "f:1-r", 1), ("a", None, 2), ("a", "f:2-r", 3)]


def test_kafka_16434_a_row_of_an_inner_join_ends_when_its_foreign_key_finds_nothing():
    with driver_of(foreign_join("join")) as driver:
        pipe(driver, ("right", "f", "r", 0), ("left", "a", "f:1", 1), ("left", "a", "g:1", 2))
        assert results(driver) == [("a", "f:1-r", 1), ("a", None, 2)]


def test_kafka_18713_a_changed_foreign_key_of_a_left_join_has_one_result():
    with driver_of(foreign_join("left_join")) as driver:
        pipe(driver, ("right", "f", "r", 0), ("left", "a", "f:1", 1), ("left", "a", "g:1", 2))
        assert results(driver) == [("a", "f:1-r", 1), ("a", "g:1-None", 2)]


def test_kafka_9244_the_old_foreign_key_has_no_subscription_any_more():
    with driver_of(foreign_join("join")) as driver:
        pipe(driver, ("right", "f", "r", 0), ("right", "g", "s", 0))
        pipe(driver, ("left", "a", "f:1", 1), ("left", "a", "g:1", 2))
        assert results(driver) == [("a", "f:1-r", 1), ("a", "g:1-s", 2)]
        pipe(driver, ("right", "f", "changed", 3))
        assert results(driver) == []


def test_kafka_9500_the_result_of_a_foreign_key_join_without_store_joins():
    def build(app):
        left, right, third = app.table("left"), app.table("right"), app.table("third")
        inner = left.join(right, joined, on=lambda row: row.split(":")[0])
        inner.join(third, joined).to_stream().to("out")

    with driver_of(build) as driver:
        pipe(driver, ("left", "a", "f:1", 0), ("right", "f", "r", 1), ("third", "a", "t", 2))
        assert results(driver) == [("a", "f:1-r-t", 2)]
        pipe(driver, ("right", "f", "s", 3), ("third", "a", "u", 4))
        assert results(driver) == [("a", "f:1-s-t", 3), ("a", "f:1-s-u", 4)]


class Numbered:
    """Values whose bytes depend on the call, as those of some schema registries' serdes do."""

    def __init__(self):
        self.calls = 0

    def encode(self, value):
        return None if value is None else str(value).encode()

    def decode(self, data):
        return None if data is None else data.decode()


def test_ksql_8528_the_key_of_a_foreign_key_join_is_encoded_by_its_own_type():
    def build(app):
        left = app.table("left", key=int, value=str)
        right = app.table("right", key=Numbered(), value=str)
        left.join(right, joined, on=lambda row: row.split(":")[0]).to_stream().to("out")

    with driver_of(build) as driver:
        pipe(driver, ("right", "f", "r", 0), ("left", 7, "f:1", 1), ("right", "f", "s", 2))
        assert results(driver) == [(7, "f:1-r", 1), (7, "f:1-s", 2)]


def test_kafka_8289_the_end_of_a_session_is_inside_and_suppress_waits_for_gap_and_grace():
    def build(app):
        counts = app.stream("in").group_by_key().windowed_by(Session(10, grace=5)).count()
        counts.suppress("window closes").to_stream(lambda window, _count: window.key, key=str).to(
            "out"
        )

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "x", 0), ("in", "a", "y", 10), ("in", "b", "x", 24))
        assert results(driver) == []
        pipe(driver, ("in", "b", "x", 25))
        assert results(driver) == [("a", 2, 10)]


def test_kafka_7895_suppress_behind_a_cache_gives_one_result_for_each_window():
    def build(app):
        counts = app.stream("in").group_by_key().windowed_by(Tumbling(10)).count()
        counts.suppress("window closes").to_stream(lambda window, _count: window.key, key=str).to(
            "out"
        )

    with driver_of(build, cache_max_bytes=10_000_000) as driver:
        pipe(driver, *(("in", "a", "x", time) for time in range(25)))
        assert results(driver) == [("a", 10, 9), ("a", 10, 19)]


def test_kafka_13739_sliding_windows_without_grace_take_records_in_order():
    def build(app):
        counts = app.stream("in").group_by_key().windowed_by(Sliding(10)).count()
        counts.to_stream(lambda window, _count: f"{window.start}", key=str).to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "x", 20), ("in", "a", "y", 25))
        assert results(driver) == [("10", 1, 20), ("21", 1, 25), ("15", 2, 25)]


def test_kafka_5636_early_records_out_of_order_have_their_sliding_windows():
    def build(app):
        table = app.stream("in").group_by_key().windowed_by(Sliding(10, grace=50))
        table.aggregate(str, lambda total, value: "".join(sorted(total + value))).to_stream(
            lambda window, _count: f"{window.start}", key=str
        ).to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "c", 6), ("in", "a", "a", 2), ("in", "a", "b", 4))
        last = {key: value for key, value, _ in results(driver)}
        assert last == {"0": "abc", "3": "bc", "5": "c"}


def buffered_join(app):
    prices = app.table("prices", store=Store(name="prices", history=1000))
    app.stream("in").join(prices, joined, grace=10).to("out")


def test_kafka_14936_records_that_wait_for_a_table_come_in_order_after_a_restart():
    with driver_of(buffered_join) as driver:
        pipe(driver, ("prices", "a", "1", 0), ("in", "a", "x", 105), ("in", "a", "y", 100))
        assert results(driver) == []
        name = next(
            topic for topic in driver.topics() if "Buffer" in topic or "buffer" in topic.lower()
        )
        changelog = driver.topic(name).read_raw()
    store = name.removeprefix("app-").removesuffix("-changelog")
    with driver_of(buffered_join) as driver:
        for record in changelog:
            driver.store(store).restore(record.key, record.value, record.timestamp)
        pipe(driver, ("prices", "a", "1", 0), ("in", "b", "z", 112))
        assert results(driver) == [("a", "y-1", 100)]


def test_kafka_14834_a_late_record_behind_a_tombstone_is_not_the_latest():
    def build(app):
        table = app.table("in", store=Store(name="rows", history=100))
        table.group_by(lambda _key, row: ("all", row)).count().to_stream().to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "x", 10), ("in", "a", None, 20), ("in", "a", "late", 15))
        assert results(driver) == [("all", 1, 10), ("all", 0, 20)]
        assert driver.store("rows").get("a") is None
        assert driver.store("rows").get("a", 17) == ("late", 15)


def test_kafka_6398_a_join_behind_a_cache_sees_the_row():
    def build(app):
        counts = app.table("rows").map_values(str.upper, store=Store(name="upper"))
        counts.join(app.table("other", store="other"), joined).to_stream().to("out")

    with driver_of(build, cache_max_bytes=10_000_000) as driver:
        pipe(driver, ("rows", "a", "x", 0), ("other", "a", "y", 1), ("rows", "a", "z", 2))
        assert results(driver) == [("a", "X-y", 1), ("a", "Z-y", 2)]


def test_kafka_16046_the_changelog_of_a_join_has_the_records_bytes():
    with driver_of(stream_join("join", JoinWindow(10))) as driver:
        pipe(driver, ("left", "a", "x", 3))
        name = next(topic for topic in driver.topics() if topic.endswith("changelog"))
        (record,) = driver.topic(name).read_raw()
        assert (record.key, record.value) == (b"a" + bytes(7) + b"\x03" + b"\0\0\0\1", b"x")


def test_kip_904_an_update_within_a_group_has_no_wrong_total_between():
    def build(app):
        rows = app.table("in", value=int).group_by(lambda _key, amount: ("all", amount))
        rows.reduce(
            lambda total, amount: total + amount, lambda total, amount: total - amount
        ).to_stream().to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", 5, 0), ("in", "b", 7, 1), ("in", "a", 6, 2))
        assert results(driver) == [("all", 5, 0), ("all", 12, 1), ("all", 13, 2)]


def test_hopping_windows_overlap():
    def build(app):
        counts = app.stream("in").group_by_key().windowed_by(Hopping(10, 5)).count()
        counts.to_stream(lambda window, _count: f"{window.start}", key=str).to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "x", 12))
        assert results(driver) == [("5", 1, 12), ("10", 1, 12)]


def test_final_sessions_with_one_end_are_sent_by_start():
    def build(app):
        counts = app.stream("in").group_by_key().windowed_by(Session(5, grace=0))
        counts.emit("window closes").count().to_stream(lambda window: window.key).to(
            "out", value=int
        )

    with driver_of(build) as driver:
        pipe(driver, ("in", "b", "x", 5), ("in", "b", "x", 8), ("in", "a", "x", 8))
        driver.advance("2s")  # windows are looked for once a second
        pipe(driver, ("in", "c", "x", 100))
        assert [key for key, _, _ in results(driver)] == ["b", "a"]


def test_a_session_without_aggregate_moves_the_time_on():
    def aggregate(_, value, total):
        return None if value == "none" else total + value

    def build(app):
        sessions = app.stream("in").group_by_key().windowed_by(Session(5, grace=0))
        table = sessions.aggregate(lambda: "", aggregate, lambda _, one, two: one + two)
        table.to_stream(lambda window: window.key).to("out")

    with driver_of(build) as driver:
        pipe(driver, ("in", "a", "none", 5), ("in", "a", "x", 0), ("in", "a", "y", 0))
        assert [value for _, value, _ in results(driver)][-1] == "y"  # "x" has expired
