"""Transactions that several connections share; on a live broker, by the rules of both versions."""

from __future__ import annotations

import uuid

import pytest

from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.cluster import Cluster
from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.record_encoder import RecordEncoder
from odradek.client.errors import BrokerError
from odradek.client.offsets import READ_COMMITTED, offsets_at
from odradek.client.producer import transactions
from odradek.client.producer.encoded import EncodedBatch, EncodedProducer
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.wire.generated.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from odradek.wire.generated.api_versions_response import FinalizedFeatureKey

LATEST = -1


@pytest.fixture
def identity():
    return f"id-{uuid.uuid4().hex[:12]}"


def write(cluster, producer, partition) -> None:
    """Writes one record as the only task of a partition."""
    settings = ProducerSettings(transactional_id=producer.transactional_id, creates_topics=False)
    task = EncodedProducer(
        cluster, settings, ProducerIdentity(producer.producer_id, producer.epoch)
    )
    encoder = RecordEncoder(1_000)
    encoder.append(1, None, b"value", None)
    task.send({partition: EncodedBatch(encoder.take(), 1, Codec.NONE)}, 1)
    task.flush()


def committed_end(cluster, partition) -> int:
    return offsets_at(cluster, [partition], LATEST, isolation=READ_COMMITTED)[partition]


@pytest.fixture(params=[1, 2])
def version(cluster, request):
    """Both versions of transactions; in the end the later one."""
    if request.param == 1:
        update_features(cluster, {"transaction.version": 1}, UpgradeType.SAFE_DOWNGRADE)
    yield request.param
    if request.param == 1:
        update_features(cluster, {"transaction.version": 2}, UpgradeType.UPGRADE)


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.usefixtures("version")
def test_connections_share_a_transaction(bootstrap, cluster, make_topic, identity, is_committed):
    topic = make_topic(partitions=2)
    partitions = [TopicPartition(topic, index) for index in range(2)]
    producer = transactions.init_producer(cluster, identity, 60_000)
    for each in partitions:
        with Cluster(bootstrap) as task:
            write(task, producer, each)
    assert [committed_end(cluster, each) for each in partitions] == [0, 0]
    transactions.end_transaction(cluster, producer, committed=is_committed)
    transactions.end_transaction(cluster, producer, committed=is_committed)  # the answer was lost
    following = transactions.init_producer(cluster, identity, 60_000)  # waits for the markers
    assert following.epoch > producer.epoch
    assert [committed_end(cluster, each) for each in partitions] == [2, 2]


def test_a_new_producer_fences_the_former_ones(cluster, make_topic, identity):
    partition = TopicPartition(make_topic(), 0)
    former = transactions.init_producer(cluster, identity, 60_000)
    write(cluster, former, partition)
    transactions.init_producer(cluster, identity, 60_000)
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        write(cluster, former, partition)
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

    for level, expected in ((0, 4), (1, 4), (2, 5)):
        fake.answers[18] = lambda _, level=level: answer(level)
        with Cluster(fake.address) as cluster:
            assert transactions.end_version_max(cluster.any()) == expected


def test_a_refused_partition_is_named(fake, identity):
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=55),
        AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=29),
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    fake.answers[24] = lambda _: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    fake.topics["t"] = 1
    producer = transactions.TransactionalProducer(identity, 1, 0)
    with Cluster(fake.address) as cluster, pytest.raises(BrokerError, match="t-1"):
        write(cluster, producer, TopicPartition("t", 0))
