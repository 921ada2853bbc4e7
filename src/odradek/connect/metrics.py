"""The numbers of a worker for Prometheus, with the names that the JMX exporter gives to those of Java.

`GET /metrics` of the REST API shows them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from odradek.connect.herder import Herder
from odradek.connect.sink_runner import SinkRunner
from odradek.connect.source_runner import SourceRunner
from odradek.core.connect.config_log import TaskId

_LABELS = ("connector", "task")
_SOURCE = "kafka_connect_source_task_metrics_source_record_write"
_SINK = "kafka_connect_sink_task_metrics_sink_record_send"
_WORKER = "kafka_connect_worker_metrics_"
_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
_ERRORS = "kafka_connect_task_error_metrics_"


class _Numbers:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def collect(self) -> Iterable[Metric]:
        """Return the present numbers."""
        tasks = self._herder.running_tasks()
        health = self._herder.health()
        here = self._herder.running_connectors()
        yield GaugeMetricFamily(_WORKER + "connector_count", "Connectors that run here.", len(here))
        yield GaugeMetricFamily(_WORKER + "task_count", "Tasks that run here.", len(tasks))
        shown = GaugeMetricFamily(
            "odradek_connect_connector_health",
            "1 for the health of a connector: HEALTHY, DEGRADED, FAILED or UNKNOWN.",
            labels=("connector", "health"),
        )
        for name, state in health.items():
            shown.add_metric((name, state), 1)
        yield shown
        yield from self._states(here, [task for task, _ in tasks])
        written = CounterMetricFamily(_SOURCE, "Records sent to topics.", labels=_LABELS)
        put = CounterMetricFamily(_SINK, "Records that sinks have taken.", labels=_LABELS)
        ages = GaugeMetricFamily(
            "odradek_connect_task_age_seconds", "Since the start of a task.", labels=_LABELS
        )
        kinds = {
            name: CounterMetricFamily(_ERRORS + name, text, labels=_LABELS)
            for name, text in (
                ("total_record_failures", "Failed operations on records."),
                ("total_records_skipped", "Records that were dropped."),
                ("total_retries", "Repeated operations."),
                ("deadletterqueue_produce_requests", "Dead letters."),
            )
        }
        for task, runner in tasks:
            labels = (task.connector, str(task.task))
            ages.add_metric(labels, time.monotonic() - runner.started_at)
            if isinstance(runner, SourceRunner | SinkRunner):
                records = written if isinstance(runner, SourceRunner) else put
                records.add_metric(labels, runner.record_count)
                counts = runner.errors.counts
                numbers = (counts.failures, counts.skipped, counts.retries, counts.dead_letters)
                for family, number in zip(kinds.values(), numbers, strict=True):
                    family.add_metric(labels, number)
        yield from (written, put, ages, *kinds.values())

    def _states(self, connectors: Iterable[str], tasks: Iterable[TaskId]) -> Iterable[Metric]:
        """Return the states of what runs here (ConnectorStatusMetricsGroup, ConnectorMetricsGroup)."""
        log = self._herder.statuses.log
        by_name: dict[str, Counter[str]] = {}
        of_task = GaugeMetricFamily(
            "kafka_connect_connector_task_metrics_status",
            "1 for the state of a task.",
            labels=(*_LABELS, "status"),
        )
        for task in tasks:
            status = log.task(task)
            state = "unassigned" if status is None else status.state.lower()
            by_name.setdefault(task.connector, Counter())[state] += 1
            of_task.add_metric((task.connector, str(task.task), state), 1)
        total = GaugeMetricFamily(
            f"{_WORKER}connector_total_task_count", "Tasks that run here.", labels=_LABELS[:1]
        )
        for name, counts in by_name.items():
            total.add_metric((name,), counts.total())
        yield total
        for state in _STATES:
            family = GaugeMetricFamily(
                f"{_WORKER}connector_{state}_task_count",
                f"Tasks here that are {state}.",
                labels=_LABELS[:1],
            )
            for name, counts in by_name.items():
                family.add_metric((name,), counts[state])
            yield family
        of_connector = GaugeMetricFamily(
            "kafka_connect_connector_metrics_status",
            "1 for the state of a connector.",
            labels=("connector", "connector_type", "connector_version", "status"),
        )
        for name in connectors:
            found = log.connector(name)
            if found is not None:
                kind, version = self._herder.kind(name), found.version or ""
                of_connector.add_metric((name, kind, version, found.state.lower()), 1)
        yield from (of_connector, of_task)


def metrics_text(herder: Herder) -> bytes:
    """Return the numbers in Prometheus' format."""
    registry = CollectorRegistry()
    registry.register(_Numbers(herder))
    return generate_latest(registry)
