"""Deltas over images: each record type, and the listed changes."""

import pytest

from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.errors import ReplayError
from odradek.core.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from odradek.model.config_resource import ResourceType
from odradek.model.uuids import DIRECTORY_MIGRATING
from odradek.wire.generated.access_control_entry_record import AccessControlEntryRecord
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.clear_elr_record import ClearElrRecord
from odradek.wire.generated.client_quota_record import ClientQuotaRecord, EntityData
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.end_transaction_record import EndTransactionRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.generated.fence_broker_record import FenceBrokerRecord
from odradek.wire.generated.partition_change_record import PartitionChangeRecord
from odradek.wire.generated.partition_record import PartitionRecord
from odradek.wire.generated.producer_ids_record import ProducerIdsRecord
from odradek.wire.generated.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from odradek.wire.generated.register_controller_record import RegisterControllerRecord
from odradek.wire.generated.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from odradek.wire.generated.remove_topic_record import RemoveTopicRecord
from odradek.wire.generated.topic_record import TopicRecord
from odradek.wire.generated.unfence_broker_record import UnfenceBrokerRecord
from odradek.wire.generated.unregister_broker_record import UnregisterBrokerRecord
from odradek.wire.generated.unregister_controller_record import UnregisterControllerRecord

DIRECTORY = bytes(15) + b"\xd1"
FIRST = bytes(15) + b"\x01"
SECOND = bytes(15) + b"\x02"


def topic(name, topic_id, partitions=1):
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY, DIRECTORY],
            )
            for index in range(partitions)
        ),
    ]


def replay(image, *records):
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(image.offset + len(records), 1)


def image_of(*records) -> MetadataImage:
    return replay(EMPTY_IMAGE, *records)[1]


def test_a_created_topic_is_found_by_name_and_id():
    delta, image = replay(EMPTY_IMAGE, *topic("a", FIRST, 3))
    assert image.offset == 3
    assert image.topics.by_name["a"] is image.topics.by_id[FIRST]
    assert sorted(image.topics.by_name["a"].partitions) == [0, 1, 2]
    assert image.topics.partition("a", 2).isr == (1, 2)
    changed = delta.topics.changed[FIRST]
    assert (changed.name, changed.image_before) == ("a", None)
    assert sorted(changed.partitions) == [0, 1, 2]


def test_what_did_not_change_is_shared():
    before = image_of(*topic("a", FIRST), *topic("b", SECOND))
    delta, after = replay(before, PartitionChangeRecord(topic_id=FIRST, partition_id=0, isr=[1]))
    assert after.topics.by_id[SECOND] is before.topics.by_id[SECOND]
    assert after.configs is before.configs
    assert after.cluster is before.cluster
    assert before.topics.partition("a", 0).isr == (1, 2)
    assert after.topics.partition("a", 0).isr == (1,)
    assert list(delta.topics.changed) == [FIRST]
    assert delta.topics.changed[FIRST].image_before is before.topics.by_id[FIRST]


def test_a_partition_change_moves_the_epochs():
    before = image_of(*topic("a", FIRST))
    _, after = replay(before, PartitionChangeRecord(topic_id=FIRST, partition_id=0, isr=[2, 1]))
    partition = after.topics.partition("a", 0)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)
    _, after = replay(after, PartitionChangeRecord(topic_id=FIRST, partition_id=0, leader=2))
    partition = after.topics.partition("a", 0)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 1, 2)


def test_partitions_from_before_jbod_get_migrating_directories():
    record = PartitionRecord(topic_id=FIRST, partition_id=0, replicas=[1, 2], isr=[1])
    image = image_of(TopicRecord(name="a", topic_id=FIRST), record)
    assert image.topics.partition("a", 0).directories == (DIRECTORY_MIGRATING,) * 2


def test_one_directory_for_two_replicas_is_refused():
    record = PartitionRecord(topic_id=FIRST, replicas=[1, 2], directories=[DIRECTORY])
    with pytest.raises(ReplayError, match="1 directories for 2 replicas"):
        image_of(TopicRecord(name="a", topic_id=FIRST), record)


