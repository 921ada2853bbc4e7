"""The metrics of replication, of controllers and of the quorum."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.log.support import batch
from tests.replica.controller import partition_registration

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.node.metrics.elections import Elections

from .cluster import cluster
from .exported import by_labels


def total(nodes, name: str) -> float:
    return sum(
        value
        for node in nodes.brokers()
        for (each, _), value in by_labels(node).items()
        if each == f"kafka_server_{name}"
    )


def scraped(port: int) -> set[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {family.name for family in text_string_to_metric_families(text)}


@pytest.mark.cluster
def test_a_cluster(tmp_path) -> None:
    async def scenario() -> None:
        roles = {1: "controller", 11: "broker", 12: "broker"}
        settings = {
            "replica_lag_time_max_ms": "3000",
            "min_insync_replicas": "2",
            "odradek_metrics_port": "0",
        }
        async with cluster(tmp_path, roles, **settings) as nodes:
            await nodes.create(11, "a", partitions=4, factor=2)
            await nodes.produce("a", [b"x" * 1000] * 20)
            controller, follower = nodes.nodes[1], nodes.nodes[12]

            found = by_labels(controller)
            prefix = "kafka_controller_kafkacontroller"
            for name, value in {
                "activecontrollercount": 1,
                "activebrokercount": 2,
                "fencedbrokercount": 0,
                "globaltopiccount": 1,
                "globalpartitioncount": 4,
                "offlinepartitionscount": 0,
                "preferredreplicaimbalancecount": 0,
            }.items():
                assert found[f"{prefix}_{name}", ()] == value, name
            prefix = "kafka_server_raft_metrics"
            assert found[f"{prefix}_current_state", ("leader",)] == 1
            assert found["kafka_server_raftmetrics_current_state", ("leader",)] == 1
            assert (f"{prefix}_current_state", ("follower",)) not in found
            assert found[f"{prefix}_current_leader", ()] == 1
            assert found[f"{prefix}_number_of_voters", ()] == 1
            assert found[f"{prefix}_number_of_observers", ()] == 2
            assert found[f"{prefix}_append_records_total", ()] > 4
            assert found["odradek_quorum_lag", ("1",)] == 0
            names = await asyncio.to_thread(scraped, controller.metrics_port())
            assert "kafka_controller_kafkacontroller_activecontrollercount" in names
            assert not [each for each in names if "replicamanager" in each]

            found = by_labels(follower)
            assert found[f"{prefix}_current_state", ("observer",)] == 1
            assert found[f"{prefix}_fetch_records_total", ()] > 4
            assert not [name for name, _ in found if name.startswith("kafka_controller_")]
            assert total(nodes, "replicamanager_partitioncount") == 8
            assert total(nodes, "replicamanager_leadercount") == 4
            assert total(nodes, "replicamanager_atminisrpartitioncount") == 4
            assert total(nodes, "replicamanager_underreplicatedpartitions") == 0
            assert total(nodes, "replicafetchermanager_maxlag") == 0
            assert found["kafka_server_replicafetchermanager_minfetchrate", ("Replica",)] > 0
            assert total(nodes, "brokertopicmetrics_replicationbytesin_total") >= 20_000
            lags = [key for key in found if key[0] == "kafka_server_fetcherlagmetrics_consumerlag"]
            assert len(lags) == found["kafka_server_replicamanager_leadercount", ()] == 2

            before = by_labels(nodes.nodes[11])
            follower._broker.replication.fetchers.close()  # it hangs
            for partition in nodes.nodes[11].broker.replicas.by_name["a"].values():
                if partition.is_leader:
                    partition.append(batch(b"not replicated"), 1)
            await nodes.until(lambda: total(nodes, "replicamanager_underreplicatedpartitions") == 2)
            found = by_labels(nodes.nodes[11])
            prefix = "kafka_server_replicamanager"
            assert found[f"{prefix}_underminisrpartitioncount", ()] == 2
            # Earlier changes, after a pause of the machine, do not count.
            counted = [(f"{prefix}_isr{each}_total", ()) for each in ("shrinks", "expands")]
            assert [found[each] - before[each] for each in counted] == [2, 0]

    asyncio.run(scenario())


class _Topic:
    def __init__(self, before, after) -> None:
        self.image_before, self.partitions = before, after


def test_elections_are_counted() -> None:
    elections = Elections()
    elections.load(EMPTY_IMAGE)
    before = partition_registration((1, 2, 3, 4))._replace(isr=(1, 2), elr=(3,))
    for leader in (1, -1, 2, 3, 4):
        delta = MetadataDelta(EMPTY_IMAGE)
        image_before = type("Image", (), {"partitions": {0: before}})
        delta.topics.changed[b"id"] = _Topic(image_before, {0: before._replace(leader=leader)})
        elections.publish(delta, EMPTY_IMAGE)
    assert (elections.count, elections.from_elr, elections.unclean) == (3, 1, 1)
