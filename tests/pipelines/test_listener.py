"""The checkpoint and the groups of a query, from objects like those of Spark."""

from __future__ import annotations

from types import SimpleNamespace

from odradek.pipelines.listener import checkpoint_and_groups


class Leaf:
    """A source of a query."""

    def __init__(self, text, **options):
        self._text = text
        self._options = {name.replace("_", "."): value for name, value in options.items()}

    def relation(self):
        return SimpleNamespace(
            options=lambda: SimpleNamespace(asCaseSensitiveMap=lambda: self._options)
        )

    def toString(self):
        return self._text


def query(*leaves):
    plan = SimpleNamespace(
        collectLeaves=lambda: SimpleNamespace(size=lambda: len(leaves), apply=leaves.__getitem__)
    )
    running = SimpleNamespace(
        logicalPlan=lambda: plan, resolvedCheckpointRoot=lambda: "file:/out/checkpoints/words"
    )
    return SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: running))


def test_sources_of_other_formats_have_no_group():
    servers = {"kafka_bootstrap_servers": "b:9092"}
    found = query(
        Leaf("odradek source", subscribe="words", groupId="shouting", **servers),
        Leaf("KafkaV2[Subscribe[odradek.events]]", kafka_sasl_login_class="x", **servers),
        Leaf("rate"),
    )
    spark = SimpleNamespace(streams=SimpleNamespace(get={"id": found}.get))
    assert checkpoint_and_groups(spark, "id") == ("/out/checkpoints/words", ["shouting"])
    assert checkpoint_and_groups(spark, "ended") == (None, [])