def test_a_deleted_topic_takes_its_settings_along():
    config = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="a", name="retention.ms", value="1"
    )
    before = image_of(*topic("a", FIRST), *topic("b", SECOND), config)
    assert before.configs.of(ResourceType.TOPIC, "a") == {"retention.ms": "1"}
    delta, after = replay(before, RemoveTopicRecord(topic_id=FIRST))
    assert list(delta.topics.deleted) == [(FIRST, "a")]
    assert delta.topics.changed == {}
    assert delta.configs.changed == {ConfigResource(ResourceType.TOPIC, "a"): None}
    assert list(after.topics.by_name) == ["b"]
    assert list(after.topics.by_id) == [SECOND]
    assert after.configs.by_resource == {}


def test_a_topic_created_and_deleted_within_a_delta_leaves_no_trace():
    delta, after = replay(
        EMPTY_IMAGE,
        *topic("a", FIRST),
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"),
        RemoveTopicRecord(topic_id=FIRST),
    )
    assert not delta.topics.deleted
    assert not delta.topics.changed
    assert after.topics is EMPTY_IMAGE.topics
    assert after.configs.by_resource == {}


def test_a_topic_recreated_under_its_name_is_another_topic():
    before = image_of(*topic("a", FIRST))
    delta, after = replay(before, RemoveTopicRecord(topic_id=FIRST), *topic("a", SECOND))
    assert list(delta.topics.deleted) == [(FIRST, "a")]
    assert list(delta.topics.changed) == [SECOND]
    assert after.topics.by_name["a"].id == SECOND
    assert list(after.topics.by_id) == [SECOND]


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=SECOND),
        PartitionRecord(topic_id=SECOND, partition_id=0),
        PartitionChangeRecord(topic_id=SECOND, partition_id=0),
        PartitionChangeRecord(topic_id=FIRST, partition_id=7),
        ClearElrRecord(topic_name="nobody"),
        FenceBrokerRecord(id=1, epoch=5),
        RemoveAccessControlEntryRecord(id=FIRST),
        FeatureLevelRecord(name="metadata.version", feature_level=6),
        FeatureLevelRecord(name="metadata.version", feature_level=34),
        EndTransactionRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_the_image_is_refused(record):
    delta = MetadataDelta(image_of(*topic("a", FIRST)))
    with pytest.raises(ReplayError):
        delta.replay(record)


def test_changes_of_a_deleted_topic_are_refused():
    delta = MetadataDelta(image_of(*topic("a", FIRST)))
    delta.replay(RemoveTopicRecord(topic_id=FIRST))
    with pytest.raises(ReplayError):
        delta.replay(PartitionChangeRecord(topic_id=FIRST, partition_id=0, isr=[1]))


def test_settings_are_set_changed_and_removed():
    def config(name, value, resource=""):
        return ConfigRecord(resource_type=4, resource_name=resource, name=name, value=value)

    first = image_of(config("a", "1"), config("b", "2"), config("a", "9", "1"))
    assert first.configs.of(4, "") == {"a": "1", "b": "2"}
    delta, second = replay(first, config("a", None), config("b", "3"))
    assert delta.configs.changed == {ConfigResource(4, ""): {"b": "3"}}
    assert first.configs.of(4, "") == {"a": "1", "b": "2"}
    assert second.configs.of(4, "") == {"b": "3"}
    _, third = replay(second, config("b", None))
    assert ConfigResource(4, "") not in third.configs.by_resource
    assert third.configs.of(4, "1") == {"a": "9"}


