"""Dead letters of a running broker: what is written to which topic (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient
from tests.node.test_metrics import scrape
from tests.share.member import Member, configure, errors
from tests.share.test_failover import SETTINGS as CLUSTER_SETTINGS
from tests.share.test_requests import SETTINGS, topic_id
from tests.support.waiting import until

from odradek.broker.share.dead_letters import (
    HEADER_DELIVERY_COUNT,
    HEADER_GROUP,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_TOPIC,
)
from odradek.client.admin.configs import Change, Operation, Resource, alter_configs
from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.admin.share_groups import StartOffset, describe_start_offsets
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.errors import UnreachableError
from odradek.client.producer import Producer
from odradek.client.share.consumer import ShareConsumer, ShareRecord
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record
from odradek.testing import Broker
from odradek.testing import Cluster as Nodes
from odradek.wire.generated.write_share_group_state_request import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)
from odradek.wire.generated.write_share_group_state_response import WriteShareGroupStateResponse

ENABLED = {"errors.deadletterqueue.group.enable": "true"}
ARCHIVING = 3
REJECTED = b"Offset rejected by client."
TOO_OFTEN = b"Offset delivery count exceeded the threshold."


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {**SETTINGS, "odradek.metrics.port": "0"}
    with Broker(settings=settings) as started:
        with Cluster(started.bootstrap_servers) as cluster:
            update_features(cluster, {"share.version": 2}, UpgradeType.UPGRADE)
        yield started


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(port_of(broker)) as connected:
        yield connected


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def create(cluster: Cluster, name: str, partitions: int = 1, **settings: str) -> None:
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    (made,) = create_topics(cluster, [NewTopic(name, partitions, configs=configs)]).values()
    assert not isinstance(made, Exception), made


def given_up(
    client: WireClient, cluster: Cluster, name: str, *values: bytes, **settings: str
) -> Member:
    """Return a member of a group that has acquired records of a new topic with the same name."""
    create(cluster, name)
    with Producer(cluster) as producer:
        for value in values:
            producer.send(name, value, key=b"k", headers=[("n", b"1")])
    configure(client, name, share_auto_offset_reset="earliest", **settings)
    member = Member(client, name, "first", topic_id(client, name))
    member.join(name)
    while member.acquired(0, max_wait_ms=30_000)[-1][1] < len(values) - 1:
        pass
    return member


def queue_of(name: str) -> dict[str, str]:
    return {"errors_deadletterqueue_topic_name": f"dlq.{name}"}


def wait_until_done(cluster: Cluster, name: str, offset: int) -> None:
    """Wait until all records before the offset are archived or accepted, and this is stored."""
    while True:
        try:
            found = describe_start_offsets(cluster, name).get(TopicPartition(name, 0))
        except UnreachableError:
            continue  # the coordinator was killed
        if isinstance(found, StartOffset) and found.offset >= 0 and found.lag == 0:
            assert found.offset <= offset
            return


def letters(cluster: Cluster, name: str, partition: int = 0) -> list[Record]:
    """Return all records of the dead letter topic. It has no gaps."""
    key = TopicPartition(f"dlq.{name}", partition)
    return [record for batch in read_to_ends(cluster, {key: 0}) for record in records_of(batch)]


def offsets_of(records: list[Record]) -> list[int]:
    return [int(dict(each.headers)[HEADER_OFFSET] or b"") for each in records]


def test_rejected_records_are_written(broker: Broker, client: WireClient, cluster: Cluster) -> None:
    create(cluster, "dlq.plain", **{"errors.deadletterqueue.group.enable": "true"})
    member = given_up(client, cluster, "plain", b"a", b"b", b"c", **queue_of("plain"))
    assert errors(member.acknowledge((0, 2, [1, 3, 3]))) == [0]
    wait_until_done(cluster, "plain", 3)
    found = letters(cluster, "plain")
    assert [(each.key, each.value) for each in found] == [(None, None)] * 2
    assert [each.headers for each in found] == [
        (
            (HEADER_TOPIC, b"plain"),
            (HEADER_PARTITION, b"0"),
            (HEADER_OFFSET, b"%d" % offset),
            (HEADER_GROUP, b"plain"),
            (HEADER_DELIVERY_COUNT, b"1"),
            (HEADER_MESSAGE, REJECTED),
        )
        for offset in (1, 2)
    ]
    name = "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_count_total"
    of_group = name, frozenset({("group", "plain")})
    until(lambda: scrape(broker).get(of_group) == 2, "the records are counted")


def test_records_are_copied_after_their_last_delivery(client: WireClient, cluster: Cluster) -> None:
    create(cluster, "dlq.copied", **ENABLED)
    member = given_up(
        client, cluster, "copied", b"a", b"b",
        share_delivery_count_limit="2",
        errors_deadletterqueue_copy_record_enable="true",
        **queue_of("copied"),
    )  # fmt: skip
    assert errors(member.acknowledge((0, 0, [2]), (1, 1, [1]))) == [0]
    assert member.acquired() == [(0, 0, 2)]
    assert errors(member.acknowledge((0, 0, [2]))) == [0]
    wait_until_done(cluster, "copied", 2)
    (found,) = letters(cluster, "copied")
    assert (found.key, found.value, found.headers[0]) == (b"k", b"a", ("n", b"1"))
    headers = dict(found.headers)
    assert (headers[HEADER_DELIVERY_COUNT], headers[HEADER_MESSAGE]) == (b"2", TOO_OFTEN)


def test_copies_are_divided_into_batches(client: WireClient, cluster: Cluster) -> None:
    """Two batches at least, and an original that does not fit: it is left out of its letter."""
    create(cluster, "dlq.large", **ENABLED, max_message_bytes="1000")
    values = [bytes(300), bytes(300), bytes(300), bytes(300), bytes(1000), b"last"]
    member = given_up(
        client, cluster, "large", *values,
        errors_deadletterqueue_copy_record_enable="true",
        **queue_of("large"),
    )  # fmt: skip
    assert errors(member.acknowledge((0, 5, [3]))) == [0]
    wait_until_done(cluster, "large", 6)
    found = letters(cluster, "large")
    assert offsets_of(found) == list(range(6))
    assert [each.value for each in found] == [*values[:4], None, b"last"]


def test_the_topic_is_created_if_that_is_allowed(client: WireClient, cluster: Cluster) -> None:
    setting = "errors.deadletterqueue.auto.create.topics.enable"
    everywhere = Resource(ResourceType.BROKER, "")
    alter_configs(cluster, {everywhere: [Change(setting, "true")]})
    member = given_up(client, cluster, "created", b"a", **queue_of("created"))
    assert errors(member.acknowledge((0, 0, [3]))) == [0]
    wait_until_done(cluster, "created", 1)
    assert offsets_of(letters(cluster, "created")) == [0]
    alter_configs(cluster, {everywhere: [Change(setting, None, Operation.DELETE)]})


@pytest.mark.parametrize(
    ("name", "topic"),
    [("missing", "dlq.missing"), ("forbidden", "dlq.forbidden"), ("prefix", "other")],
)
def test_the_record_is_archived_if_the_topic_is_not_allowed(
    broker: Broker, client: WireClient, cluster: Cluster, name: str, topic: str
) -> None:
    if name == "forbidden":
        create(cluster, topic)
    elif name == "prefix":
        create(cluster, topic, **ENABLED)
    member = given_up(client, cluster, name, b"a", errors_deadletterqueue_topic_name=topic)
    assert errors(member.acknowledge((0, 0, [3]))) == [0]
    wait_until_done(cluster, name, 1)
    metric = "odradek_share_dead_letters_lost_total"
    assert scrape(broker)[metric, frozenset({("group", name)})] == 1


def test_the_next_leader_writes_what_the_last_one_has_not(
    broker: Broker, client: WireClient, cluster: Cluster
) -> None:
    """The stored state of the first records is ARCHIVING when the member's connection is new."""
    create(cluster, "dlq.resumed", **ENABLED)
    with WireClient(port_of(broker)) as first:
        member = given_up(first, cluster, "resumed", b"a", b"b", b"c")
        assert errors(member.acknowledge((2, 2, [1]))) == [0]
    configure(client, "resumed", **queue_of("resumed"))
    batch = StateBatch(first_offset=0, last_offset=1, delivery_state=ARCHIVING, delivery_count=5)
    data = PartitionData(
        partition=0, state_epoch=9, leader_epoch=9, start_offset=0, state_batches=[batch]
    )
    key = topic_id(client, "resumed")
    request = WriteShareGroupStateRequest(
        group_id="resumed", topics=[WriteStateData(topic_id=key, partitions=[data])]
    )
    response = client.call("WriteShareGroupState", 1, request, WriteShareGroupStateResponse)
    assert [p.error_code for each in response.results for p in each.partitions] == [0]
    member = Member(client, "resumed", "second", key)
    member.join("resumed")
    member.fetch(0, min_bytes=0)
    wait_until_done(cluster, "resumed", 3)
    found = letters(cluster, "resumed")
    assert offsets_of(found) == [0, 1]
    assert {dict(each.headers)[HEADER_MESSAGE] for each in found} == {TOO_OFTEN}


