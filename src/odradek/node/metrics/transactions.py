"""The metrics of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, histogram, meter, one, own


def verifications(node: BrokerSources) -> Iterator[Metric]:
    """Yield the verifications of producers' transactions (KIP-890)."""
    found = node.broker.coordinators.verification
    pattern = "kafka.server:type=AddPartitionsToTxnManager,name="
    yield meter(
        f"{pattern}VerificationFailureRate",
        "Verifications that rejected a partition.",
        one(found.failures),
    )
    yield histogram(
        f"{pattern}VerificationTimeMs",
        "Milliseconds until the transaction coordinator has verified a request; 0 if it is this "
        "broker and answers at once.",
        one(found.times.read(0.001)),
    )


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
