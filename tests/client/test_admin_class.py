"""`Admin`: each call once, against a real broker, and which of Java's calls it has."""

from __future__ import annotations

import uuid

import pytest

from odradek.client import Admin, Consumer, Producer
from odradek.client.admin.configs import Change, Resource
from odradek.client.admin.topics import NewTopic
from odradek.client.admin.transactions import open_transactions
from odradek.client.admin.users import NewCredential
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError, NoSuchTopicError, SomeFailedError
from odradek.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from odradek.core.authorizer.filters import AclFilter
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.testing import Broker

CALLS_OF_JAVA = [
    "create_topics",
    "delete_topics",
    "list_topics",
    "describe_topics",
    "describe_cluster",
    "describe_acls",
    "create_acls",
    "delete_acls",
    "describe_configs",
    "incremental_alter_configs",
    "alter_replica_log_dirs",
    "describe_log_dirs",
    "describe_replica_log_dirs",
    "create_partitions",
    "delete_records",
    "create_delegation_token",
    "renew_delegation_token",
    "expire_delegation_token",
    "describe_delegation_token",
    "list_groups",
    "describe_consumer_groups",
    "list_consumer_groups",
    "list_consumer_group_offsets",
    "delete_consumer_groups",
    "delete_consumer_group_offsets",
    "elect_leaders",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "remove_members_from_consumer_group",
    "alter_consumer_group_offsets",
    "list_offsets",
    "describe_client_quotas",
    "alter_client_quotas",
    "describe_user_scram_credentials",
    "describe_features",
    "update_features",
    "describe_metadata_quorum",
    "unregister_broker",
    "describe_producers",
    "describe_transactions",
    "abort_transaction",
    "force_terminate_transaction",
    "list_transactions",
    "fence_producers",
    "list_config_resources",
    "list_client_metrics_resources",
    "client_instance_id",
    "add_raft_voter",
    "remove_raft_voter",
    "describe_share_groups",
    "alter_share_group_offsets",
    "list_share_group_offsets",
    "delete_share_group_offsets",
    "delete_share_groups",
    "describe_streams_groups",
    "list_streams_group_offsets",
    "alter_streams_group_offsets",
    "delete_streams_group_offsets",
    "delete_streams_groups",
    "describe_classic_groups",
]
"""Those of Apache Kafka 4.3. `alterUserScramCredentials` is two methods here."""

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def broker():
    with Broker(settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(broker):
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin):
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, 2)
    return name


def test_it_has_all_that_java_has():
    assert [each for each in CALLS_OF_JAVA if not callable(getattr(Admin, each, None))] == []
    assert all(getattr(Admin, each).__doc__ for each in CALLS_OF_JAVA)


def test_topics(admin):
    names = [f"t-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    made = admin.create_topics([NewTopic(each, 2) for each in names])
    assert {each.partitions for each in made.values()} == {2}
    with pytest.raises(BrokerError) as raised:
        admin.create_topic(names[0])
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    other = f"{names[0]}-other"
    with pytest.raises(SomeFailedError, match="1 of 2 failed; the first: topic t-") as failed:
        admin.create_topics([NewTopic(names[0]), NewTopic(other)])
    assert list(failed.value.results) == [other]
    assert failed.value.errors[names[0]].code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert failed.value.advice
    with pytest.raises(ExceptionGroup):
        raise failed.value
    assert {*names, other} <= {each.name for each in admin.list_topics()}
    admin.create_partitions({names[0]: 4})
    assert len(admin.describe_topics(names)[names[0]].partitions) == 4
    with pytest.raises(SomeFailedError):
        admin.create_partitions({names[0]: 1, names[1]: 3})
    with pytest.raises(SomeFailedError) as failed:
        admin.describe_topics(["missing"])
    assert isinstance(failed.value.errors["missing"], NoSuchTopicError)
    admin.delete_topics([names[0], other], ids=[made[names[1]].id])
    admin.delete_topic(names[2])
    with pytest.raises(SomeFailedError):
        admin.delete_topics(ids=[made[names[1]].id])
    assert not {*names, other} & {each.name for each in admin.list_topics()}


def test_records_and_replicas(admin, broker, topic):
    key, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp=1_000 + number)
    assert admin.list_offsets({key: LATEST, other: LATEST})[key].offset == 10
    assert admin.list_offsets({key: 1_003})[key].offset == 3
    assert admin.list_offsets({key: MAX_TIMESTAMP})[key].timestamp_ms == 1_009
    assert admin.delete_records({key: 4}) == {key: 4}
    assert admin.list_offsets({key: EARLIEST})[key].offset == 4
    assert [each.last_sequence for each in admin.describe_producers([key])[key]] == [9]
    with pytest.raises(SomeFailedError):
        admin.list_offsets({key: LATEST, TopicPartition(topic, 7): LATEST})
    (node,) = (each.id for each in admin.describe_cluster().brokers)
    admin.elect_leaders([key])
    admin.elect_leaders([key], unclean=True)
    admin.alter_partition_reassignments({key: [node]})
    assert admin.list_partition_reassignments() == {}
    (directory,) = admin.describe_log_dirs([node])[node]
    assert directory.sizes[key] > 0
    assert admin.describe_replica_log_dirs([(node, key)]) == {(node, key): (directory.path, None)}
    with pytest.raises(SomeFailedError) as failed:
        admin.alter_replica_log_dirs({(node, key): "/nowhere"})
    assert failed.value.errors[node, key].code == ErrorCode.LOG_DIR_NOT_FOUND
    with pytest.raises(SomeFailedError):
        admin.describe_log_dirs([99])