def test_brokers_register_change_and_leave():
    register = RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=10,
        incarnation_id=FIRST,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        rack="r",
        log_dirs=[SECOND, FIRST],
    )
    image = image_of(register)
    broker = image.cluster.brokers[1]
    assert broker.fenced
    assert not image.cluster.is_alive(1)
    assert broker.listeners["PLAINTEXT"].port == 9092
    assert broker.directories == (FIRST, SECOND)
    assert broker.cordoned_directories is None

    delta, image = replay(
        image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1)
    )
    assert delta.cluster.brokers.changed[1].fenced is False
    assert image.cluster.is_alive(1)
    _, image = replay(
        image,
        BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=10,
            in_controlled_shutdown=1,
            log_dirs=[SECOND],
            cordoned_log_dirs=[SECOND],
        ),
    )
    broker = image.cluster.brokers[1]
    assert broker.in_controlled_shutdown
    assert broker.directories == (SECOND,)
    assert not broker.has_uncordoned_directory
    _, image = replay(image, FenceBrokerRecord(id=1, epoch=10))
    assert image.cluster.brokers[1].fenced
    _, image = replay(image, UnfenceBrokerRecord(id=1, epoch=10))
    assert not image.cluster.brokers[1].fenced
    with pytest.raises(ReplayError, match="epoch 10"):
        replay(image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=1))
    delta, image = replay(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=10))
    assert delta.cluster.brokers.changed == {1: None}
    assert image.cluster.brokers == {}


def test_controllers():
    register = RegisterControllerRecord(controller_id=7)
    image = image_of(register)
    assert set(image.cluster.controllers) == {7}
    delta, image = replay(image, UnregisterControllerRecord(controller_id=7))
    assert delta.cluster.controllers.changed == {7: None}
    assert image.cluster.controllers == {}
    with pytest.raises(ReplayError, match="controller 7, which is not registered"):
        replay(image, UnregisterControllerRecord(controller_id=7))


def test_features():
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="kraft.version", feature_level=1),
    )
    assert image.features.metadata_version == 30
    assert image.features.finalized == {"metadata.version": 30, "group.version": 1}
    delta, image = replay(image, FeatureLevelRecord(name="group.version", feature_level=0))
    assert delta.features.changed == {"group.version": None}
    assert image.features.level("group.version") == 0


def test_eligible_leader_replicas_are_cleared():
    change = PartitionChangeRecord(
        topic_id=FIRST, partition_id=0, isr=[1], eligible_leader_replicas=[2], last_known_elr=[2]
    )
    image = image_of(*topic("a", FIRST, 2), change, *topic("b", SECOND))
    assert image.topics.partition("a", 0).elr == (2,)
    delta, cleared = replay(image, ClearElrRecord(topic_name="a"))
    assert cleared.topics.partition("a", 0).elr == ()
    assert cleared.topics.partition("a", 0).last_known_elr == ()
    assert cleared.topics.partition("a", 0).partition_epoch == 2
    assert list(delta.topics.changed[FIRST].partitions) == [0]
    _, cleared = replay(image, ClearElrRecord(topic_name=""))
    assert cleared.topics.partition("a", 0).elr == ()
    assert cleared.topics.partition("b", 0).partition_epoch == 0


def test_quotas_producer_ids_and_acls():
    user = EntityData(entity_type="user", entity_name="u")
    client = EntityData(entity_type="client-id", entity_name=None)
    quota = ClientQuotaRecord(entity=[user, client], key="producer_byte_rate", value=5.0)
    entry = AccessControlEntryRecord(
        id=FIRST, resource_type=2, resource_name="t", principal="User:u"
    )
    image = image_of(quota, ProducerIdsRecord(next_producer_id=1000), entry)
    entity = (("client-id", None), ("user", "u"))
    assert image.client_quotas == {entity: {"producer_byte_rate": 5.0}}
    assert image.next_producer_id == 1000
    assert image.acls[FIRST].resource_name == "t"
    gone = ClientQuotaRecord(entity=[client, user], key="producer_byte_rate", remove=True)
    _, image = replay(image, gone, RemoveAccessControlEntryRecord(id=FIRST))
    assert image.client_quotas == {}
    assert image.acls == {}
