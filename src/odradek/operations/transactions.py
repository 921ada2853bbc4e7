"""Which transactions may be aborted by hand."""

from __future__ import annotations

from odradek.client.admin.transactions import OpenTransaction, coordinated, open_transactions
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition

OPEN = frozenset(("Ongoing", "PrepareCommit", "PrepareAbort"))
"""The states of a transaction that has not ended."""
HANGING_MS = 900_000 + 300_000
"""The default of `transaction.max.timeout.ms`, plus 5 minutes as in Apache Kafka's tool."""


def beginning_at(cluster: Cluster, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    """Return the open transaction of a partition that begins at an offset.

    Raises:
        ClientError: there is none, or the leader does not respond.
    """
    for each in open_transactions(cluster, [partition]):
        if each.producer.current_txn_start_offset == start_offset:
            return each
    raise ClientError(f"No open transaction of {partition} begins at {start_offset}.")


def check_hangs(cluster: Cluster, found: OpenTransaction) -> None:
    """Check that no coordinator will end a transaction.

    Raises:
        ClientError: a coordinator will, or it does not respond.
    """
    ((_, known),) = coordinated(cluster, [found])
    if known is not None:
        raise ClientError(
            f"the transaction of {known.id} does not hang: it is in state {known.state}, and "
            "its coordinator will end it",
            f"See when it started: odradek transaction describe {known.id}",
        )
