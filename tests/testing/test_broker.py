"""`odradek.testing.Broker`."""

import importlib.metadata
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.client.admin.topics import delete_topics
from odradek.client.cluster import Cluster
from odradek.testing import Broker, BrokerError, plugin


def test_pytest_finds_the_plugin_by_itself():
    """The tests of this repository name it, so the others do not show this."""
    (found,) = importlib.metadata.entry_points(group="pytest11", name="odradek")
    assert found.load() is plugin


def producer_of(broker, **settings):
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **settings})


def produce(producer, topic, *values):
    errors = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    return errors


def consume(broker, topic, count):
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "t", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.odradek(topics={"orders": 1}, settings={"message.max.bytes": 2000})
def test_the_fixture(odradek_broker):
    producer = producer_of(odradek_broker)
    assert produce(producer, "orders", b"1", b"2") == [None, None]
    assert consume(odradek_broker, "orders", 2) == [b"1", b"2"]
    (error,) = produce(producer, "orders", bytes(3000))
    assert error.name() == "MSG_SIZE_TOO_LARGE"


@pytest.mark.parametrize(
    ("marker", "named"),
    [
        (pytest.mark.odradek({"orders": 1}), r"not \{'orders': 1\}"),
        (pytest.mark.odradek(topic={"orders": 1}), r"topics=, settings=, data=, port=, not topic$"),
    ],
)
def test_what_the_marker_does_not_take_is_named(request, marker, named):
    request.node.add_marker(marker)
    with pytest.raises(pytest.UsageError, match=named):
        request.getfixturevalue("odradek_broker")


def test_injected_errors_reach_the_client_and_end():
    with Broker(topics={"orders": 1}) as broker:
        broker.inject("Produce", "POLICY_VIOLATION", times=1)
        producer = producer_of(broker)
        (error,) = produce(producer, "orders", b"1")
        assert error.name() == "POLICY_VIOLATION"
        assert produce(producer, "orders", b"2") == [None]
        assert consume(broker, "orders", 1) == [b"2"]


def test_retriable_errors_are_retried():
    with Broker(topics={"orders": 1}) as broker:
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS", times=3)
        assert produce(producer_of(broker, **{"retry.backoff.ms": 10}), "orders", b"1") == [None]
        assert broker.requests("Produce") == 4


def test_disconnects_are_survived():
    with Broker(topics={"orders": 1}) as broker:
        broker.disconnect("Produce", times=2)
        producer = producer_of(broker, **{"enable.idempotence": True})
        assert produce(producer, "orders", b"1", b"2") == [None, None]
        broker.disconnect_all()
        assert produce(producer, "orders", b"3") == [None]
        assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]


def test_delays():
    with Broker(topics={"orders": 1}) as broker:
        producer = producer_of(broker)
        produce(producer, "orders", b"1")
        broker.delay("Produce", 0.3, times=1)
        started = time.monotonic()
        assert produce(producer, "orders", b"2") == [None]
        assert time.monotonic() - started >= 0.3
        broker.delay(None, 30)
        broker.heal()
        assert produce(producer, "orders", b"3") == [None]
        assert consume(broker, "orders", 3) == [b"1", b"2", b"3"]


def test_pause_and_resume():
    with Broker(topics={"orders": 1}) as broker:
        producer = producer_of(broker)
        produce(producer, "orders", b"1")
        broker.pause()
        producer.produce("orders", b"2")
        assert producer.flush(0.3) == 1
        broker.resume()
        assert producer.flush(20) == 0


def test_faults_are_ordered_while_it_is_paused():
    with Broker(topics={"orders": 1}) as broker:
        producer = producer_of(broker)
        produce(producer, "orders", b"1")
        broker.pause()
        producer.produce("orders", b"2")
        broker.inject("Produce", "NOT_ENOUGH_REPLICAS")
        broker.resume()
        assert producer.flush(20) == 0
        assert broker.requests("Produce") == 3


def test_injected_errors_stand_where_each_api_has_them():
    with Broker(topics={"orders": 1}) as broker, Cluster(broker.bootstrap_servers) as cluster:
        broker.inject("DeleteTopics", "TOPIC_DELETION_DISABLED")
        refused = delete_topics(cluster, ["orders"])["orders"]
        assert refused is not None
        assert refused.code.name == "TOPIC_DELETION_DISABLED"
        assert delete_topics(cluster, ["orders"]) == {"orders": None}


def test_restart_keeps_port_and_data():
    with Broker(topics={"orders": 1}) as broker:
        producer = producer_of(broker)
        produce(producer, "orders", b"1")
        before = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == before
        assert produce(producer, "orders", b"2") == [None]
        assert consume(broker, "orders", 2) == [b"1", b"2"]


def test_many_at_a_time():
    with Broker(topics={"a": 1}) as one, Broker(topics={"a": 1}) as other:
        produce(producer_of(one), "a", b"one")
        produce(producer_of(other), "a", b"other")
        assert (consume(one, "a", 1), consume(other, "a", 1)) == ([b"one"], [b"other"])


def test_mistakes_are_named():
    with pytest.raises(BrokerError, match=r"log\.retention\.ms"):
        Broker(settings={"log.retention.ms": "soon"}).start()
    misspelt = Broker(settings={"log.retention.m": 1})
    with pytest.warns(UserWarning, match="log.retention.m has no effect.*mean log.retention.ms"):
        misspelt.start()
    misspelt.close()
    with Broker() as broker:
        with pytest.raises(ValueError, match="not an API of the broker; did you mean Produce"):
            broker.inject("Prodce", "NONE")
        with pytest.raises(ValueError, match="not an API of the broker"):
            broker.inject("Envelope", "NONE")
        with pytest.raises(ValueError, match="no error; did you mean NOT_LEADER_OR_FOLLOWER"):
            broker.inject("Produce", "NOT_LEADER_OR_FOLOWER")
        broker.pause()
        with pytest.raises(BrokerError, match="is paused: resume it first"):
            broker.create_topics({"orders": 1})
        broker.resume()
    with pytest.raises(BrokerError, match="does not run"):
        broker.disconnect_all()


def test_nothing_is_left_behind(tmp_path):
    broker = Broker()
    with broker:
        data = broker.data
    assert not tmp_path.joinpath(data).exists()
    producer = producer_of(broker, **{"socket.timeout.ms": 500, "message.timeout.ms": 500})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=0.5)


def test_a_start_that_failed_leaves_its_directory_to_other_processes(tmp_path):
    lock = (
        "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
        str(tmp_path / ".lock"),
    )
    with Broker() as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(BrokerError, match="does not start"):
            Broker(data=str(tmp_path), port=port).start()
        subprocess.run([sys.executable, "-c", *lock], check=True)
