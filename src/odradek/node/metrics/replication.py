"""The metrics of replication."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.core.replica.fetch_states import Status
from odradek.node.metrics.partitions import missing_for_min_isr
from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, attribute, gauge, meter, one


def replicas(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of this broker's replicas. Most of them count partitions that it leads."""
    all_replicas = list(node.broker.replicas)
    led = [each for each in all_replicas if each.is_leader]
    missing = [missing_for_min_isr(each) for each in led]
    pattern = "kafka.server:type=ReplicaManager,name="
    for name, text, value in (
        ("PartitionCount", "Replicas on this broker.", len(all_replicas)),
        ("LeaderCount", "Partitions that this broker leads.", len(led)),
        (
            "UnderReplicatedPartitions",
            "Partitions that this broker leads with fewer in-sync replicas than replicas.",
            sum(len(p.registration.isr) < len(p.registration.replicas) for p in led),
        ),
        (
            "UnderMinIsrPartitionCount",
            "Partitions that this broker leads with fewer in-sync replicas than min.insync.replicas.",
            sum(each > 0 for each in missing),
        ),
        (
            "AtMinIsrPartitionCount",
            "Partitions that this broker leads with as many in-sync replicas as min.insync.replicas.",
            sum(each == 0 for each in missing),
        ),
        (
            "ReassigningPartitions",
            "Partitions that this broker leads and that are reassigned.",
            sum(p.registration.is_reassigning for p in led),
        ),
        (
            "ProducerIdCount",
            "Producers that the replicas on this broker know.",
            sum(len(each.log.producers.entries) for each in all_replicas),
        ),
        (
            "OfflineReplicaCount",
            "Replicas whose log directory has failed or is full.",
            node.broker.replicas.offline_count,
        ),
    ):
        yield gauge(f"{pattern}{name}", text, one(value))
    changes = node.replication.isr_changes
    for name, text, value in (
        ("IsrShrinksPerSec", "Changes in which replicas left an ISR.", changes.shrinks),
        ("IsrExpandsPerSec", "Changes in which replicas joined an ISR.", changes.expands),
        (
            "FailedIsrUpdatesPerSec",
            "Changes of an ISR that the controller has rejected.",
            changes.failures,
        ),
    ):
        yield meter(f"{pattern}{name}", text, one(value))


def fetchers(node: BrokerSources) -> Iterator[Metric]:
    """Yield the metrics of the partitions that this broker follows."""
    followed = node.replication.fetchers.followed()
    lags = [(leader, state, max(0, state.lag)) for leader, state in followed]
    pattern = "kafka.server:type=ReplicaFetcherManager,name={},clientId=Replica"
    yield gauge(
        pattern.format("MaxLag"),
        "The largest number of committed records that a replica lacks.",
        one(max((lag for _, _, lag in lags), default=0)),
    )
    yield gauge(
        pattern.format("FailedPartitionsCount"),
        "Partitions that are not fetched until a new leader is elected.",
        one(sum(state.status is Status.FAILED for _, state in followed)),
    )
    rates = node.replication.rates
    sent = node.replication.fetchers.requests_sent()
    yield gauge(
        pattern.format("MinFetchRate"),
        "Fetch requests per second to the leader that gets the fewest, averaged over a minute.",
        one(min((rates.averages(*each)[0] for each in sent.items()), default=0.0)),
    )
    yield gauge(
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=*",
        "Committed records that this broker's replica of a partition lacks.",
        [
            ((f"ReplicaFetcherThread-0-{leader}", state.topic, str(state.key.partition)), lag)
            for leader, state, lag in lags
        ],
    )
    throttles = node.replication.throttles
    now_ms = node.replication.now_ms()
    for role, throttle in (("Leader", throttles.leader), ("Follower", throttles.follower)):
        yield attribute(
            f"kafka.server:type={role}Replication",
            "byte-rate",
            "Bytes per second of throttled partitions that this broker replicates as "
            f"{role.lower()}.",
            one(throttle.per_second(now_ms)),
        )
