"""Builds and runs the topologies of requests with odradek.streams, as the classes in java/ does."""

from __future__ import annotations

from tests.streams_api import functions as fn

from odradek.core.streams.partition_group import Consumed
from odradek.streams import (
    App,
    Hopping,
    Session,
    Sliding,
    Store,
    TestDriver,
    Tumbling,
    Unlimited,
)


def store_of(op):
    if op.get("store") is None:
        return None
    return Store(
        name=op["store"],
        cached=op.get("cached", True),
        logged=op.get("logged", True),
        history=op.get("history"),
    )


def window_of(spec):
    kind, size, grace = spec["kind"], spec["size"], spec["grace"]
    if kind == "tumbling":
        return Tumbling(size, grace)
    if kind == "hopping":
        return Hopping(size, spec["advance"], grace)
    if kind == "sliding":
        return Sliding(size, grace)
    if kind == "session":
        return Session(size, grace)
    return Unlimited(size)


def text_init():
    return ""


def merge_sessions(one, two):
    return fn.tail(fn.text(one) + fn.text(two))


class Builder:
    def __init__(self, app):
        self.app = app
        self.nodes = []

    def add(self, op):
        if op["op"] == "part":
            return
        source = op.get("from")
        if isinstance(source, int):
            source = self.nodes[source]
        elif isinstance(source, list):
            source = [self.nodes[each] for each in source]
        made = getattr(self, "op_" + op["op"])(source, op)
        self.nodes.append(made)

    def op_stream(self, _source, op):
        timestamp = fn.extract if op.get("extractor") else None
        return self.app.stream(*op["topics"], timestamp=timestamp, name=op.get("name"))

    def op_table(self, _source, op):
        return self.app.table(op["topic"], store=store_of(op), name=op.get("name"))

    def op_global(self, _source, op):
        return self.app.global_table(op["topic"], store=store_of(op))

    def op_filter(self, source, op):
        return source.filter(fn.predicate(op["fn"]), name=op.get("name"))

    def op_filter_not(self, source, op):
        return source.filter_not(fn.predicate(op["fn"]), name=op.get("name"))

    def op_map(self, source, op):
        keys, values = fn.key_of(op["fn"]), fn.value_of("v0")
        return source.map(
            lambda key, value: (keys(key, value), values(key, value)),
            key=str,
            value=str,
            name=op.get("name"),
        )

    def op_map_values(self, source, op):
        return source.map_values(fn.value_of(op["fn"]), value=str, name=op.get("name"))

    def op_flat_map(self, source, op):
        values = fn.values_of(op["fn"])
        return source.flat_map(
            lambda key, value: [(each, fn.tail(fn.text(value))) for each in values(key, value)],
            key=str,
            value=str,
        )

    def op_flat_map_values(self, source, op):
        return source.flat_map_values(fn.values_of(op["fn"]), value=str)

    def op_select_key(self, source, op):
        return source.select_key(fn.key_of(op["fn"]), key=str, name=op.get("name"))

    def op_peek(self, source, op):
        return source.peek(lambda key, value: None)

    def op_merge(self, source, op):
        return source[0].merge(source[1], name=op.get("name"))

    def op_split(self, source, op):
        branches = source.split(name=op.get("name"))
        self.nodes.append(branches.branch(fn.predicate("p1"), "one"))
        self.nodes.append(branches.branch(fn.predicate("p2"), "two"))
        return branches.default("rest")

    def op_repartition(self, source, op):
        return source.repartition(name=op.get("name"))

    def op_to(self, source, op):
        return source.to(op["topic"], name=op.get("name"))

    def op_to_table(self, source, op):
        return source.to_table(store=store_of(op), name=op.get("name"))

    def op_group_by(self, source, op):
        return source.group_by(fn.key_of(op["fn"]), key=str, name=op.get("name"))

    def op_group_by_key(self, source, op):
        return source.group_by_key(name=op.get("name"))

    def op_aggregate(self, source, op):
        grouped = source
        window = op.get("window")
        if window is not None:
            grouped = source.windowed_by(window_of(window))
            if op.get("final"):
                grouped = grouped.emit("window closes")
        chosen = {"store": store_of(op), "name": op.get("name")}
        if op["how"] == "count":
            return grouped.count(**chosen)
        if op["how"] == "reduce":
            return grouped.reduce(fn.reducer(op["fn"]), **chosen)
        if window is not None and window["kind"] == "session":
            return grouped.aggregate(text_init, fn.aggregator(op["fn"]), merge_sessions, **chosen)
        return grouped.aggregate(text_init, fn.aggregator(op["fn"]), **chosen)

    def op_cogroup(self, source, op):
        parts = list(zip(source, op["fns"], strict=True))
        cogrouped = parts[0][0].cogroup(fn.aggregator(parts[0][1]))
        for grouped, name in parts[1:]:
            cogrouped = cogrouped.cogroup(grouped, fn.aggregator(name))
        window = op.get("window")
        if window is not None:
            cogrouped = cogrouped.windowed_by(window_of(window))
        merger = merge_sessions if window is not None and window["kind"] == "session" else None
        return cogrouped.aggregate(text_init, merger, store=store_of(op))

    def op_table_filter(self, source, op):
        return source.filter(fn.predicate(op["fn"]), store=store_of(op), name=op.get("name"))

    def op_table_map_values(self, source, op):
        return source.map_values(
            fn.value_of(op["fn"]), value=str, store=store_of(op), name=op.get("name")
        )

    def op_to_stream(self, source, op):
        return source.to_stream(name=op.get("name"))

    def op_suppress(self, source, op):
        until = "window closes" if op["wait"] is None else op["wait"]
        return source.suppress(until, max_records=op.get("max"), name=op.get("name"))

    def op_table_group_by(self, source, op):
        keys, values = fn.key_of(op["fn"]), fn.value_of("v1")
        return source.group_by(
            lambda key, value: (keys(key, value), values(key, value)),
            key=str,
            value=str,
            name=op.get("name"),
        )

    def op_table_aggregate(self, source, op):
        store = store_of(op)
        if op["how"] == "count":
            return source.count(store=store)
        if op["how"] == "reduce":
            minus = fn.reducer("r1")
            return source.reduce(
                fn.reducer(op["fn"]),
                lambda total, value: minus(total, "-" + fn.text(value)),
                store=store,
            )
        subtract = fn.aggregator("a1")
        return source.aggregate(
            text_init,
            fn.aggregator(op["fn"]),
            lambda key, value, total: subtract(key, "-" + fn.text(value), total),
            store=store,
        )

    def op_join_streams(self, source, op):
        from odradek.streams import JoinWindow

        window = JoinWindow(before=op["before"], after=op["after"], grace=op["grace"])
        join = {"inner": "join", "left": "left_join", "outer": "outer_join"}[op["how"]]
        return getattr(source[0], join)(
            source[1],
            fn.joiner(op["fn"]),
            window,
            value=str,
            store=op.get("store"),
            name=op.get("name"),
        )

    def op_join_table(self, source, op):
        join = source[0].join if op["how"] == "inner" else source[0].left_join
        return join(source[1], fn.joiner(op["fn"]), value=str, grace=op.get("grace"))

    def op_join_global(self, source, op):
        join = source[0].join if op["how"] == "inner" else source[0].left_join
        return join(source[1], fn.joiner(op["fn"]), on=fn.key_of(op["mapper"]), value=str)

    def op_join_tables(self, source, op):
        join = {"inner": "join", "left": "left_join", "outer": "outer_join"}[op["how"]]
        return getattr(source[0], join)(
            source[1], fn.joiner(op["fn"]), value=str, store=store_of(op)
        )

    def op_join_foreign(self, source, op):
        join = source[0].join if op["how"] == "inner" else source[0].left_join
        return join(
            source[1], fn.joiner(op["fn"]), on=fn.foreign_key, value=str, store=store_of(op)
        )

    def op_process(self, source, op):
        from tests.streams_api.processors import Counting

        store = op["store"]
        self.app.add_store(store, key=str, value=str)
        return source.process(
            lambda: Counting(store, op["interval"], op["stream_time"]),
            stores=[store],
            key=str,
            value=str,
        )


