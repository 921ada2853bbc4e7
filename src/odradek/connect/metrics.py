"""The numbers of a worker for Prometheus, with the names that the JMX exporter gives to those of Java.

`GET /metrics` of the REST API shows them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from odradek.connect.herder import Herder
from odradek.connect.sink_runner import SinkRunner
from odradek.connect.source_runner import SourceRunner

_LABELS = ("connector", "task")
_SOURCE = "kafka_connect_source_task_metrics_source_record_write"
_SINK = "kafka_connect_sink_task_metrics_sink_record_send"
_ERRORS = "kafka_connect_task_error_metrics_"


class _Numbers:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def collect(self) -> Iterable[Metric]:
        """Return the present numbers."""
        tasks = self._herder.running_tasks()
        health = self._herder.health()
        worker = "kafka_connect_worker_metrics_"
        yield GaugeMetricFamily(worker + "connector_count", "Connectors.", len(health))
        yield GaugeMetricFamily(worker + "task_count", "Tasks that run here.", len(tasks))
        shown = GaugeMetricFamily(
            "odradek_connect_connector_health",
            "1 for the health of a connector: HEALTHY, DEGRADED, FAILED or UNKNOWN.",
            labels=("connector", "health"),
        )
        for name, state in health.items():
            shown.add_metric((name, state), 1)
        yield shown
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


def metrics_text(herder: Herder) -> bytes:
    """Return the numbers in Prometheus' format."""
    registry = CollectorRegistry()
    registry.register(_Numbers(herder))
    return generate_latest(registry)
