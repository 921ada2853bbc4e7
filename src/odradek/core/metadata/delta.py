"""The changes that records make to a metadata image, and the image after these changes.

`replay` applies one record. Call it for all records in the order of the log. The delta has the
changes grouped by kind (topics, cluster, configs, ...). Readers may keep the delta but must not
modify it. If the records are a complete snapshot, `finish_snapshot` removes everything that the
snapshot does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from odradek.core.metadata.changes import MapChanges
from odradek.core.metadata.errors import ReplayError
from odradek.core.metadata.image import (
    AccessControlEntry,
    BrokerRegistration,
    ClientQuotaEntity,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ControllerRegistration,
    DelegationToken,
    FeaturesImage,
    MetadataImage,
    ScramCredential,
)
from odradek.core.metadata.releases import unsupported
from odradek.core.metadata.topics_delta import TopicDelta, TopicsDelta
from odradek.core.metadata.versions import KRAFT_VERSION, LEVEL_MAX, LEVEL_MIN, METADATA_VERSION
from odradek.model.config_resource import ResourceType
from odradek.wire.primitives import Message

if TYPE_CHECKING:
    from odradek.wire.generated.access_control_entry_record import AccessControlEntryRecord
    from odradek.wire.generated.broker_registration_change_record import (
        BrokerRegistrationChangeRecord,
    )
    from odradek.wire.generated.client_quota_record import ClientQuotaRecord
    from odradek.wire.generated.config_record import ConfigRecord
    from odradek.wire.generated.delegation_token_record import DelegationTokenRecord
    from odradek.wire.generated.feature_level_record import FeatureLevelRecord
    from odradek.wire.generated.fence_broker_record import FenceBrokerRecord
    from odradek.wire.generated.producer_ids_record import ProducerIdsRecord
    from odradek.wire.generated.register_broker_record import RegisterBrokerRecord
    from odradek.wire.generated.register_controller_record import RegisterControllerRecord
    from odradek.wire.generated.remove_access_control_entry_record import (
        RemoveAccessControlEntryRecord,
    )
    from odradek.wire.generated.remove_delegation_token_record import RemoveDelegationTokenRecord
    from odradek.wire.generated.remove_topic_record import RemoveTopicRecord
    from odradek.wire.generated.remove_user_scram_credential_record import (
        RemoveUserScramCredentialRecord,
    )
    from odradek.wire.generated.unfence_broker_record import UnfenceBrokerRecord
    from odradek.wire.generated.unregister_broker_record import UnregisterBrokerRecord
    from odradek.wire.generated.unregister_controller_record import UnregisterControllerRecord
    from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["ClusterDelta", "MetadataDelta", "NestedChanges", "TopicDelta", "TopicsDelta"]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class ClusterDelta:
    """Changes to brokers and controllers, in `brokers.changed` and `controllers.changed`."""

    __slots__ = ("brokers", "controllers")

    def __init__(self, before: ClusterImage) -> None:
        self.brokers: MapChanges[int, BrokerRegistration] = MapChanges(before.brokers)
        self.controllers: MapChanges[int, ControllerRegistration] = MapChanges(before.controllers)

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        """Return the current registration of a broker.

        Raises:
            ReplayError: the broker is not registered, or has another epoch.
        """
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "not registered" if broker is None else f"in epoch {broker.epoch}"
            raise ReplayError(f"a record changes broker {broker_id}, epoch {epoch}: it is {known}")
        return broker

    def set_fenced(self, broker_id: int, epoch: int, fenced: bool) -> None:
        """Fence or unfence a broker."""
        self.brokers.put(broker_id, self.broker(broker_id, epoch)._replace(fenced=fenced))

    def apply(self, before: ClusterImage) -> ClusterImage:
        """Return all nodes after the changes."""
        if not self.brokers.changed and not self.controllers.changed:
            return before
        return ClusterImage(self.brokers.apply(), self.controllers.apply())


class NestedChanges(MapChanges[KeyT, Mapping[str, ValueT]]):
    """Changes to the named values of entities. An entity without values has no entry."""

    __slots__ = ("_open",)

    def __init__(self, before: Mapping[KeyT, Mapping[str, ValueT]]) -> None:
        super().__init__(before)
        self._open: dict[KeyT, dict[str, ValueT]] = {}

    def set(self, key: KeyT, name: str, value: ValueT | None) -> None:
        """Set a named value of an entity. If `value` is None, remove the named value."""
        values = self._open.get(key)
        if values is None:
            values = self._open[key] = dict(self.get(key) or {})
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
        if values:
            self.put(key, values)
        else:
            super().remove(key)

    def remove(self, key: KeyT) -> None:
        """Remove all values of an entity."""
        self._open.pop(key, None)
        super().remove(key)

    def begin_snapshot(self) -> None:
        """Remove the values of all entities, because a complete snapshot follows."""
        for key in self.before:
            self.remove(key)


class MetadataDelta:
    """The changes that records make to `image_before`.

    `topics` is a `TopicsDelta`, `cluster` is a `ClusterDelta`. `features`, `configs`,
    `client_quotas`, `acls`, `scram` and `delegation_tokens` are `MapChanges` of the mappings in the
    image. `next_producer_id` is the value after the changes.
    """

    __slots__ = (
        "acls",
        "client_quotas",
        "cluster",
        "configs",
        "delegation_tokens",
        "features",
        "image_before",
        "next_producer_id",
        "scram",
        "topics",
    )

    def __init__(self, image_before: MetadataImage) -> None:
        self.image_before = image_before
        self.features: MapChanges[str, int] = MapChanges(image_before.features.finalized)
        self.cluster = ClusterDelta(image_before.cluster)
        self.topics = TopicsDelta(image_before.topics)
        self.configs: NestedChanges[ConfigResource, str] = NestedChanges(
            image_before.configs.by_resource
        )
        self.client_quotas: NestedChanges[ClientQuotaEntity, float] = NestedChanges(
            image_before.client_quotas
        )
        self.next_producer_id = image_before.next_producer_id
        self.acls: MapChanges[bytes, AccessControlEntry] = MapChanges(image_before.acls)
        self.scram: MapChanges[tuple[int, str], ScramCredential] = MapChanges(image_before.scram)
        self.delegation_tokens: MapChanges[str, DelegationToken] = MapChanges(
            image_before.delegation_tokens
        )

    @classmethod
    def of_snapshot(cls, image_before: MetadataImage) -> MetadataDelta:
        """Return a delta for the records of a complete snapshot.

        Call `finish_snapshot` after the last record.
        """
        delta = cls(image_before)
        delta.configs.begin_snapshot()
        delta.client_quotas.begin_snapshot()
        delta.next_producer_id = -1
        return delta

    def replay(self, record: Message) -> None:
        """Apply the next record.

        Raises:
            ReplayError: the record contradicts earlier records, or has an unknown type.
        """
        replay = _REPLAY.get(cast("int", record.API_KEY))
        if replay is None:
            raise ReplayError(f"records of type {record.API_KEY} do not change the image")
        replay(self, record)

    def finish_snapshot(self) -> None:
        """Remove everything that the replayed snapshot did not contain."""
        self.topics.finish_snapshot()
        self.features.remove_unmentioned()
        self.cluster.brokers.remove_unmentioned()
        self.cluster.controllers.remove_unmentioned()
        self.acls.remove_unmentioned()
        self.scram.remove_unmentioned()
        self.delegation_tokens.remove_unmentioned()

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """Return the image after the changes. The last record has this offset and leader epoch."""
        before = self.image_before
        return MetadataImage(
            offset,
            epoch,
            FeaturesImage(self.features.apply()) if self.features.changed else before.features,
            self.cluster.apply(before.cluster),
            self.topics.apply(),
            ConfigsImage(self.configs.apply()) if self.configs.changed else before.configs,
            self.client_quotas.apply(),
            self.next_producer_id,
            self.acls.apply(),
            self.scram.apply(),
            self.delegation_tokens.apply(),
        )

    # -- one method per record type, except the types that `TopicsDelta` replays ----

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.cluster.brokers.put(record.broker_id, BrokerRegistration.from_record(record))

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.cluster.brokers.remove(record.broker_id)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self.cluster.set_fenced(record.id, record.epoch, fenced=True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self.cluster.set_fenced(record.id, record.epoch, fenced=False)

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self.cluster.broker(record.broker_id, record.broker_epoch)
        self.cluster.brokers.put(broker.id, broker.changed_by(record))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        registration = ControllerRegistration.from_record(record)
        self.cluster.controllers.put(registration.id, registration)

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        if self.cluster.controllers.get(record.controller_id) is None:
            raise ReplayError(
                f"a record unregisters controller {record.controller_id}, which is not registered"
            )
        self.cluster.controllers.remove(record.controller_id)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self.topics.replay_remove_topic(record)
        self.configs.remove(ConfigResource(ResourceType.TOPIC, name))

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.configs.set(resource, record.name, record.value)

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION:
            if not LEVEL_MIN <= record.feature_level <= LEVEL_MAX:
                raise ReplayError(unsupported(record.feature_level))
        elif record.name == KRAFT_VERSION:
            return  # some old logs have this record; only the control records count (KAFKA-18979)
        if record.feature_level == 0:
            self.features.remove(record.name)
        else:
            self.features.put(record.name, record.feature_level)

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        self.client_quotas.set(entity, record.key, None if record.remove else record.value)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _acl(self, record: AccessControlEntryRecord) -> None:
        entry = AccessControlEntry(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.acls.put(record.id, entry)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.acls.get(record.id) is None:
            raise ReplayError("a record removes an ACL that does not exist")
        self.acls.remove(record.id)

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self.scram.put(
            (record.mechanism, record.name),
            ScramCredential(
                bytes(record.salt),
                bytes(record.stored_key),
                bytes(record.server_key),
                record.iterations,
            ),
        )

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram.remove((record.mechanism, record.name))

    def _delegation_token(self, record: DelegationTokenRecord) -> None:
        token = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )
        self.delegation_tokens.put(record.token_id, token)

    def _remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens.remove(record.token_id)


def _nothing(delta: MetadataDelta, record: Message) -> None:
    """Ignore the record: NoOp, or the state of a migration from ZooKeeper."""


_REPLAY: dict[int, Callable[[MetadataDelta, Any], None]] = {
    0: MetadataDelta._register_broker,
    1: MetadataDelta._unregister_broker,
    2: lambda delta, record: delta.topics.replay_topic(record),
    3: lambda delta, record: delta.topics.replay_partition(record),
    4: MetadataDelta._config,
    5: lambda delta, record: delta.topics.replay_partition_change(record),
    7: MetadataDelta._fence_broker,
    8: MetadataDelta._unfence_broker,
    9: MetadataDelta._remove_topic,
    10: MetadataDelta._delegation_token,
    11: MetadataDelta._scram,
    12: MetadataDelta._feature_level,
    14: MetadataDelta._client_quota,
    15: MetadataDelta._producer_ids,
    17: MetadataDelta._change_broker,
    18: MetadataDelta._acl,
    19: MetadataDelta._remove_acl,
    20: _nothing,
    21: _nothing,
    22: MetadataDelta._remove_scram,
    26: MetadataDelta._remove_delegation_token,
    27: MetadataDelta._register_controller,
    28: lambda delta, record: delta.topics.replay_clear_elr(record),
    29: MetadataDelta._unregister_controller,
}
"""The replay method by record type. `batch_loader` processes the records of transactions."""