def build(request):
    settings = request["settings"]
    app = App(
        "app",
        cache_max_bytes=settings["cache"],
        max_task_idle=settings["idle"],
        optimize=settings["optimize"],
        in_memory=settings["in_memory"],
    )
    builder = Builder(app)
    for op in request["topology"]:
        builder.add(op)
    app.topology()
    return app


def encoded(value):
    return None if value is None else value.encode()


def hexadecimal(data):
    return None if data is None else data.hex()


def outputs(driver):
    found = {}
    for name in driver.topics():
        rows = [
            [
                hexadecimal(each.key),
                hexadecimal(each.value),
                each.timestamp,
                [[header, hexadecimal(value)] for header, value in each.headers],
            ]
            for each in driver.topic(name).read_raw()
        ]
        if rows:
            found[name] = rows
    return found


def run(request):
    """Return what the classes in java/ returns."""
    app = build(request)
    answer = {"describe": app.describe(), "steps": []}
    if not request["history"]:
        return answer
    driver = TestDriver(app, emit_interval_ms=request["settings"]["emit"])
    for step in request["history"]:
        if len(step) == 1:
            driver.advance(step[0])
        else:
            topic, key, value, time, headers = step
            record = Consumed(
                0,
                time,
                encoded(key),
                encoded(value),
                tuple((each, each.encode()) for each in headers),
            )
            driver.pipe(topic, record)
        answer["steps"].append(outputs(driver))
    driver.close()
    return answer
