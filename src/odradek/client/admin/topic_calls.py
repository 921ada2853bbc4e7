"""Topics, partitions and settings: a part of `Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from odradek.client import offsets
from odradek.client.admin import cluster as of_cluster
from odradek.client.admin import configs, reassignments, topics
from odradek.client.admin.calls import Calls, all_of, check_all, one_of
from odradek.client.admin.configs import Change, ConfigEntry, Resource
from odradek.client.admin.reassignments import PREFERRED, UNCLEAN, Reassignment
from odradek.client.admin.topics import CreatedTopic, NewTopic
from odradek.client.errors import ClientError
from odradek.client.metadata import Topic
from odradek.client.offsets import OffsetAndTime
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.describe_producers_response import ProducerState


class TopicCalls(Calls):
    """Calls about topics. All raise a ClientError if the cluster does not respond."""

    # -- topics ---------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic. Numbers of -1 are the broker's defaults.

        `assignments` has the replicas of each partition, instead of the numbers.

        Raises:
            BrokerError: it was not created, for example because it exists.
        """
        new = NewTopic(name, partitions, replication_factor, configs or {}, assignments)
        return one_of(topics.create_topics(self._cluster, [new], validate_only=validate_only))

    def create_topics(
        self, new: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics, or only validate the request.

        Raises:
            SomeFailedError: some were not created.
        """
        found = topics.create_topics(self._cluster, new, validate_only=validate_only)
        return all_of("topics to create", found)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records.

        Raises:
            BrokerError: it was not deleted, for example because it does not exist.
        """
        one_of(topics.delete_topics(self._cluster, [name]))

    def delete_topics(self, names: Iterable[str] = (), *, ids: Iterable[bytes] = ()) -> None:
        """Delete topics by their names, or by their ids (16 bytes each).

        Raises:
            SomeFailedError: some were not deleted.
        """
        found: dict[object, ClientError | None] = {}
        wanted, wanted_ids = list(names), list(ids)
        if wanted:
            found.update(topics.delete_topics(self._cluster, wanted))
        if wanted_ids:
            by_id = topics.delete_topics_by_id(self._cluster, wanted_ids)
            found.update({UUID(bytes=each): error for each, error in by_id.items()})
        check_all("topics to delete", found)

    def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """Return all topics that this client may describe, sorted by name."""
        return topics.list_topics(self._cluster, internal=internal)

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the partitions of topics, with leaders and replicas.

        Raises:
            SomeFailedError: some do not exist.
        """
        return all_of("topics to describe", topics.describe_topics(self._cluster, names))

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase the number of partitions of topics.

        `assignments` has the replicas of the new partitions.

        Raises:
            SomeFailedError: some were not changed.
        """
        found: dict[str, ClientError | None] = {}
        for name, count in counts.items():
            placed = None if assignments is None else assignments.get(name)
            try:
                topics.create_partitions(
                    self._cluster, name, count, assignments=placed, validate_only=validate_only
                )
                found[name] = None
            except ClientError as error:
                found[name] = error
        check_all("topics to change", found)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition; -1 is the high watermark.

        Return the first offsets that are left.

        Raises:
            SomeFailedError: records of some partitions were not deleted.
        """
        return all_of("partitions", topics.delete_records(self._cluster, before))

    def list_offsets(
        self,
        times: Mapping[TopicPartition, int],
        *,
        isolation: int = offsets.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTime]:
        """Return the first offset at or after a time (ms) in each partition.

        A time may also be LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL or LATEST_TIERED of
        `odradek.client.offsets`. The offset is -1 if there is none.

        Raises:
            SomeFailedError: some partitions have no answer.
        """
        found = offsets.list_offsets(self._cluster, times, isolation=isolation)
        return all_of("partitions", found)

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the active idempotent and transactional producers of partitions (KIP-664).

        Raises:
            SomeFailedError: some partitions have no answer.
        """
        return all_of("partitions", of_cluster.describe_producers(self._cluster, partitions))

    # -- replicas -------------------------------------------------------------------------------

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> None:
        """Make the preferred replicas the leaders, by default of all partitions (KIP-460).

        With `unclean`, partitions without a leader get one that is not in sync, and records may be lost.
        It is no error if no election is needed.

        Raises:
            SomeFailedError: some elections failed.
        """
        kind = UNCLEAN if unclean else PREFERRED
        check_all("partitions", reassignments.elect_leaders(self._cluster, kind, partitions))

    def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> None:
        """Begin to move partitions to these replicas (KIP-455). None cancels the move of a partition.

        Raises:
            SomeFailedError: some moves were refused.
        """
        check_all("partitions", reassignments.reassign(self._cluster, replicas))

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Return the partitions whose replicas are being moved."""
        return reassignments.list_reassignments(self._cluster)

    # -- settings -------------------------------------------------------------------------------

    def describe_configs(
        self,
        resources: Iterable[Resource],
        *,
        names: Sequence[str] | None = None,
        documentation: bool = False,
    ) -> dict[Resource, list[ConfigEntry]]:
        """Return the settings of topics, brokers, loggers, groups or client metrics, by name.

        Raises:
            SomeFailedError: some resources have no answer.
        """
        found = configs.describe_configs(
            self._cluster, resources, names=names, documentation=documentation
        )
        return all_of("resources", found)

    def incremental_alter_configs(
        self, changes: Mapping[Resource, Sequence[Change]], *, validate_only: bool = False
    ) -> None:
        """Change settings. Either all changes of a resource are applied, or none of them (KIP-339).

        Raises:
            SomeFailedError: some resources were not changed.
        """
        found = configs.alter_configs(self._cluster, changes, validate_only=validate_only)
        check_all("resources", found)

    def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """Return the resources that may have settings (KIP-1142), by default of all types."""
        return configs.list_config_resources(self._cluster, types)

    def list_client_metrics_resources(self) -> list[Resource]:
        """Return the subscriptions to metrics of clients (KIP-714)."""
        return configs.list_config_resources(self._cluster, [ResourceType.CLIENT_METRICS])
