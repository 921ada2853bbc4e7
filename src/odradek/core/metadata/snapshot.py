"""Converts an image to the records of a metadata snapshot.

The first record has metadata.version, because it determines the format of the other records. Data
that the finalized level does not support is omitted, as in Apache Kafka's image writer.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.core.metadata import versions
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigsImage,
    ControllerRegistration,
    DelegationToken,
    FeaturesImage,
    MetadataImage,
    PartitionRegistration,
    TopicsImage,
    Uuid,
)
from odradek.core.metadata.versions import METADATA_VERSION
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.generated.partition_record import PartitionRecord
from odradek.wire.generated.producer_ids_record import ProducerIdsRecord
from odradek.wire.generated.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from odradek.wire.generated.topic_record import TopicRecord
from odradek.wire.primitives import Message


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Return the smallest set of records that creates this image from an empty image."""
    level = image.features.metadata_version
    yield from _features(image.features)
    yield from _cluster(image.cluster, level)
    yield from _topics(image.topics, level)
    yield from _configs(image.configs)
    yield from _client_quotas(image)
    if image.next_producer_id >= 0:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    yield from _acls(image)
    if level >= versions.LEVEL_SCRAM:
        yield from _scram(image)
    if level >= versions.LEVEL_DELEGATION_TOKENS:
        yield from _delegation_tokens(image)


def delta_between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return a delta from `before` to `after`.

    Like the delta of a snapshot, this delta marks everything in `after` as changed.
    """
    delta = MetadataDelta.of_snapshot(before)
    for record in image_records(after):
        delta.replay(record)
    delta.finish_snapshot()
    return delta


def _features(features: FeaturesImage) -> Iterator[Message]:
    if features.metadata_version:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=features.metadata_version)
    for name, level in features.finalized.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)


def _cluster(cluster: ClusterImage, level: int) -> Iterator[Message]:
    for broker in cluster.brokers.values():
        yield broker_record(broker, level)
    if level >= versions.LEVEL_CONTROLLER_REGISTRATION:
        for controller in cluster.controllers.values():
            yield _controller_record(controller)


def broker_record(broker: BrokerRegistration, level: int) -> RegisterBrokerRecord:
    """Return the record that contains this registration, at a level of metadata.version."""
    with_directories = level >= versions.LEVEL_DIRECTORIES
    with_cordons = level >= versions.LEVEL_CORDONED_DIRECTORIES
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker
        and level >= versions.LEVEL_ZK_MIGRATION,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(**each._asdict()) for each in broker.listeners.values()],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories) if with_directories else [],
        cordoned_log_dirs=list(cordoned) if with_cordons and cordoned is not None else None,
    )


def _controller_record(controller: ControllerRegistration) -> Message:
    from odradek.wire.generated.register_controller_record import (
        ControllerEndpoint,
        ControllerFeature,
        RegisterControllerRecord,
    )

    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[ControllerEndpoint(**each._asdict()) for each in controller.listeners.values()],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )


def _topics(topics: TopicsImage, level: int) -> Iterator[Message]:
    for topic in topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.id, index, partition, level)


def partition_record(
    topic_id: Uuid, index: int, partition: PartitionRegistration, level: int
) -> PartitionRecord:
    """Return the record that contains this registration, at a level of metadata.version."""
    with_elr = level >= versions.LEVEL_ELR
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if level >= versions.LEVEL_DIRECTORIES else [],
        eligible_leader_replicas=list(partition.elr) if with_elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr)
        if with_elr and partition.last_known_elr
        else None,
    )


def _configs(configs: ConfigsImage) -> Iterator[Message]:
    for resource, settings in configs.by_resource.items():
        for name, value in settings.items():
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )


def _client_quotas(image: MetadataImage) -> Iterator[Message]:
    from odradek.wire.generated.client_quota_record import ClientQuotaRecord, EntityData

    for entity, quotas in image.client_quotas.items():
        for key, value in quotas.items():
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _acls(image: MetadataImage) -> Iterator[Message]:
    from odradek.wire.generated.access_control_entry_record import AccessControlEntryRecord

    for entry_id, entry in image.acls.items():
        yield AccessControlEntryRecord(id=entry_id, **entry._asdict())


def _scram(image: MetadataImage) -> Iterator[Message]:
    from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord

    for (mechanism, user), credential in image.scram.items():
        yield UserScramCredentialRecord(name=user, mechanism=mechanism, **credential._asdict())


def _delegation_tokens(image: MetadataImage) -> Iterator[Message]:
    for token_id, token in image.delegation_tokens.items():
        yield token_record(token_id, token)


def token_record(token_id: str, token: DelegationToken) -> Message:
    """Return the record that contains this delegation token."""
    from odradek.wire.generated.delegation_token_record import DelegationTokenRecord

    return DelegationTokenRecord(
        token_id=token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
    )
