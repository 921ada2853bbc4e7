"""Transactions that several connections share; on a live broker, by the rules of both versions."""

from __future__ import annotations

import uuid

import pytest

from odradek.client import transactions
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError
from odradek.client.offsets import READ_COMMITTED, offsets_at
from odradek.client.transactions import CLASSIC, VERSION_2
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder
from odradek.wire.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.generated.api_versions_response import FinalizedFeatureKey
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

LATEST = -1


@pytest.fixture
def identity():
    return f"id-{uuid.uuid4().hex[:12]}"


def write(cluster, producer, partition, rules) -> int:
    """Writes one record as the only task of a partition; returns the error code."""
    if not rules.adds_partitions:
        transactions.add_partitions(cluster, producer, [partition])
    builder = RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )
    builder.append(1, None, b"value")
    data = PartitionProduceData(index=partition.partition, records=builder.build())
    request = ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
    )

    def attempt(deadline):
        connection = cluster.node(cluster.leader(partition))
        pending = connection.send(request, ProduceResponse, rules.produce_version_max)
        return connection.receive(pending, deadline.remaining_ms)

    response = cluster.retrying(attempt)
    return response.responses[0].partition_responses[0].error_code


def committed_end(cluster, partition) -> int:
    return offsets_at(cluster, [partition], LATEST, isolation=READ_COMMITTED)[partition]


@pytest.mark.parametrize("rules", [CLASSIC, VERSION_2], ids=["classic", "version 2"])
@pytest.mark.parametrize("is_committed", [True, False])
def test_connections_share_a_transaction(
    bootstrap, cluster, make_topic, identity, monkeypatch, rules, is_committed
):
    monkeypatch.setattr(transactions, "rules", lambda _: rules)
    topic = make_topic(partitions=2)
    partitions = [TopicPartition(topic, index) for index in range(2)]
    producer = transactions.init_producer(cluster, identity, 60_000)
    for each in partitions:
        with Cluster(bootstrap) as task:
            assert write(task, producer, each, rules) == 0
    assert [committed_end(cluster, each) for each in partitions] == [0, 0]
    transactions.end_transaction(cluster, producer, committed=is_committed)
    transactions.end_transaction(cluster, producer, committed=is_committed)  # the answer was lost
    following = transactions.init_producer(cluster, identity, 60_000)  # waits for the markers
    assert following.epoch > producer.epoch
    assert [committed_end(cluster, each) for each in partitions] == [2, 2]


def test_a_new_producer_fences_the_former_ones(cluster, make_topic, identity):
    partition = TopicPartition(make_topic(), 0)
    former = transactions.init_producer(cluster, identity, 60_000)
    assert write(cluster, former, partition, VERSION_2) == 0
    transactions.init_producer(cluster, identity, 60_000)
    assert write(cluster, former, partition, VERSION_2) != 0
    with pytest.raises(BrokerError) as raised:
        transactions.end_transaction(cluster, former, committed=True)
    assert transactions.is_fenced(raised.value)
    assert committed_end(cluster, partition) == 2, "a record that was aborted, and the marker"


def test_the_features_of_the_cluster_choose_the_rules(fake):
    def answer(level):
        response = fake.api_versions()
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level)
        response.finalized_features = [feature] if level else []
        return response

    for level, expected in ((0, CLASSIC), (1, CLASSIC), (2, VERSION_2)):
        fake.answers[18] = lambda _, level=level: answer(level)
        with Cluster(fake.address) as cluster:
            assert transactions.rules(cluster.any()) == expected


def test_a_refused_partition_is_named(fake, identity):
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=55),
        AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=29),
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    fake.answers[24] = lambda _: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    producer = transactions.TransactionalProducer(identity, 1, 0)
    with (
        Cluster(fake.address) as cluster,
        pytest.raises(BrokerError, match="t-1"),
    ):
        transactions.add_partitions(cluster, producer, [TopicPartition("t", 0)])
