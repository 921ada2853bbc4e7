"""The metrics of replication, under the names that Apache Kafka has."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.partitions.partition import Partition
from odradek.core.replica.fetch_states import Status
from odradek.node.metric_families import BrokerSources, Family, Sample, one


def replicas(node: BrokerSources) -> Iterator[Family]:
    """Yield the metrics of this broker's replicas. Most of them count partitions that it leads."""
    all_replicas = list(node.broker.replicas)
    led = [each for each in all_replicas if each.is_leader]
    missing = [_missing_for_min_isr(each) for each in led]
    prefix = "kafka_server_replicamanager"
    gauges = (
        ("partitioncount", "Replicas on this broker.", len(all_replicas)),
        ("leadercount", "Partitions that this broker leads.", len(led)),
        ("underreplicatedpartitions",
         "Partitions that this broker leads with fewer in-sync replicas than replicas.",
         sum(len(p.registration.isr) < len(p.registration.replicas) for p in led)),
        ("underminisrpartitioncount",
         "Partitions that this broker leads with fewer in-sync replicas than min.insync.replicas.",
         sum(each > 0 for each in missing)),
        ("atminisrpartitioncount",
         "Partitions that this broker leads with as many in-sync replicas as min.insync.replicas.",
         sum(each == 0 for each in missing)),
        ("reassigningpartitions", "Partitions that this broker leads and that are reassigned.",
         sum(p.registration.is_reassigning for p in led)),
        ("offlinereplicacount", "Replicas whose log directory has failed or is full.",
         node.broker.replicas.offline_count),
    )  # fmt: skip
    for name, text, value in gauges:
        yield Family(f"{prefix}_{name}", "gauge", text, one(value))
    changes = node.replication.isr_changes
    for name, text, value in (
        ("isrshrinks", "Changes in which replicas left an ISR.", changes.shrinks),
        ("isrexpands", "Changes in which replicas joined an ISR.", changes.expands),
        ("failedisrupdates", "Changes of an ISR that the controller has rejected.",
         changes.failures),
    ):  # fmt: skip
        yield Family(f"{prefix}_{name}", "counter", text, one(value))
    for name, text, value in (
        ("replicationbytesin", "Bytes of record batches fetched from leaders.",
         sum(each.replication_bytes_in for each in all_replicas)),
        ("replicationbytesout", "Bytes of record batches sent to followers.",
         sum(each.replication_bytes_out for each in all_replicas)),
    ):  # fmt: skip
        yield Family(f"kafka_server_brokertopicmetrics_{name}", "counter", text, one(value))


def _missing_for_min_isr(partition: Partition) -> int:
    """Return the number of in-sync replicas that are missing; negative if there are more."""
    registration = partition.registration
    needed = min(partition.log.config.min_insync_replicas, len(registration.replicas))
    return needed - len(registration.isr)


def log_directories(node: BrokerSources) -> Iterator[Family]:
    """Yield the states of the log directories."""
    directories = node.broker.storage.logs.directories
    yield Family(
        "kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log directories that have failed.",
        one(sum(each.is_offline for each in directories)),
    )  # fmt: skip
    yield Family(
        "kafka_log_logmanager_logdirectoryoffline", "gauge", "1 if a log directory has failed.",
        [Sample({"logdirectory": each.path}, int(each.is_offline)) for each in directories],
    )  # fmt: skip


def fetchers(node: BrokerSources) -> Iterator[Family]:
    """Yield the metrics of the partitions that this broker follows."""
    followed = node.replication.fetchers.followed()
    lags = [(leader, state, max(0, state.lag)) for leader, state in followed]
    prefix = "kafka_server_replicafetchermanager"
    labels = {"clientid": "Replica"}
    yield Family(
        f"{prefix}_maxlag", "gauge", "The largest number of committed records that a replica lacks.",
        [Sample(labels, max((lag for _, _, lag in lags), default=0))],
    )  # fmt: skip
    yield Family(
        f"{prefix}_failedpartitionscount", "gauge",
        "Partitions that are not fetched until a new leader is elected.",
        [Sample(labels, sum(state.status is Status.FAILED for _, state in followed))],
    )  # fmt: skip
    yield Family(
        "kafka_server_fetcherlagmetrics_consumerlag", "gauge",
        "Committed records that this broker's replica of a partition lacks.",
        [
            Sample(
                {
                    "clientid": f"ReplicaFetcherThread-0-{leader}",
                    "topic": state.topic,
                    "partition": str(state.key.partition),
                },
                lag,
            )
            for leader, state, lag in lags
        ],
    )  # fmt: skip
    throttles = node.replication.throttles
    now_ms = node.replication.now_ms()
    for role, throttle in (("leader", throttles.leader), ("follower", throttles.follower)):
        yield Family(
            f"kafka_server_{role}replication_byte_rate", "gauge",
            f"Bytes per second of throttled partitions that this broker replicates as {role}.",
            one(throttle.per_second(now_ms)),
        )  # fmt: skip
