"""Random topologies and histories. A topology has a few operators in a row, of a family or of several.

Types are followed: a node has the kind (stream, table, grouped, gtable, global), the key ("s" for text,
"w" for windowed) and the value ("s" for text, "l" for a count).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

FAMILIES = (
    "stateless",
    "aggregate",
    "cogroup",
    "window",
    "sliding",
    "session",
    "unlimited",
    "final",
    "suppress",
    "table",
    "table_aggregate",
    "join_streams",
    "join_table",
    "join_global",
    "join_tables",
    "join_foreign",
    "versioned",
    "process",
)


@dataclass
class Node:
    place: int
    kind: str
    key: str = "s"
    value: str = "s"
    windowed: bool = False
    """Whether `suppress` finds windows before it."""
    versioned: bool = False


class Generator:
    def __init__(self, seed, family=None):
        self.draw = random.Random(seed)
        self.family = family or FAMILIES[seed % len(FAMILIES)]
        self.ops = []
        self.topics = []
        self.sinks = 0
        self.names = 0
        self.is_final = False

    def request(self):
        draw = self.draw
        settings = {
            "cache": draw.choice([0, 0, 0, 10_000_000, 10_000_000, 60, 150]),
            "idle": draw.choice([0, 0, 0, 0, 5]),
            "emit": draw.choice([0, 0, 7]),
            "optimize": draw.choice(["none", "none", "none", "all"]),
            "in_memory": True,
        }
        self.settings = settings
        node = self.start()
        for _ in range(draw.randint(0, 3)):
            following = self.follow(node)
            if following is None:
                break
            node = following
        self.finish(node)
        if self.is_final:
            settings["in_memory"] = False
            settings["cache"] = 0
        return {"settings": settings, "topology": self.ops, "history": self.history()}

    # Operators

    def op(self, kind, op, key=None, value=None, like=None, **fields):
        if fields.get("store") is None and "store" in fields:
            del fields["store"]
        self.ops.append({"op": op, **fields})
        node = Node(len(self.ops) - 1, kind)
        if like is not None:
            node.key, node.value = like.key, like.value
            node.windowed, node.versioned = like.windowed, like.versioned
        if key is not None:
            node.key = key
        if value is not None:
            node.value = value
        return node

    def maybe_name(self):
        if self.draw.random() < 0.15:
            self.names += 1
            return {"name": f"n{self.names}"}
        return {}

    def maybe_store(self, chance=0.4):
        if self.draw.random() >= chance:
            return {}
        self.names += 1
        fields = {"store": f"s{self.names}"}
        if self.draw.random() < 0.15:
            fields["cached"] = False
        if self.draw.random() < 0.1:
            fields["logged"] = False
        return fields

    def topic(self):
        name = f"t{len(self.topics)}"
        self.topics.append(name)
        return name

    def stream(self):
        draw = self.draw
        count = 2 if draw.random() < 0.1 else 1
        fields = {"extractor": True} if draw.random() < 0.08 else {}
        topics = [self.topic() for _ in range(count)]
        return self.op("stream", "stream", topics=topics, **fields, **self.maybe_name())

    def table(self, versioned=False):
        if versioned:
            self.names += 1
            node = self.op(
                "table",
                "table",
                topic=self.topic(),
                store=f"s{self.names}",
                history=self.draw.choice([10, 30, 100]),
            )
            node.versioned = True
            return node
        return self.op(
            "table", "table", topic=self.topic(), **self.maybe_store(), **self.maybe_name()
        )

    def grouped(self, stream=None):
        draw = self.draw
        stream = stream or self.spread(self.stream())
        if stream.key == "s" and draw.random() < 0.5:
            return self.op(
                "grouped",
                "group_by_key",
                like=stream,
                type=stream.value,
                **{"from": stream.place},
                **self.maybe_name(),
            )
        return self.op(
            "grouped",
            "group_by",
            key="s",
            value=stream.value,
            type=stream.value,
            fn=draw.choice(["k0", "k1", "k2", "k3"]),
            **{"from": stream.place},
            **self.maybe_name(),
        )

    def spread(self, stream):
        """Sometimes, make several records of one, which meet in a cache."""
        if self.draw.random() < 0.7:
            return stream
        fn = self.draw.choice(["f0", "f0", "f1"])
        at = {"from": stream.place}
        return self.op("stream", "flat_map", key="s", value="s", fn=fn, **at)

    def window(self, kind):
        draw = self.draw
        size = draw.choice([5, 10, 20])
        spec = {"kind": kind, "size": size, "grace": draw.choice([0, 0, 5, 20, 100])}
        if kind == "hopping":
            spec["advance"] = draw.choice([each for each in (2, 3, 5, 10) if each <= size])
        if kind == "unlimited":
            spec["size"] = draw.choice([0, 10])
        return spec

    def aggregate(self, grouped, window=None, final=False):
        draw = self.draw
        hows = ["count", "aggregate"] if grouped.value == "l" else ["count", "reduce", "aggregate"]
        how = draw.choice(hows)
        fields = {"how": how, "window": window}
        if how == "reduce":
            fields["fn"] = draw.choice(["r0", "r1"])
        elif how == "aggregate":
            fields["fn"] = draw.choice(["a0", "a1", "a2"])
        if final:
            fields["final"] = True
            self.is_final = True
        named = self.maybe_name() if window is None else {}
        if named and how != "count":
            named = {}
        node = self.op(
            "table",
            "aggregate",
            key="s" if window is None else "w",
            value="l" if how == "count" else "s",
            **fields,
            **{"from": grouped.place},
            **self.maybe_store(),
            **named,
        )
        node.windowed = window is not None and window["kind"] != "unlimited" and not final
        return node

    def start(self):
        return getattr(self, "start_" + self.family)()

    def start_stateless(self):
        node = self.stream()
        for _ in range(self.draw.randint(1, 3)):
            node = self.stateless(node)
        return node

    def start_aggregate(self):
        return self.aggregate(self.grouped())

    def start_cogroup(self):
        draw = self.draw
        parts = [self.grouped() for _ in range(draw.randint(2, 3))]
        kinds = [None, None, "tumbling", "hopping", "sliding", "session"]
        kind = draw.choice(kinds)
        window = None if kind is None else self.window(kind)
        return self.op(
            "table",
            "cogroup",
            key="s" if window is None else "w",
            fns=[draw.choice(["a0", "a1", "a2"]) for _ in parts],
            window=window,
            **{"from": [part.place for part in parts]},
            **self.maybe_store(),
        )

    def start_window(self):
        kind = self.draw.choice(["tumbling", "hopping"])
        return self.aggregate(self.grouped(), self.window(kind))

    def start_sliding(self):
        return self.aggregate(self.grouped(), self.window("sliding"))

    def start_session(self):
        return self.aggregate(self.grouped(), self.window("session"))

    def start_unlimited(self):
        return self.aggregate(self.grouped(), self.window("unlimited"))

    def start_final(self):
        kind = self.draw.choice(["tumbling", "hopping", "sliding", "session"])
        return self.aggregate(self.grouped(), self.window(kind), final=True)

    def start_suppress(self):
        draw = self.draw
        if draw.random() < 0.6:
            kind = draw.choice(["tumbling", "hopping", "sliding", "session"])
            node = self.aggregate(self.grouped(), self.window(kind))
        else:
            node = self.any_table()
        return self.suppress(node)

    def suppress(self, node):
        draw = self.draw
        wait = None if node.windowed and draw.random() < 0.7 else draw.choice([0, 5, 20])
        fields = {"wait": wait}
        if wait is not None and draw.random() < 0.3:
            fields["max"] = draw.randint(1, 3)
        made = self.op(
            "table", "suppress", like=node, **fields, **{"from": node.place}, **self.maybe_name()
        )
        made.windowed = False
        return made

    def any_table(self):
        if self.draw.random() < 0.6:
            return self.table()
        return self.aggregate(self.grouped())

    def start_table(self):
        return self.any_table()

    def start_table_aggregate(self):
        return self.table_aggregate(self.any_table())

    def table_aggregate(self, node):
        draw = self.draw
        grouped = self.op(
            "gtable",
            "table_group_by",
            key="s",
            value="s",
            fn=draw.choice(["k0", "k1", "k2", "k3"]),
            **{"from": node.place},
            **self.maybe_name(),
        )
        how = draw.choice(["count", "reduce", "aggregate"])
        fields = {"how": how}
        if how == "reduce":
            fields["fn"] = draw.choice(["r0", "r1"])
        elif how == "aggregate":
            fields["fn"] = draw.choice(["a0", "a1", "a2"])
        return self.op(
            "table",
            "table_aggregate",
            key="s",
            value="l" if how == "count" else "s",
            **fields,
            **{"from": grouped.place},
            **self.maybe_store(),
        )

    def start_join_streams(self):
        one, two = self.stream(), self.stream()
        if self.draw.random() < 0.3:
            one = self.stateless(one)
        if self.draw.random() < 0.3:
            two = self.stateless(two)
        return self.join_streams(one, two)

    def join_streams(self, one, two):
        draw = self.draw
        fields = {"store": f"j{len(self.ops)}"} if draw.random() < 0.2 else {}
        return self.op(
            "stream",
            "join_streams",
            fn=draw.choice(["j0", "j0", "j1"]),
            how=draw.choice(["inner", "left", "left", "outer", "outer"]),
            before=draw.choice([0, 3, 10]),
            after=draw.choice([0, 3, 10]),
            grace=draw.choice([0, 3, 20]),
            **{"from": [one.place, two.place]},
            **fields,
            **self.maybe_name(),
        )

    def start_join_table(self):
        stream = self.stream()
        if self.draw.random() < 0.3:
            stream = self.stateless(stream)
        table = self.any_table()
        return self.join_table(stream, table)

    def join_table(self, stream, table, grace=None):
        draw = self.draw
        fields = {} if grace is None else {"grace": grace}
        return self.op(
            "stream",
            "join_table",
            value="s",
            fn=draw.choice(["j0", "j1"]),
            how=draw.choice(["inner", "left"]),
            **{"from": [stream.place, table.place]},
            **fields,
        )

    def start_join_global(self):
        draw = self.draw
        table = self.op("global", "global", topic=self.topic(), **self.maybe_store())
        stream = self.stream()
        return self.op(
            "stream",
            "join_global",
            fn=draw.choice(["j0", "j1"]),
            how=draw.choice(["inner", "left"]),
            mapper=draw.choice(["k0", "k2", "k3"]),
            **{"from": [stream.place, table.place]},
        )

    def start_join_tables(self):
        node = self.join_tables(self.any_table(), self.any_table())
        if self.draw.random() < 0.3:
            node = self.join_tables(node, self.any_table())
        return node

    def join_tables(self, one, two):
        draw = self.draw
        return self.op(
            "table",
            "join_tables",
            value="s",
            fn=draw.choice(["j0", "j0", "j1"]),
            how=draw.choice(["inner", "left", "outer"]),
            **{"from": [one.place, two.place]},
            **self.maybe_store(),
        )

    def start_join_foreign(self):
        draw = self.draw
        one, two = self.any_table(), self.any_table()
        return self.op(
            "table",
            "join_foreign",
            value="s",
            fn=draw.choice(["j0", "j0", "j1"]),
            how=draw.choice(["inner", "left"]),
            **{"from": [one.place, two.place]},
            **self.maybe_store(),
        )

    def start_versioned(self):
        draw = self.draw
        table = self.table(versioned=True)
        choice = draw.randrange(4)
        if choice == 0:
            return self.table_step(table)
        if choice == 1:
            return self.table_aggregate(table)
        if choice == 2:
            other = self.table(versioned=draw.random() < 0.5)
            return self.join_tables(table, other)
        grace = draw.choice([None, 0, 5, 10])
        return self.join_table(self.stream(), table, grace)

    def start_process(self):
        return self.process(self.stream())

    def process(self, node):
        draw = self.draw
        self.names += 1
        return self.op(
            "stream",
            "process",
            key="s",
            value="s",
            store=f"p{self.names}",
            interval=draw.choice([3, 7, 20]),
            stream_time=draw.random() < 0.6,
            **{"from": node.place},
        )

    # What comes behind

    def follow(self, node):
        if node.kind == "table":
            return self.table_step(node)
        return self.stream_step(node)

    def table_step(self, node):
        draw = self.draw
        choice = draw.random()
        at = {"from": node.place}
        if choice < 0.25:
            return self.op(
                "table",
                "table_filter",
                like=node,
                fn=draw.choice(["p0", "p1", "p2"]),
                **at,
                **(self.maybe_store(0.3) if node.key + node.value == "ss" else {}),
            )
        if choice < 0.45:
            return self.op(
                "table",
                "table_map_values",
                like=node,
                value="s",
                fn=draw.choice(["v0", "v1", "v2"]),
                **at,
                **(self.maybe_store(0.3) if node.key == "s" else {}),
            )
        if choice < 0.6 and not node.versioned:
            return self.suppress(node)
        if choice < 0.75:
            return self.table_aggregate(node)
        if choice < 0.85 and node.key == "s":
            return self.join_tables(node, self.any_table())
        return self.op(
            "stream", "to_stream", key=node.key, value=node.value, **at, **self.maybe_name()
        )

    def stream_step(self, node):
        draw = self.draw
        choice = draw.random()
        if choice < 0.5:
            return self.stateless(node)
        if choice < 0.7:
            grouped = self.grouped(node)
            if draw.random() < 0.5:
                return self.aggregate(grouped)
            kind = draw.choice(["tumbling", "hopping", "sliding", "session"])
            return self.aggregate(grouped, self.window(kind))
        if node.key != "s" or node.value != "s":
            return self.stateless(node)
        if choice < 0.8:
            return self.join_streams(node, self.stream())
        if choice < 0.85:
            return self.join_table(node, self.any_table())
        if choice < 0.9:
            return self.process(node)
        return self.op("table", "to_table", **{"from": node.place}, **self.maybe_store())

    def stateless(self, node):
        draw = self.draw
        at = {"from": node.place}
        name = self.maybe_name()
        choices = ["filter", "filter_not", "map", "map_values", "select_key", "peek", "flat_map"]
        choices.append("flat_map_values")
        if node.key == "s" and node.value == "s":
            choices += ["merge", "split", "repartition"]
        choice = draw.choice(choices)
        if choice in ("filter", "filter_not"):
            return self.op(
                "stream", choice, like=node, fn=draw.choice(["p0", "p1", "p2"]), **at, **name
            )
        if choice == "map":
            fn = draw.choice(["k0", "k1", "k2", "k3"])
            return self.op("stream", "map", key="s", value="s", fn=fn, **at, **name)
        if choice == "map_values":
            fn = draw.choice(["v0", "v1", "v2"])
            return self.op("stream", "map_values", like=node, value="s", fn=fn, **at, **name)
        if choice == "select_key":
            fn = draw.choice(["k0", "k1", "k2", "k3"])
            return self.op("stream", choice, key="s", value=node.value, fn=fn, **at, **name)
        if choice == "peek":
            return self.op("stream", "peek", like=node, **at)
        if choice == "flat_map":
            fn = draw.choice(["f0", "f1"])
            return self.op("stream", choice, key="s", value="s", fn=fn, **at)
        if choice == "flat_map_values":
            fn = draw.choice(["f0", "f1"])
            return self.op("stream", choice, like=node, value="s", fn=fn, **at)
        if choice == "merge":
            other = self.stream()
            if draw.random() < 0.5:
                other = self.stateless(other)
                if other.key != "s" or other.value != "s":
                    return other
            return self.op("stream", "merge", **{"from": [node.place, other.place]}, **name)
        if choice == "split":
            self.ops.append({"op": "split", **at, **name})
            return self.split_end()
        return self.op("stream", "repartition", like=node, **at, **name)

    def split_end(self):
        """A split has three places: both branches, then the rest."""
        place = len(self.ops) - 1
        self.ops += [{"op": "part"}, {"op": "part"}]
        branches = [Node(place + number, "stream") for number in range(3)]
        self.draw.shuffle(branches)
        for each in branches[1:]:
            self.sink(each)
        return branches[0]

    def sink(self, node):
        self.sinks += 1
        self.ops.append({"op": "to", "from": node.place, "topic": f"out{self.sinks}"})

    def finish(self, node):
        if node.kind == "table":
            node = self.op(
                "stream", "to_stream", key=node.key, value=node.value, **{"from": node.place}
            )
        self.sink(node)

    # The history

    def history(self):
        draw = self.draw
        time = draw.choice([0, 0, 3, 50])
        steps = []
        for _ in range(draw.randint(5, 50)):
            if draw.random() < 0.08:
                steps.append([draw.choice([1, 5, 20])])
                continue
            time += draw.choice([0, 0, 1, 1, 2, 3, 5, 12, 40]) if draw.random() < 0.9 else 90
            late = draw.choice([0, 0, 0, 1, 3, 8, 25, 60])
            key = None if draw.random() < 0.05 else draw.choice("aabbc")
            value = None if draw.random() < 0.12 else draw.choice("abcdefgh") * draw.randint(1, 2)
            if value is not None and draw.random() < 0.3:
                value += draw.choice("xyz")
            elif value is not None and draw.random() < 0.2:
                value = value[0] + draw.choice("abc") + value[0]
            headers = ["h"] if draw.random() < 0.1 else []
            steps.append([draw.choice(self.topics), key, value, max(0, time - late), headers])
        return steps


def generate(seed, family=None):
    """Return the request of a seed."""
    return Generator(seed, family).request()