def test_a_member_that_leaves_at_once_loses_no_letter(
    broker: Broker, client: WireClient, cluster: Cluster
) -> None:
    """It rejects with its last request; the next member comes while the letter is written."""
    create(cluster, "dlq.left", **ENABLED)
    with WireClient(port_of(broker)) as first:
        member = given_up(first, cluster, "left", b"a", b"b", **queue_of("left"))
        assert errors(member.acknowledge((0, 0, [3]), epoch=-1)) == [0]
    member = Member(client, "left", "second", topic_id(client, "left"))
    member.join("left")
    assert member.acquired(0, max_wait_ms=30_000) == [(1, 1, 2)]
    assert errors(member.acknowledge((1, 1, [1]))) == [0]
    wait_until_done(cluster, "left", 2)
    assert offsets_of(letters(cluster, "left")) == [0]


def test_nothing_is_written_below_level_2(
    broker: Broker, client: WireClient, cluster: Cluster
) -> None:
    create(cluster, "dlq.off", **ENABLED)
    update_features(cluster, {"share.version": 1}, UpgradeType.SAFE_DOWNGRADE)
    try:
        member = given_up(client, cluster, "off", b"a", **queue_of("off"))
        assert errors(member.acknowledge((0, 0, [3]))) == [0]
        wait_until_done(cluster, "off", 1)
    finally:
        update_features(cluster, {"share.version": 2}, UpgradeType.UPGRADE)
    assert letters(cluster, "off") == []
    assert "off" not in broker.node.broker.share_partitions.dead_letters.appends