def test_settings(admin, broker, topic):
    resource = Resource(ResourceType.TOPIC, topic)
    admin.incremental_alter_configs({resource: [Change("retention.ms", "7")]})
    (entry,) = admin.describe_configs([resource], names=["retention.ms"])[resource]
    assert (entry.value, entry.is_set) == ("7", True)
    with pytest.raises(SomeFailedError):
        admin.incremental_alter_configs({resource: [Change("retention.ms", "soon")]})
    metrics = Resource(ResourceType.CLIENT_METRICS, "m")
    admin.incremental_alter_configs({metrics: [Change("metrics", "*")]})
    assert admin.list_client_metrics_resources() == [metrics]
    assert resource in admin.list_config_resources()
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as fresh:  # knows of telemetry
        assert fresh.client_instance_id() != fresh.client_instance_id()


def test_groups(admin, broker, topic):
    group, key = f"g-{topic}", TopicPartition(topic, 0)
    with (
        Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id=group, group_instance_id="s"
        ) as member,
    ):
        member.subscribe(topic)
        while not member.assignment:
            member.poll(1)
        with pytest.raises(SomeFailedError):
            admin.remove_members_from_consumer_group(group, ["missing"])
        described = admin.describe_consumer_groups([group])[group]
        assert [each.instance_id for each in described.members] == ["s"]
        assert admin.describe_classic_groups([group])[group].members == described.members
        with pytest.raises(SomeFailedError, match="It is a classic group"):
            admin.describe_streams_groups([group])
        with pytest.raises(SomeFailedError):
            admin.delete_consumer_groups([group])
        admin.remove_members_from_consumer_group(group, reason="a test")
    assert admin.describe_groups([group])[group].members == ()
    admin.alter_consumer_group_offsets(group, {key: 7})
    assert admin.list_consumer_group_offsets(group)[key].offset == 7
    assert group in [each.id for each in admin.list_consumer_groups()]
    admin.delete_consumer_group_offsets(group, [key])
    assert admin.list_consumer_group_offsets(group) == {}
    admin.delete_groups([group])
    with pytest.raises(SomeFailedError):
        admin.delete_consumer_groups([group])


def test_share_groups(admin, topic):
    key = TopicPartition(topic, 0)
    admin.alter_share_group_offsets("shared", {key: 0})
    assert admin.list_share_group_offsets("shared")[key].offset == 0
    assert admin.describe_share_groups(["shared"])["shared"].group.members == ()
    admin.delete_share_group_offsets("shared", [topic])
    admin.delete_share_groups(["shared"])


def test_transactions(admin, broker, topic):
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(settings, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0).wait()
    (listed,) = (each for each in admin.list_transactions() if each.id == topic)
    assert listed.state == "Ongoing"
    described = admin.describe_transactions([topic])[topic]
    assert described.partitions == (TopicPartition(topic, 0),)
    fence = admin.fence_producers([topic])[topic]
    assert (fence.producer_id, fence.epoch > described.producer_epoch) == (listed.producer_id, True)
    with pytest.raises(BrokerError):
        producer.commit_transaction()
    producer.close(0)
    admin.force_terminate_transaction(topic)
    with Cluster(broker.bootstrap_servers) as cluster:
        assert open_transactions(cluster, [TopicPartition(topic, 0)]) == []


def test_rights_and_limits(admin):
    entry = AccessControlEntry(
        AclResourceType.TOPIC,
        "x",
        PatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    every = AclFilter(
        AclResourceType.ANY,
        None,
        PatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin.create_acls([entry])
    assert admin.describe_acls(every) == [entry]
    assert admin.delete_acls(every) == 1
    new = NewCredential("SCRAM-SHA-256", "secret", b"salt", 4096)
    admin.upsert_user_scram_credential("alice", new)
    assert admin.describe_user_scram_credentials() == {"alice": {"SCRAM-SHA-256": 4096}}
    admin.delete_user_scram_credential("alice", "SCRAM-SHA-256")
    with pytest.raises(SomeFailedError):
        admin.describe_user_scram_credentials(["alice"])
    admin.alter_client_quotas((("user", "alice"),), {"producer_byte_rate": 1_000.0})
    assert admin.describe_client_quotas({"user": "alice"}) == {
        (("user", "alice"),): {"producer_byte_rate": 1_000.0}
    }
    with pytest.raises(BrokerError) as raised:
        admin.create_delegation_token()
    assert raised.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_the_cluster(admin):
    quorum = admin.describe_metadata_quorum()
    assert quorum.leader_id in {each.id for each in quorum.voters}
    levels = {each.name: each.level for each in admin.describe_features()}
    admin.update_features({"share.version": levels["share.version"]}, validate_only=True)
    with pytest.raises(ClientError):
        admin.remove_raft_voter(99, bytes(16))
    with pytest.raises(ClientError):
        admin.add_raft_voter(99, bytes(16), {})
    with pytest.raises(ClientError):
        admin.unregister_broker(99)


def test_settings_that_are_wrong():
    with pytest.raises(ValueError, match=r"bootstrap\.servers is missing"):
        Admin()
    with pytest.raises(ValueError, match="no setting acks"):
        Admin(bootstrap_servers="localhost:1", acks=1)
