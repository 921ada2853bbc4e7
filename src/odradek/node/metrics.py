"""The node's metrics for Prometheus.

Metrics are computed only during a scrape. Each section of metrics is a function that reads the
parts of the node and yields families with their samples.

Most metrics have the names that dashboards for Apache Kafka expect: the JMX names, converted by the
usual rules of the JMX exporter. Metrics that Apache Kafka does not have begin with `odradek_`.

`metrics_server` calls these functions on another thread. Therefore the functions first copy
collections that may change, and then iterate over the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from odradek.env.event_loop import NodeSelector
from odradek.network.authentications import Outcome
from odradek.node import controller_metrics, quota_metrics, replication_metrics, share_metrics
from odradek.node.metric_families import BrokerSources, Family, MetricSources, Sample, one
from odradek.telemetry.request_metrics import RequestMetrics

WALKS_MAX = 10
"""Maximum number of attempts to read a section."""


def families(node: MetricSources) -> Iterator[Family]:
    """Yield all metrics of a node."""
    for section in (
        _requests,
        _network,
        quota_metrics.clients,
        quota_metrics.connections,
        controller_metrics.metadata,
        controller_metrics.quorum,
        controller_metrics.controller,
    ):
        yield from _walk(partial(section, node))
    if node.of_broker is None:
        return
    for of_broker in (
        _topics,
        replication_metrics.replicas,
        replication_metrics.fetchers,
        replication_metrics.log_directories,
        _fetch_sessions,
        _cold_reads,
        _groups,
        share_metrics.share_groups,
        _transactions,
        _cleaner,
        _client_telemetry,
    ):
        yield from _walk(partial(of_broker, node.of_broker))


def _walk(section: Callable[[], Iterator[Family]]) -> list[Family]:
    """Return the families of a section.

    Another thread may change the data at the same time. If a dictionary grows during the iteration,
    Python raises a RuntimeError. Then the section is read again.
    """
    for _ in range(WALKS_MAX - 1):
        try:
            return list(section())
        except RuntimeError:
            continue
    return list(section())


def _topics(node: BrokerSources) -> Iterator[Family]:
    partitions = [
        p for topic in list(node.broker.replicas.by_name.values()) for p in list(topic.values())
    ]
    sums: dict[str, list[int]] = {}
    for partition in partitions:
        total = sums.setdefault(partition.topic, [0, 0, 0])
        total[0] += partition.records_in
        total[1] += partition.bytes_in
        total[2] += partition.bytes_out
    for at, (name, text) in enumerate(
        (
            ("messagesin", "Records appended."),
            ("bytesin", "Bytes of record batches appended."),
            ("bytesout", "Bytes of record batches sent to consumers."),
        )
    ):
        samples = [Sample({"topic": topic}, total[at]) for topic, total in sums.items()]
        yield Family(f"kafka_server_brokertopicmetrics_{name}", "counter", text, samples)
    logs = [({"topic": p.topic, "partition": str(p.index)}, p.log) for p in partitions]
    for name, text, read in (
        ("size", "Bytes of a partition's log.", lambda each: each.size),
        ("logstartoffset", "First offset of a partition.", lambda each: each.log_start_offset),
        ("logendoffset", "Offset of the next record.", lambda each: each.log_end_offset),
        ("numlogsegments", "Segments of a partition.", lambda each: len(each.segments)),
    ):
        samples = [Sample(labels, read(each)) for labels, each in logs]
        yield Family(f"kafka_log_log_{name}", "gauge", text, samples)


def _fetch_sessions(node: BrokerSources) -> Iterator[Family]:
    sessions = node.broker.fetch_sessions
    prefix = "kafka_server_fetchsessioncache"
    for name, text, value in (
        ("numincrementalfetchsessions", "Fetch sessions.", len(sessions)),
        ("numincrementalfetchpartitionscached", "Partitions in fetch sessions.",
         sessions.partitions),
    ):  # fmt: skip
        yield Family(f"{prefix}_{name}", "gauge", text, one(value))
    yield Family(
        f"{prefix}_incrementalfetchsessionevictions", "counter",
        "Fetch sessions that were removed to make room for others.", one(sessions.evictions),
    )  # fmt: skip


def _requests(node: MetricSources) -> Iterator[Family]:
    entries = list(node.dispatcher.entries.values())
    prefix = "kafka_network_requestmetrics"

    def counted(read: Callable[[RequestMetrics], float]) -> list[Sample]:
        return [
            Sample({"request": each.name}, read(each.metrics))
            for each in entries
            if each.metrics.count
        ]

    yield Family(f"{prefix}_requests", "counter", "Requests.", counted(lambda e: e.count))
    yield Family(
        f"{prefix}_errors",
        "counter",
        "Requests that failed as a whole.",
        counted(lambda e: e.errors),
    )
    yield Family(
        f"{prefix}_requestbytes", "counter", "Bytes of requests.", counted(lambda e: e.bytes_in)
    )
    yield Family(
        f"{prefix}_responsebytes", "counter", "Bytes of responses.", counted(lambda e: e.bytes_out)
    )
    times = []
    for entry in entries:
        metrics = entry.metrics
        if not metrics.count:
            continue
        labels = {"request": entry.name}
        for quantile in (0.5, 0.95, 0.99, 0.999):
            value = metrics.quantile_us(quantile) / 1000
            times.append(Sample({**labels, "quantile": str(quantile)}, value))
        times.append(Sample(labels, metrics.count, "_count"))
        times.append(Sample(labels, metrics.sum_us / 1000, "_sum"))
    text = (
        "Milliseconds from the dispatch of a request to its response. "
        "Quantiles are upper bounds, exact to a factor of 2."
    )
    yield Family(f"{prefix}_totaltimems", "summary", text, times)


_AUTHENTICATIONS = "Authentications by TLS or SASL, by their outcome."


def _network(node: MetricSources) -> Iterator[Family]:
    server = node.server
    by_listener = {endpoint.name: 0 for endpoint in server.endpoints}
    for connection in list(server.connections):
        by_listener[connection.peer.listener] += 1
    yield Family(
        "kafka_server_socket_server_metrics_connection_count", "gauge", "Open connections.",
        [Sample({"listener": name}, count) for name, count in by_listener.items()],
    )  # fmt: skip
    for outcome in Outcome:
        counts = server.authentications.of(outcome)
        yield Family(
            f"kafka_server_socket_server_metrics_{outcome.value}", "counter", _AUTHENTICATIONS,
            [Sample({"listener": name}, count) for name, count in counts],
        )  # fmt: skip
    counters = (
        ("odradek_network_bytes_in", "Bytes received.", server.bytes_in),
        ("odradek_network_bytes_out", "Bytes sent.", server.bytes_out),
        ("odradek_network_connections_accepted", "Connections accepted.", server.connections_accepted),
        ("odradek_network_connections_refused", "Connections rejected because of a limit.",
         server.connections_refused),
        ("odradek_network_frames_refused",
         "Connections closed because of a request of an invalid size.", server.frames_refused),
        ("odradek_requests_refused",
         "Connections closed because of a request that is malformed or not served.",
         node.dispatcher.requests_refused),
    )  # fmt: skip
    for name, text, value in counters:
        yield Family(name, "counter", text, one(value))
    if node.selector is not None:
        yield from _event_loop(node.selector)


def _cold_reads(node: BrokerSources) -> Iterator[Family]:
    reads = node.broker.cold_reads
    for name, text, value in (
        ("odradek_cold_reads", "Fetch responses that waited for the disk.", reads.answers),
        ("odradek_cold_read_bytes", "Bytes that these responses had to read from the disk.",
         reads.bytes),
    ):  # fmt: skip
        yield Family(name, "counter", text, one(value))


def _event_loop(selector: NodeSelector) -> Iterator[Family]:
    text = "Iterations of the event loop."
    yield Family("odradek_loop_turns", "counter", text, one(selector.turns))
    yield Family(
        "odradek_loop_pause_seconds_max", "gauge",
        "Duration of the longest iteration of the event loop since the last scrape.",
        one(selector.take_pause_max()),
    )  # fmt: skip


def _groups(node: BrokerSources) -> Iterator[Family]:
    groups = node.broker.coordinators.groups
    states = groups.count_by_state()
    name = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    yield Family(name, "gauge", "Groups that this broker coordinates.", one(sum(states.values())))
    yield Family(
        "odradek_groups", "gauge", "Groups by type and state.",
        [
            Sample({"type": kind.value, "state": state}, count)
            for (kind, state), count in states.items()
        ],
    )  # fmt: skip
    yield Family(
        "odradek_group_rebalances", "counter", "Rebalances of groups.",
        [Sample({"type": k.value}, count) for k, count in groups.count_rebalances().items()],
    )  # fmt: skip
    lags, offsets = [], []
    by_name = node.broker.replicas.by_name
    for group, topic, index, offset in groups.committed_offsets():
        labels = {"consumergroup": group, "topic": topic, "partition": str(index)}
        offsets.append(Sample(labels, offset))
        partition = by_name.get(topic, {}).get(index)
        if partition is not None:
            lags.append(Sample(labels, max(0, partition.log.high_watermark - offset)))
    yield Family("kafka_consumergroup_current_offset", "gauge", "Committed offsets.", offsets)
    text = "High watermark of a partition minus the committed offset of a group."
    yield Family("kafka_consumergroup_lag", "gauge", text, lags)


def _cleaner(node: BrokerSources) -> Iterator[Family]:
    cleaner = node.broker.storage.logs.cleaner
    if cleaner is None:
        return
    last = cleaner.statistics
    waited_ms = max(0, node.broker.clock.now_ms() - last.last_look_ms)
    gauges = (
        ("logcleaner_max_clean_time_secs",
         "Seconds that the last compaction took.", last.elapsed_ms / 1000),
        ("logcleaner_cleaner_recopy_percent",
         "Bytes that the last compaction wrote, in percent of the bytes that it read.",
         100 * last.recopy_ratio),
        ("logcleaner_max_buffer_utilization_percent",
         "Percentage of the table of keys that the last compaction used.",
         100 * last.map_utilization),
        ("logcleaner_max_compaction_delay_secs",
         "Seconds by which the last compaction exceeded max.compaction.lag.ms, or 0.",
         last.max_compaction_delay_ms / 1000),
        ("logcleanermanager_max_dirty_percent",
         "Highest percentage of uncompacted bytes in a log.",
         100 * last.max_dirty_ratio),
        ("logcleanermanager_time_since_last_run_ms",
         "Milliseconds since the cleaner last checked all logs.", waited_ms),
    )  # fmt: skip
    for name, text, value in gauges:
        yield Family(f"kafka_log_{name}", "gauge", text, one(value))
    yield Family(
        "kafka_log_logcleanermanager_uncleanable_partitions_count", "gauge",
        "Partitions whose compaction failed.",
        [Sample({"logdirectory": path}, count) for path, count in cleaner.uncleanable.items()],
    )  # fmt: skip
    yield Family("odradek_log_cleaner_rounds", "counter", "Compactions.", one(last.rounds))
    yield Family(
        "odradek_log_cleaner_deaths",
        "counter",
        "Workers that died during a compaction.",
        one(last.deaths),
    )


def _transactions(node: BrokerSources) -> Iterator[Family]:
    transactions = node.broker.coordinators.transactions
    phases = transactions.count_by_phase()
    yield Family(
        "odradek_transactional_ids", "gauge", "Transactional ids by state.",
        [Sample({"state": phase}, count) for phase, count in phases.items()],
    )  # fmt: skip
    yield Family(
        "odradek_transactions_ending", "gauge", "Transactions whose markers are being written.",
        one(transactions.ending_count),
    )  # fmt: skip
    offsets = [
        (partition, partition.log.high_watermark - partition.log.last_stable_offset)
        for partition in list(node.broker.replicas)
    ]
    yield Family(
        "odradek_partition_undecided_records", "gauge",
        "Records from the first open transaction on. Consumers with read_committed wait for them.",
        [Sample({"topic": p.topic, "partition": str(p.index)}, n) for p, n in offsets if n],
    )  # fmt: skip


def _client_telemetry(node: BrokerSources) -> Iterator[Family]:
    by_name: dict[str, list[Sample]] = {}
    for client, numbers in list(node.broker.client_telemetry.numbers()):
        for (name, attributes), value in list(numbers.items()):
            labels = {_name(key): text for key, text in attributes}
            labels["client_id"] = client["client_id"]
            labels["client_instance_id"] = client["client_instance_id"]
            by_name.setdefault(_name(name), []).append(Sample(labels, value))
    for name, samples in by_name.items():
        yield Family(f"kafka_client_{name}", "gauge", "Metric of clients (KIP-714).", samples)


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
