"""`odradek.testing.Cluster`, with the clients of librdkafka."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from odradek.testing import BrokerError, Cluster


def producer_of(cluster, **settings):
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 100,
            "request.timeout.ms": 1000,  # the defaults are half a minute and more
            "socket.timeout.ms": 2000,
            "log_level": 0,
            **settings,
        }
    )


def produce(producer, topic, *values):
    """Send records; return when all are acknowledged."""
    errors = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * len(values)


def consume(cluster, topic, count):
    """Return the values of the first records of a topic, read by a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    values = []
    while len(values) < count:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


@pytest.mark.odradek(topics={"orders": 1})
def test_clients_survive_the_death_of_a_leader(odradek_cluster):
    cluster = odradek_cluster
    assert (
        len(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics().brokers)
        == 3
    )
    producer = producer_of(cluster)
    produce(producer, "orders", b"1", b"2")
    other = next(each for each in (1, 2, 3) if each != cluster.leader("orders"))
    cluster.move_leader("orders", 0, other)
    assert cluster.leader("orders") == cluster.replicas("orders")[0] == other
    produce(producer, "orders", b"3")
    cluster.kill(other)
    produce(producer, "orders", b"4")
    assert cluster.leader("orders") != other
    assert other not in cluster.in_sync_replicas("orders")
    cluster.start(other)
    cluster.wait_until_in_sync()
    assert cluster.in_sync_replicas("orders") == {1, 2, 3}
    assert consume(cluster, "orders", 4) == [b"1", b"2", b"3", b"4"]


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="at least one node"):
        Cluster(0)
    cluster = Cluster(settings={"log.retention.ms": "soon"})
    with pytest.raises(BrokerError, match=r"node 1 does not start.*log\.retention\.ms"), cluster:
        pass
    cluster = Cluster(1)
    with pytest.raises(BrokerError, match="there is no node 2: the nodes are 1"):
        cluster.kill(2)
    with pytest.raises(BrokerError, match="node 1 does not run"):
        cluster.pause(1)
    cluster.close()


@pytest.fixture(scope="module")
def shared():
    with Cluster(4, topics={"orders": 3}) as cluster:
        yield cluster


