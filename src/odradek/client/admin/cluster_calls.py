"""Brokers, the quorum, rights and limits: a part of `Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from odradek.client.address import Address
from odradek.client.admin import acls, features, quotas, tokens, users
from odradek.client.admin import cluster as of_cluster
from odradek.client.admin.calls import Calls, all_of, check_all
from odradek.client.admin.cluster import ClusterInfo, Feature, LogDir, Quorum
from odradek.client.admin.features import UpgradeType
from odradek.client.admin.quotas import Entity
from odradek.client.admin.tokens import Token
from odradek.client.admin.users import NewCredential
from odradek.client.errors import ClientError
from odradek.core.authorizer.filters import AclFilter
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.topic_partition import TopicPartition

Replica = tuple[int, TopicPartition]
"""A broker and a partition."""


class ClusterCalls(Calls):
    """Calls about the cluster. All raise a ClientError if it does not respond, or refuses."""

    # -- brokers and controllers ------------------------------------------------------------------

    def describe_cluster(self) -> ClusterInfo:
        """Return the cluster's id, controller and brokers, fenced ones included."""
        return of_cluster.describe_cluster(self._cluster)

    def describe_features(self) -> list[Feature]:
        """Return the features of a broker, with their finalized levels (KIP-584)."""
        return of_cluster.features(self._cluster.any())

    def update_features(
        self,
        levels: Mapping[str, int],
        kind: UpgradeType = UpgradeType.UPGRADE,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set the levels of features: all of them, or none."""
        features.update_features(self._cluster, levels, kind, validate_only=validate_only)

    def describe_metadata_quorum(self) -> Quorum:
        """Return the voters and observers of the metadata log (KIP-595)."""
        return of_cluster.describe_quorum(self._cluster)

    def add_raft_voter(
        self, voter_id: int, directory_id: bytes, listeners: Mapping[str, Address]
    ) -> None:
        """Add a controller to the voters (KIP-853), with the addresses of its listeners by name."""
        of_cluster.add_voter(self._cluster, voter_id, directory_id, listeners)

    def remove_raft_voter(self, voter_id: int, directory_id: bytes) -> None:
        """Remove a controller from the voters (KIP-853)."""
        of_cluster.remove_voter(self._cluster, voter_id, directory_id)

    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker that has stopped from the cluster."""
        of_cluster.unregister_broker(self._cluster, broker_id)

    def client_instance_id(self) -> UUID:
        """Return an id for the telemetry of this client (KIP-714)."""
        return of_cluster.client_instance_id(self._cluster)

    # -- log directories ----------------------------------------------------------------------------

    def describe_log_dirs(self, brokers: Iterable[int]) -> dict[int, list[LogDir]]:
        """Return the log directories of brokers, with the sizes of their partitions.

        Raises:
            SomeFailedError: some brokers have no answer.
        """
        found: dict[int, list[LogDir] | ClientError] = {}
        for each in brokers:
            try:
                found[each] = of_cluster.describe_log_dirs(self._cluster, each)
            except ClientError as error:
                found[each] = error
        return all_of("brokers", found)

    def describe_replica_log_dirs(
        self, replicas: Iterable[Replica]
    ) -> dict[Replica, tuple[str | None, str | None]]:
        """Return in which directory each replica is, and to which one it moves; None if there is none.

        Raises:
            BrokerError: a broker does not exist.
        """
        by_broker: dict[int, list[TopicPartition]] = {}
        for broker, partition in replicas:
            by_broker.setdefault(broker, []).append(partition)
        found: dict[Replica, tuple[str | None, str | None]] = {}
        for broker, partitions in by_broker.items():
            directories = of_cluster.describe_log_dirs(self._cluster, broker, partitions)
            for each in partitions:
                holding = [directory for directory in directories if each in directory.sizes]
                found[broker, each] = (
                    next((d.path for d in holding if each not in d.future), None),
                    next((d.path for d in holding if each in d.future), None),
                )
        return found

    def alter_replica_log_dirs(self, paths: Mapping[Replica, str]) -> None:
        """Move replicas into other log directories of their brokers (KIP-113).

        Raises:
            SomeFailedError: some moves were refused.
        """
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        for (broker, partition), path in paths.items():
            by_broker.setdefault(broker, {})[partition] = path
        found: dict[Replica, ClientError | None] = {}
        for broker, wanted in by_broker.items():
            results = of_cluster.alter_replica_log_dirs(self._cluster, broker, wanted)
            found |= {(broker, partition): each for partition, each in results.items()}
        check_all("replicas", found)

    # -- rights -------------------------------------------------------------------------------------

    def describe_acls(self, wanted: AclFilter) -> list[AccessControlEntry]:
        """Return the ACLs that a filter selects, in order."""
        return acls.list_acls(self._cluster, wanted)

    def create_acls(self, entries: Sequence[AccessControlEntry]) -> None:
        """Create ACLs. ACLs that exist already are not an error."""
        acls.create_acls(self._cluster, entries)

    def delete_acls(self, wanted: AclFilter) -> int:
        """Delete the ACLs that a filter selects; return their number."""
        return acls.delete_acls(self._cluster, wanted)

    def describe_user_scram_credentials(
        self, users_wanted: Iterable[str] | None = None
    ) -> dict[str, Mapping[str, int]]:
        """Return the iterations of users' credentials by mechanism, by default of all users.

        Raises:
            SomeFailedError: some users have no credential.
        """
        return all_of("users", users.describe_users(self._cluster, users_wanted))

    def upsert_user_scram_credential(self, user: str, new: NewCredential) -> None:
        """Create or replace the credential of a user for one mechanism (KIP-554)."""
        users.set_credential(self._cluster, user, new)

    def delete_user_scram_credential(self, user: str, mechanism: str) -> None:
        """Remove the credential of a user for one mechanism."""
        users.remove_credential(self._cluster, user, mechanism)

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = -1
    ) -> Token:
        """Create a token for this client, or for another owner ("User:alice")."""
        return tokens.create_token(
            self._cluster, owner=owner, renewers=renewers, lifetime_ms=lifetime_ms
        )

    def renew_delegation_token(self, token: Token, period_ms: int = -1) -> int:
        """Let a token expire later; return the time at which it expires, in ms since 1970."""
        return tokens.renew_token(self._cluster, token, period_ms)

    def expire_delegation_token(self, token: Token, period_ms: int = -1) -> int:
        """Let a token expire after a time, or at once if the time is negative; return when."""
        return tokens.expire_token(self._cluster, token, period_ms)

    def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[Token]:
        """Return the tokens of some owners, or all, that this client may see."""
        return tokens.describe_tokens(self._cluster, owners)

    # -- limits ---------------------------------------------------------------------------------------

    def describe_client_quotas(
        self, parts: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> dict[Entity, dict[str, float]]:
        """Return the limits of the entities with these names ("user", "client-id", "ip"; KIP-546).

        A name of None is the default. With `strict`, entities with a further kind are not returned.
        """
        return quotas.describe_quotas(self._cluster, parts, strict=strict)

    def alter_client_quotas(
        self, entity: Entity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set limits of an entity by name; None removes a limit. All changes are made, or none."""
        quotas.alter_quotas(self._cluster, entity, changes, validate_only=validate_only)
