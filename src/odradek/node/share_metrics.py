"""The metrics of share groups (see `metrics`)."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.share.dead_letters import DeadLetterWriter
from odradek.broker.share.local import LocalSharePartition
from odradek.core.share.states import ACCEPT, REJECT, RELEASE, RENEW
from odradek.node.metric_families import BrokerSources, Family, Sample, one

_TYPES = {ACCEPT: "accept", RELEASE: "release", REJECT: "reject", RENEW: "renew"}


def share_groups(node: BrokerSources) -> Iterator[Family]:
    """Yield the metrics of share sessions and share partitions."""
    manager = node.broker.share_partitions
    sessions = manager.sessions
    prefix = "kafka_server_sharesessioncache"
    yield Family(f"{prefix}_sharesessionscount", "gauge", "Share sessions.", one(len(sessions)))
    yield Family(
        f"{prefix}_sharepartitionscount", "gauge", "Partitions in share sessions.",
        one(sessions.partition_count),
    )  # fmt: skip
    yield Family(
        f"{prefix}_sharesessionevictions", "counter",
        "Share sessions whose connection was closed.", one(sessions.evictions),
    )  # fmt: skip
    acknowledged = dict(manager.acknowledged)
    yield Family(
        "kafka_server_sharegroupmetrics_recordacknowledgement", "counter",
        "Acknowledged records.",
        [Sample({"ackType": name}, acknowledged.get(kind, 0)) for kind, name in _TYPES.items()],
    )  # fmt: skip
    yield from _dead_letters(manager.dead_letters)
    found = [
        (
            {
                "group": local.group_id,
                "topic": local.partition.topic,
                "partition": str(local.partition.index),
            },
            local,
        )
        for local in list(manager)
    ]
    prefix = "kafka_server_sharepartitionmetrics"
    yield Family(
        f"{prefix}_inflightmessagecount", "gauge", "Records in flight.",
        [Sample(labels, each.machine.in_flight_count) for labels, each in found],
    )  # fmt: skip
    yield Family(
        f"{prefix}_inflightbatchcount", "gauge", "Batches in flight.",
        [Sample(labels, each.machine.batch_count) for labels, each in found],
    )  # fmt: skip
    yield Family(
        f"{prefix}_acquisitionlocktimeout", "counter", "Records whose lock has expired.",
        [Sample(labels, each.expired_count) for labels, each in found],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_start_offset", "gauge",
        "First offset of a share partition that is not complete.",
        [Sample(labels, each.machine.start_offset) for labels, each in found],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_waiting_fetches", "gauge",
        "ShareFetch requests that wait for records of a share partition.",
        [Sample(labels, len(each.waiters)) for labels, each in found],
    )  # fmt: skip
    yield from _records(found)


def _records(found: list[tuple[dict[str, str], LocalSharePartition]]) -> Iterator[Family]:
    """Yield the metrics of the records in flight."""
    counted = [(labels, each, each.machine.census()) for labels, each in found]
    yield Family(
        "odradek_share_partition_acquired_records", "gauge",
        "Records that members have acquired.",
        [Sample(labels, census.acquired) for labels, _, census in counted],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_released_records", "gauge",
        "Records that were delivered, and wait for another delivery.",
        [Sample(labels, census.available) for labels, _, census in counted],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_deferred_records", "gauge",
        "Records that wait for their time, or for the end of a back-off.",
        [Sample(labels, census.deferred) for labels, _, census in counted],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_deliveries", "gauge",
        "Acquired and released records, by the number of their deliveries.",
        [
            Sample({**labels, "deliveries": str(deliveries)}, number)
            for labels, _, census in counted
            for deliveries, number in sorted(census.deliveries.items())
        ],
    )  # fmt: skip
    yield Family(
        "odradek_share_partition_oldest_lock_seconds", "gauge",
        "Age of the oldest acquisition lock.",
        [
            Sample(labels, each.lock_age_ms(census.first_expiration_ms) / 1000)
            for labels, each, census in counted
            if census.first_expiration_ms is not None
        ],
    )  # fmt: skip


def _dead_letters(writer: DeadLetterWriter) -> Iterator[Family]:
    """Yield the metrics of dead letters, for each group that has had some."""
    prefix = "kafka_server_sharegroupmetrics_deadletterqueue"
    for name, counter, text in (
        (f"{prefix}recordcount", writer.written, "Dead letters."),
        (f"{prefix}totalproducerequests", writer.appends, "Attempts to append dead letters."),
        (f"{prefix}failedproducerequests", writer.failed_appends, "Appends that were given up."),
        ("odradek_share_dead_letters_lost", writer.lost, "Dead letters that were not written."),
    ):
        samples = [Sample({"group": group}, number) for group, number in list(counter.items())]
        yield Family(name, "counter", text, samples)
