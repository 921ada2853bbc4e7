"""Groups and transactions: a part of `Admin`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.client import commits
from odradek.client.admin import groups, share_groups, transactions
from odradek.client.admin.calls import Calls, all_of, check_all
from odradek.client.admin.groups import Group, GroupListing
from odradek.client.admin.share_groups import ShareGroup, StartOffset
from odradek.client.admin.transactions import OpenTransaction, Transaction, TransactionListing
from odradek.client.errors import BrokerError, ClientError
from odradek.client.group_metadata import CommittedOffset
from odradek.client.producer.transactions import TransactionalProducer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

CONSUMER_TYPES = ("consumer", "classic")
_PROTOCOL_TYPES = ("consumer", "")


class GroupCalls(Calls):
    """Calls about groups and transactions. All raise a ClientError if a coordinator does not respond."""

    # -- groups of any type -----------------------------------------------------------------------

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """Return the groups of all brokers, sorted by id. `states` and `types` filter them.

        Types are "classic", "consumer", "share" and "streams".
        """
        return groups.list_groups(self._cluster, states=states, types=types)

    def list_consumer_groups(self, *, states: Sequence[str] = ()) -> list[GroupListing]:
        """Return the groups of consumers, of the classic protocol and of KIP-848."""
        found = self.list_groups(states=states, types=CONSUMER_TYPES)
        return [each for each in found if each.protocol_type in _PROTOCOL_TYPES]

    def describe_groups(self, ids: Iterable[str]) -> dict[str, Group]:
        """Return groups of any type except share groups, with their members and assignments.

        Raises:
            SomeFailedError: some groups do not exist.
        """
        return all_of("groups to describe", groups.describe_groups(self._cluster, ids))

    def describe_consumer_groups(self, ids: Iterable[str]) -> dict[str, Group]:
        """Return groups of consumers, of the classic protocol and of KIP-848 (see `describe_groups`)."""
        return self._of_types(ids, *CONSUMER_TYPES)

    def describe_classic_groups(self, ids: Iterable[str]) -> dict[str, Group]:
        """Return groups of the classic protocol, of any protocol type (see `describe_groups`)."""
        return self._of_types(ids, "classic")

    def describe_streams_groups(self, ids: Iterable[str]) -> dict[str, Group]:
        """Return groups of Kafka Streams (KIP-1071, see `describe_groups`)."""
        return self._of_types(ids, "streams")

    def _of_types(self, ids: Iterable[str], *types: str) -> dict[str, Group]:
        found = groups.describe_groups(self._cluster, ids)
        for name, each in found.items():
            if isinstance(each, Group) and each.type not in types:
                found[name] = BrokerError(
                    ErrorCode.GROUP_ID_NOT_FOUND, f"It is a {each.type} group.", f"group {name}"
                )
        return all_of("groups to describe", found)

    def delete_groups(self, ids: Iterable[str]) -> None:
        """Delete groups of any type without members, with their offsets.

        Raises:
            SomeFailedError: some were not deleted, for example because they have members.
        """
        check_all("groups to delete", groups.delete_groups(self._cluster, ids))

    delete_consumer_groups = delete_groups
    delete_share_groups = delete_groups
    delete_streams_groups = delete_groups

    def remove_members_from_consumer_group(
        self, group: str, instance_ids: Iterable[str] | None = None, *, reason: str = ""
    ) -> None:
        """Remove static members of a classic group by their instance ids, by default all members.

        Raises:
            SomeFailedError: some are not members.
            BrokerError: there is no such group.
        """
        check_all("members", groups.remove_members(self._cluster, group, instance_ids, reason))

    # -- offsets ------------------------------------------------------------------------------------

    def list_consumer_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group, by default of all partitions that have one."""
        return commits.fetch_offsets(self._cluster, group, partitions)

    def alter_consumer_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> None:
        """Commit offsets of a group without members.

        Raises:
            SomeFailedError: some were not committed.
        """
        wanted = {
            partition: each if isinstance(each, CommittedOffset) else CommittedOffset(each)
            for partition, each in offsets.items()
        }
        check_all("partitions", commits.commit_offsets(self._cluster, group, wanted))

    def delete_consumer_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> None:
        """Delete committed offsets of partitions that no member subscribes to.

        Raises:
            SomeFailedError: some were not deleted.
        """
        check_all("partitions", commits.delete_offsets(self._cluster, group, partitions))

    list_streams_group_offsets = list_consumer_group_offsets
    alter_streams_group_offsets = alter_consumer_group_offsets
    delete_streams_group_offsets = delete_consumer_group_offsets

    # -- share groups -------------------------------------------------------------------------------

    def describe_share_groups(self, ids: Iterable[str]) -> dict[str, ShareGroup]:
        """Return share groups with their members (KIP-932).

        Raises:
            SomeFailedError: some do not exist.
        """
        return all_of("groups to describe", share_groups.describe_share_groups(self._cluster, ids))

    def list_share_group_offsets(self, group: str) -> dict[TopicPartition, StartOffset]:
        """Return the start offsets of a share group.

        Raises:
            SomeFailedError: some partitions have no answer.
        """
        found = share_groups.describe_start_offsets(self._cluster, group)
        return all_of("partitions", found)

    def alter_share_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the start offsets of a share group without members.

        Raises:
            SomeFailedError: some were not set.
        """
        found = share_groups.alter_start_offsets(self._cluster, group, offsets)
        check_all("partitions", found)

    def delete_share_group_offsets(self, group: str, topics: Iterable[str]) -> None:
        """Delete the state of a share group without members in some topics.

        Raises:
            SomeFailedError: some were not deleted.
        """
        check_all("topics", share_groups.delete_start_offsets(self._cluster, group, topics))

    # -- transactions -------------------------------------------------------------------------------

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers that match the filters, sorted by id."""
        return transactions.list_transactions(
            self._cluster,
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            pattern=pattern,
        )

    def describe_transactions(self, ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the states of transactional ids.

        Raises:
            SomeFailedError: some ids are unknown.
        """
        found = transactions.describe_transactions(self._cluster, ids)
        return all_of("transactional ids", found)

    def fence_producers(self, ids: Iterable[str]) -> dict[str, TransactionalProducer]:
        """Abort the transactions of transactional ids, and let their producers write no more.

        Return the producer ids and epochs that fence them.

        Raises:
            SomeFailedError: some were not fenced.
        """
        return all_of("transactional ids", transactions.fence_producers(self._cluster, ids))

    def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort the transaction of a transactional id, also a prepared one, and fence its producer.

        Raises:
            BrokerError: the coordinator refuses.
        """
        found = transactions.fence_producers(self._cluster, [transactional_id])[transactional_id]
        if isinstance(found, ClientError):
            raise found

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Abort a hanging transaction in one partition, regardless of its coordinator (KIP-664).

        Raises:
            BrokerError: the leader refuses.
        """
        transactions.abort_transaction(self._cluster, transaction)
