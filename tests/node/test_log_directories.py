"""Brokers with several log directories report where their replicas are, and which are lost."""

from __future__ import annotations

import asyncio

import pytest

from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.model.uuids import to_text
from odradek.node.format import Formatter

from .cluster import CLUSTER_ID, Cluster, cluster
from .exported import by_labels

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
                node_id: {each.id for each in node.broker.storage.logs.directories}
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

            lost = brokers[12].broker.storage.logs.directories[1]
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
            found = by_labels(brokers[12])
            assert found["kafka_log_logmanager_offlinelogdirectorycount", ()] == 1

    asyncio.run(scenario())


def test_directories_without_ids_get_ids_and_are_registered(tmp_path) -> None:
    """Apache Kafka before 3.7 wrote no directory.id. A directory without identity is offline."""

    async def scenario() -> None:
        nodes = Cluster(
            tmp_path,
            {1: "broker,controller"},
            log_dirs="{node}/a,{node}/b,{node}/c",
            group_initial_rebalance_delay_ms="0",
        )
        Formatter(nodes.config(1), OsFileSystem(), system_random_bytes, 0).ensure(CLUSTER_ID)
        names = ("a", "b", "c")
        files = [tmp_path / "1" / name / "meta.properties" for name in names]
        for file in files:
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(each for each in lines if "directory.id" not in each))
        await nodes.start(1)
        broker = nodes.nodes[1].broker
        ids = [each.id for each in broker.storage.logs.directories]
        assert set(broker.metadata.image.cluster.brokers[1].directories) == set(ids)
        for file, directory_id in zip(files, ids, strict=True):
            assert f"directory.id={to_text(directory_id)}\n" in file.read_text()
        for name in names:
            await nodes.create(1, name, assignments=[(1,)])
            await nodes.produce(name, [name.encode()])
        await nodes.stop(1)

        files[2].write_text("version=7\n")
        await nodes.start(1)
        broker = nodes.nodes[1].broker
        assert [each.is_offline for each in broker.storage.logs.directories] == [False, False, True]
        assert set(broker.metadata.image.cluster.brokers[1].directories) == set(ids[:2])
        kept = [each for each in names if not (tmp_path / "1" / "c" / f"{each}-0").exists()]
        assert len(kept) == 2  # replicas are spread over the directories
        for name in kept:
            assert await nodes.consume(name, 1, f"readers of {name}") == [name.encode()]
        await nodes.stop(1)

    asyncio.run(scenario())
