"""Brokers with several log directories report where their replicas are, and which are lost."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from odradek.node.metrics import families

from .cluster import cluster

pytestmark = pytest.mark.cluster


def test_the_controller_moves_leaders_away_from_a_failed_directory(tmp_path) -> None:
    async def scenario() -> None:
        roles = {1: "controller", 11: "broker", 12: "broker"}
        settings = {"log_dirs": "{node}/a,{node}/b", "min_insync_replicas": "1"}
        async with cluster(tmp_path, roles, **settings) as nodes:
            # 12 leads two neighbouring partitions in turn, so it leads in each of its directories.
            assignments = [(11, 12), (11, 12), (12, 11), (12, 11)] * 2
            await nodes.create(11, "a", assignments=assignments)
            brokers = {each.config.node_id: each for each in nodes.brokers()}

            def partitions():
                return nodes.nodes[1].controller.image.topics.by_name["a"].partitions.values()

            known = {
                node_id: {each.id for each in node.broker.logs.directories}
                for node_id, node in brokers.items()
            }
            await nodes.until(
                lambda: all(
                    set(each.replicas) == {11, 12}
                    and all(each.directory(node_id) in known[node_id] for node_id in known)
                    for each in partitions()
                )
            )
            used = {each.directory(12) for each in partitions()}
            assert used == known[12]  # replicas are spread over the directories
            for index, each in enumerate(partitions()):
                log = brokers[12].broker.replicas.find("a", index).log
                assert each.directory(12) == log.directory.id
            await nodes.produce("a", [b"%d" % each for each in range(100)])
            await nodes.until(lambda: all(len(each.isr) == 2 for each in partitions()))

            lost = brokers[12].broker.logs.directories[1]
            lost.fail("could not write", OSError("the disk has failed"))
            await nodes.until(
                lambda: all(
                    (each.leader, each.isr) == (11, (11,))
                    for each in partitions()
                    if each.directory(12) == lost.id
                )
            )
            kept = [each for each in partitions() if each.directory(12) != lost.id]
            assert any(each.leader == 12 for each in kept)
            # Replicas in the other directory are in sync; a pause of the machine may interrupt this.
            await nodes.until(
                lambda: all(
                    len(each.isr) == 2 for each in partitions() if each.directory(12) != lost.id
                )
            )
            await nodes.produce("a", [b"%d" % each for each in range(100, 200)])
            values = await nodes.consume("a", 200, "readers")
            assert sorted(map(int, values)) == list(range(200))
            samples = chain.from_iterable(
                ((family.name, each.value) for each in family.samples)
                for family in families(brokers[12].metric_sources())
            )
            assert ("kafka_log_logmanager_offlinelogdirectorycount", 1) in samples

    asyncio.run(scenario())