@pytest.mark.cluster
def test_another_broker_leads_the_dead_letter_topic() -> None:
    """Its leader dies, and the letters go to the next one."""
    with (
        Nodes(3, topics={"jobs": 1}, settings=CLUSTER_SETTINGS) as nodes,
        Cluster(nodes.bootstrap_servers) as cluster,
    ):
        update_features(cluster, {"share.version": 2}, UpgradeType.UPGRADE)
        create(cluster, "dlq.jobs", **ENABLED)
        source = nodes.leader("jobs")
        other = next(each for each in nodes.replicas("dlq.jobs") if each != source)
        nodes.move_leader("dlq.jobs", 0, other)
        changes = [
            Change("share.auto.offset.reset", "earliest"),
            Change("errors.deadletterqueue.topic.name", "dlq.jobs"),
        ]
        alter_configs(cluster, {Resource(ResourceType.GROUP, "jobs"): changes})
        with ShareConsumer(cluster, "jobs", ["jobs"]) as consumer:
            for number in range(2):
                with Producer(cluster) as producer:
                    producer.send("jobs", b"%d" % number)
                if number:
                    nodes.kill(other)
                records: list[ShareRecord] = []
                while not records:
                    records = consumer.poll(1_000)
                consumer.reject(records[0])
                consumer.commit()
                # A kill while a letter is being written may lead to a second one.
                wait_until_done(cluster, "jobs", 2)
        assert offsets_of(letters_after_a_kill(nodes)) == [0, 1]


def letters_after_a_kill(nodes: Nodes) -> list[Record]:
    """Return the letters as soon as the brokers no longer name the dead leader."""
    with Cluster(nodes.bootstrap_servers) as cluster:
        while True:
            try:
                return letters(cluster, "jobs")
            except UnreachableError:
                cluster.refresh(["dlq.jobs"])
