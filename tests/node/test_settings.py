"""What a node does when settings change while it runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from compat.lab.wire_client import WireClient

from odradek.client.admin.configs import (
    Change,
    Resource,
    alter_configs,
    describe_configs,
)
from odradek.client.cluster import Cluster
from odradek.model.config_resource import ResourceType
from odradek.testing import Broker

TOPIC = Resource(ResourceType.TOPIC, "orders")
ALL_BROKERS = Resource(ResourceType.BROKER, "")


def test_what_is_set_and_does_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(topics={"orders": 1}) as broker, Cluster(broker.bootstrap_servers) as cluster:
        changes = {
            TOPIC: [
                Change("local.retention.ms", "500"),
                Change("retention.ms", "1000"),
            ],
            ALL_BROKERS: [Change("remote.log.manager.copy.max.bytes.per.second", "5")],
        }
        with caplog.at_level(logging.WARNING, "odradek.node"):
            assert set(alter_configs(cluster, changes).values()) == {None}
        assert sorted(record.getMessage() for record in caplog.records) == [
            "broker (default of all): remote.log.manager.copy.max.bytes.per.second has no effect: "
            "there is no tiered storage yet",
            "topic orders: local.retention.ms has no effect: "
            "there is no tiered storage yet; enabling it on a topic is refused",
        ]
        names = ["local.retention.ms"]
        found = describe_configs(cluster, [TOPIC], names=names, documentation=True)[TOPIC]
        assert isinstance(found, list)
        assert "is not supported and has no effect" in str(found[0].documentation)


def test_a_topic_takes_its_new_settings_at_once() -> None:
    with Broker(topics={"orders": 1}) as broker, Cluster(broker.bootstrap_servers) as cluster:
        alter_configs(cluster, {TOPIC: [Change("max.message.bytes", "1234")]})
        partition = broker.node.broker.replicas.by_name["orders"][0]
        assert partition.log.config.max_message_bytes == 1234


def test_logs_take_what_concerns_producers_at_once() -> None:
    names = {
        "producer.id.expiration.ms": "5000",
        "transaction.partition.verification.enable": "false",
    }
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        alter_configs(cluster, {ALL_BROKERS: [Change(*each) for each in names.items()]})
        storage = broker.node.broker.storage.logs.storage
        assert (storage.producer_expiration_ms, storage.verify_transactions) == (5000, False)


def test_logs_are_loaded_with_the_settings_of_their_topics() -> None:
    """An index that is made anew has an entry for each batch, where the topic wants that."""
    with Broker(topics={"orders": 1}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            alter_configs(cluster, {TOPIC: [Change("index.interval.bytes", "1")]})
        with WireClient(broker.port) as client:
            assert [client.produce_one("orders", b"x") for _ in range(5)] == [0] * 5
        index = Path(broker.data, "orders-0", f"{0:020}.index")
        broker.stop()
        before = index.read_bytes()
        index.unlink()
        broker.start()
        broker.stop()
        assert index.read_bytes() == before != b""