@pytest.mark.cluster
class TestFaults:
    @pytest.fixture
    def cluster(self, shared):
        """The cluster of these tests. All nodes serve."""
        shared.heal()
        for each, node in shared.nodes.items():
            if not node.is_running:
                shared.start(each)
            shared.resume(each)
            shared.unfence(each)
        shared.wait_until_in_sync()
        return shared

    @pytest.fixture
    def topic(self, cluster, request):
        name = request.node.name
        cluster.create_topics({name: 1})
        return name

    def test_the_controller_is_paused(self, cluster, topic):
        first = cluster.controller()
        cluster.pause(first)
        with pytest.raises(BrokerError, match="is paused: resume it first"):
            cluster.fence(first)
        second = cluster.controller()
        assert second != first
        cluster.create_topics({f"{topic}-2": 1}, {"min.insync.replicas": 1})
        cluster.resume(first)
        cluster.wait_until_in_sync()
        assert cluster.controller() == second
        produce(producer_of(cluster), f"{topic}-2", b"1")

    def test_a_paused_leader_is_killed(self, cluster, topic):
        leader = cluster.leader(topic)
        producer = producer_of(cluster)
        produce(producer, topic, b"1")
        cluster.pause(leader)
        produce(producer, topic, b"2")
        assert cluster.leader(topic) != leader
        cluster.kill(leader)
        assert not cluster.nodes[leader].is_running
        cluster.start(leader)
        cluster.wait_until_in_sync()
        assert consume(cluster, topic, 2) == [b"1", b"2"]

    def test_a_leader_is_cut_off(self, cluster, topic):
        """The leader cannot acknowledge alone. Its client is served when the network is healed."""
        leader = cluster.leader(topic)
        others = [each for each in cluster.nodes if each != leader]
        here = producer_of(cluster)
        produce(here, topic, b"1")
        cluster.partition(leader, *others)
        errors = []
        here.produce(topic, b"2", on_delivery=lambda error, _: errors.append(error))
        wait_until(lambda: cluster.leader(topic) != leader)
        there = producer_of(cluster.nodes[others[0]])  # this node no longer names the one cut off
        produce(there, topic, b"3")
        assert errors == []
        cluster.heal()
        assert here.flush(60) == 0
        assert errors == [None]
        cluster.wait_until_in_sync()
        assert sorted(consume(cluster, topic, 3)) == [b"1", b"2", b"3"]

    def test_one_link_is_cut(self, cluster, topic):
        """A follower that reaches the controller but not its leader leaves the ISR."""
        leader = cluster.leader(topic)
        controller = cluster.controller()
        follower = next(
            each for each in cluster.replicas(topic) if each not in (leader, controller)
        )
        if leader == controller:
            (leader,) = set(cluster.replicas(topic)) - {controller, follower}
            cluster.move_leader(topic, 0, leader)
        cluster.partition(leader, follower)
        produce(producer_of(cluster), topic, b"1")
        wait_until(lambda: follower not in cluster.in_sync_replicas(topic))
        cluster.heal(leader, follower)
        cluster.wait_until_in_sync()

    def test_a_node_is_fenced(self, cluster, topic):
        leader = cluster.leader(topic)
        cluster.fence(leader)
        assert cluster.leader(topic) != leader
        assert cluster.nodes[leader].is_running
        produce(producer_of(cluster), topic, b"1")
        cluster.unfence(leader)
        cluster.wait_until_in_sync()
        assert leader in cluster.in_sync_replicas(topic)

    def test_all_nodes_are_restarted(self, cluster, topic):
        producer = producer_of(cluster)
        for each in (1, 2, 3):
            produce(producer, topic, str(each).encode())
            cluster.restart(each)
            cluster.wait_until_in_sync()
        assert consume(cluster, topic, 3) == [b"1", b"2", b"3"]

    def test_faults_of_one_node(self, cluster, topic):
        leader = cluster.leader(topic)
        cluster.nodes[leader].inject("Produce", "NOT_ENOUGH_REPLICAS", times=2)
        produce(producer_of(cluster, **{"retry.backoff.ms": 10}), topic, b"1")
        assert cluster.nodes[leader].requests("Produce") >= 3

    def test_a_leader_must_have_a_replica(self, cluster, topic):
        (without,) = set(cluster.nodes) - set(cluster.replicas(topic))
        with pytest.raises(BrokerError, match=f"node {without} has no replica of {topic}-0"):
            cluster.move_leader(topic, 0, without)
        with pytest.raises(BrokerError, match="there is no partition absent-0"):
            cluster.move_leader("absent", 0, 1)


def wait_until(holds):
    """Wait; the test's own time limit ends a wait without end."""
    tick = threading.Event()
    while not holds():
        tick.wait(0.01)


@pytest.mark.cluster
def test_the_data_is_kept(tmp_path):
    with Cluster(2, topics={"orders": 1}, data=str(tmp_path)) as cluster:
        produce(producer_of(cluster), "orders", b"1")
    with Cluster(2, data=str(tmp_path)) as cluster:
        assert consume(cluster, "orders", 1) == [b"1"]


@pytest.mark.cluster
def test_a_start_without_a_majority_can_be_ended():
    """The nodes of a cluster that cannot start are gone when `close` returns."""
    before = set(threading.enumerate())
    cluster = Cluster(3)
    starting = threading.Thread(target=_start_one, args=(cluster,))
    starting.start()
    wait_until(lambda: cluster.nodes[1].is_running)
    cluster.kill(1)
    starting.join()
    cluster.close()
    assert set(threading.enumerate()) <= before


def _start_one(cluster):
    with pytest.raises(BrokerError, match="node 1 does not start: it was killed"):
        cluster.start(1)
