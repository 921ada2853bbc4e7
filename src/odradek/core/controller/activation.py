"""The records that a controller writes when it becomes the active controller.

If the log is empty, the controller writes the bootstrap records, which the formatting of the node
has stored. It writes them in a metadata transaction if metadata.version supports transactions. If
the previous controller left a transaction open, the controller first aborts this transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.core.controller.configs import MIN_INSYNC_REPLICAS
from odradek.core.metadata.errors import MetadataError
from odradek.core.metadata.releases import unsupported
from odradek.core.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    LEVEL_MAX,
    LEVEL_MIN,
    LEVEL_TRANSACTIONS,
    METADATA_VERSION,
)
from odradek.model.config_resource import ResourceType
from odradek.wire.generated.abort_transaction_record import AbortTransactionRecord
from odradek.wire.generated.begin_transaction_record import BeginTransactionRecord
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.end_transaction_record import EndTransactionRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.primitives import Message

TRANSACTION_NAME = "Bootstrap records"
ABORT_REASON = "Controller failover"


def bootstrap_records(
    bootstrap: Sequence[Message], min_insync_replicas: int, in_transaction: bool
) -> list[Message]:
    """Return the first records of a cluster.

    `bootstrap` has the records that formatting has stored. `in_transaction` is True if an earlier
    attempt was interrupted. Then the first record aborts the transaction of that attempt.

    Raises:
        MetadataError: the records do not finalize metadata.version, or another level than those
            that this node supports.
    """
    levels = {
        each.name: each.feature_level for each in bootstrap if isinstance(each, FeatureLevelRecord)
    }
    level = levels.get(METADATA_VERSION, 0)
    if not level:
        raise MetadataError(f"the node was formatted without {METADATA_VERSION}; format it again")
    if not LEVEL_MIN <= level <= LEVEL_MAX:
        raise MetadataError(unsupported(level))
    records: list[Message] = [*bootstrap]
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        # With ELR, min.insync.replicas has one value for all brokers. So the log must contain this
        # value (KIP-966).
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name="",
                name=MIN_INSYNC_REPLICAS,
                value=str(min_insync_replicas),
            )
        )
    if level >= LEVEL_TRANSACTIONS:
        begin = BeginTransactionRecord(name=TRANSACTION_NAME)
        records = [begin, *records, EndTransactionRecord()]
    return [*abort_records(in_transaction), *records]


def abort_records(in_transaction: bool) -> list[Message]:
    """Return the records that abort the open transaction, if there is one."""
    return [AbortTransactionRecord(reason=ABORT_REASON)] if in_transaction else []
