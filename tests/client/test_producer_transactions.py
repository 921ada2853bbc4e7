"""Transactions of the client's producer, with a real broker."""

from __future__ import annotations

import uuid

import pytest

from odradek.client import Consumer
from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.cluster import Cluster
from odradek.client.commits import fetch_offsets
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.errors import BrokerError, TransactionStateError
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.client.offsets import EARLIEST, READ_COMMITTED, offsets_at
from odradek.client.producer import Producer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker


@pytest.fixture(scope="module", params=[1, 2])
def broker(request):
    """A broker with each version of transactions."""
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        kind = UpgradeType.SAFE_DOWNGRADE if request.param == 1 else UpgradeType.UPGRADE
        update_features(cluster, {"transaction.version": request.param}, kind)
        yield broker


@pytest.fixture
def topic(broker):
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topics({name: 2})
    return name


@pytest.fixture
def made(broker):
    producers = []

    def make(name, **options):
        options = {"bootstrap.servers": broker.bootstrap_servers, **options}
        producers.append(Producer(options, transactional_id=name))
        return producers[-1]

    yield make
    for each in producers:
        each.close(0)


@pytest.fixture
def cluster(broker):
    with Cluster(broker.bootstrap_servers) as cluster:
        yield cluster


def committed(cluster, topic):
    keys = [TopicPartition(topic, index) for index in range(2)]
    starts = offsets_at(cluster, keys, EARLIEST)
    batches = read_to_ends(cluster, starts, READ_COMMITTED)
    return sorted(each for batch in batches for each in batch.values())


def test_commits_and_aborts(made, cluster, topic):
    producer = made(topic)
    for number in range(6):
        try:
            with producer.transaction():
                for partition in range(2):
                    producer.send(topic, b"%d" % number, partition=partition)
                if number % 2:
                    raise KeyError
        except KeyError:
            assert number % 2
    assert committed(cluster, topic) == [b"0", b"0", b"2", b"2", b"4", b"4"]


def test_what_was_written_before_an_abort_is_not_seen(made, cluster, topic):
    producer = made(topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"aborted").wait()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, b"committed")
    producer.commit_transaction()
    assert committed(cluster, topic) == [b"committed"]


def end_and_begin(producer):
    if producer._machine.transaction.must_abort:
        producer.abort_transaction()
    producer.begin_transaction()


def test_a_zombie_is_fenced(made, cluster, topic):
    zombie, successor = made(topic), made(topic)
    zombie.init_transactions()
    zombie.begin_transaction()
    zombie.send(topic, b"lost").wait()
    with successor.transaction():
        successor.send(topic, b"kept")
    zombie.send(topic, b"lost, too")
    with pytest.raises(BrokerError, match="PRODUCER_FENCED") as raised:
        zombie.commit_transaction()
    assert "transactional.id" in raised.value.advice
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        end_and_begin(zombie)
    assert committed(cluster, topic) == [b"kept"]


def test_offsets_are_a_part_of_it(made, cluster, topic):
    group, place = f"g-{topic}", TopicPartition(topic, 1)
    producer = made(topic)
    with producer.transaction():
        producer.send_offsets_to_transaction(
            {place: CommittedOffset(7, 3, "note")}, GroupMetadata(group)
        )
    assert fetch_offsets(cluster, group, [place]) == {place: CommittedOffset(7, 3, "note")}
    producer.begin_transaction()
    producer.send_offsets_to_transaction({place: 9}, GroupMetadata(group))
    producer.abort_transaction()
    assert fetch_offsets(cluster, group, [place])[place].offset == 7


def test_a_member_that_is_gone_cannot_commit(made, cluster, topic):
    producer = made(topic)
    gone = GroupMetadata(f"g-{topic}", 5, "somebody")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"lost")
    offsets = {TopicPartition(topic, 0): 1}
    with pytest.raises(BrokerError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION") as raised:
        producer.send_offsets_to_transaction(offsets, gone)
    producer.abort_transaction()
    assert "rebalance" in raised.value.advice
    with producer.transaction():
        producer.send(topic, b"kept")
    assert committed(cluster, topic) == [b"kept"]


def test_a_consumer_and_a_producer(made, broker, cluster, topic):
    """What is read is written once, and the next member goes on behind it."""
    source = f"s-{topic}"
    broker.create_topics({source: 1})
    with Producer(cluster) as plain:
        plain.send_values(source, [b"%d" % n for n in range(10)])
    producer = made(topic)
    for _ in range(2):
        settings = {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"}
        with Consumer(cluster, settings, enable_auto_commit=False, max_poll_records=3) as consumer:
            consumer.subscribe([source])
            done = 0
            while done < 5:
                batch = consumer.poll(1)
                with producer.transaction(consumer):
                    for record in batch or ():
                        producer.send(topic, record.value)
                done += 5 * (consumer.positions != {}) if batch is None else len(batch)
    assert committed(cluster, topic) == [b"%d" % n for n in range(10)]


def test_calls_in_the_wrong_order(made, topic):
    producer = made(topic)
    with pytest.raises(TransactionStateError, match="init_transactions first"):
        producer.begin_transaction()
    with pytest.raises(TransactionStateError, match="init_transactions first"):
        producer.send(topic, b"x")
    producer.init_transactions()
    with pytest.raises(TransactionStateError, match="begin_transaction first"):
        producer.send(topic, b"x")
    with pytest.raises(TransactionStateError, match="begin_transaction first"):
        producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"x")
    with pytest.raises(TransactionStateError, match="a transaction is open"):
        producer.begin_transaction()
    producer.commit_transaction()
    with pytest.raises(TransactionStateError, match="begin_transaction first"):
        producer.send(topic, b"x")
    with pytest.raises(TransactionStateError, match="no transaction is open"):
        producer.init_transactions()


def test_without_an_id_there_are_no_transactions(broker):
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        pytest.raises(TransactionStateError, match="no transactions"),
    ):
        producer.init_transactions()


def test_close_aborts_what_is_open(made, cluster, topic):
    producer = made(topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open")
    producer.close()
    assert committed(cluster, topic) == []


@pytest.mark.parametrize("api", ["InitProducerId", "EndTxn", "FindCoordinator", "Produce"])
def test_errors_that_pass(made, broker, cluster, topic, api):
    codes = {"Produce": "NOT_LEADER_OR_FOLLOWER"}
    producer = made(topic)
    broker.inject(api, codes.get(api, "COORDINATOR_LOAD_IN_PROGRESS"), times=2)
    for number in range(2):
        with producer.transaction():
            producer.send(topic, b"%d" % number)
    assert committed(cluster, topic) == [b"0", b"1"]


def write_refused(producer, broker, topic):
    with producer.transaction():
        producer.send(topic, b"lost", partition=0).wait()
        broker.inject("Produce", "INVALID_RECORD", times=1)
        producer.send(topic, b"refused", partition=1)


def test_a_batch_that_is_refused_aborts_all(made, broker, cluster, topic):
    producer = made(topic)
    with pytest.raises(BrokerError, match="INVALID_RECORD") as raised:
        write_refused(producer, broker, topic)
    assert raised.value.code == ErrorCode.INVALID_RECORD
    with producer.transaction():
        producer.send(topic, b"kept")
    assert committed(cluster, topic) == [b"kept"]
