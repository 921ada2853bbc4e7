"""The metrics of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, one, own


def transactions(node: BrokerSources) -> Iterator[Metric]:
    """Yield the numbers of transactional ids and transactions."""
    coordinator = node.broker.coordinators.transactions
    yield own(
        "odradek_transactional_ids",
        "Transactional ids by state.",
        [((phase,), count) for phase, count in coordinator.count_by_phase().items()],
        "state",
    )
    yield own(
        "odradek_transactions_ending",
        "Transactions whose markers are being written.",
        one(coordinator.ending_count),
    )
