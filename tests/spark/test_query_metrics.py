"""The progress of queries, as Prometheus reads it."""

from __future__ import annotations

import time
import urllib.request

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from odradek.spark import export_metrics
from odradek.spark.query_metrics import QueryMetrics

WAIT_SECONDS_MAX = 120.0


def progress(run_id="r1", batch=0, rows=10, **more):
    sources = [{"numInputRows": rows, **more}]
    return {
        "id": "q",
        "runId": run_id,
        "name": None,
        "batchId": batch,
        "processedRowsPerSecond": "NaN" if rows == 0 else 5.0,
        "durationMs": {"triggerExecution": 1500},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 100},
            {"numRowsTotal": 4, "memoryUsedBytes": 200},
        ],
        "sources": sources,
    }


def collected(metrics):
    return {
        sample.name.removeprefix("odradek_spark_query_"): sample.value
        for metric in metrics.collect()
        for sample in metric.samples
    }


def test_the_metrics_of_a_query():
    metrics = QueryMetrics()
    offsets = {"latestOffset": {"t": {"0": 50, "1": 7}}, "endOffset": {"t": {"0": 20, "1": 7}}}
    metrics.add(progress(rows=10))
    metrics.add(progress(batch=1, rows=20, **offsets))
    assert collected(metrics) == {
        "batches_total": 2,
        "rows_total": 30,
        "batch_id": 1,
        "rows_per_second": 5.0,
        "batch_duration_seconds": 1.5,
        "lag_records": 30,
        "state_rows": 7,
        "state_memory_bytes": 300,
    }
    metrics.add(progress(batch=1, rows=0))
    found = collected(metrics)
    assert (found["batches_total"], found["rows_total"], found["rows_per_second"]) == (2, 30, 0)
    assert "lag_records" not in found
    metrics.add(progress(run_id="r2", batch=2, rows=1))
    assert collected(metrics)["rows_total"] == 1, "the query was started again"


@pytest.mark.spark
def test_prometheus_reads_the_metrics_of_running_queries(spark, servers, make_topic, checkpoint):
    topic = make_topic()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(25):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    rows = spark.readStream.format("odradek").option("kafka.bootstrap.servers", servers)
    rows = rows.options(subscribe=topic, startingOffsets="earliest").load()
    counts = rows.groupBy("partition").count()
    writer = counts.writeStream.format("noop").outputMode("update").queryName("counting")

    def scrape(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text = response.read().decode()
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels["query"] == "counting"
        }

    def until(condition, port):
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition(found := scrape(port)):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found

    export = export_metrics(spark, 0)
    try:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            found = until(
                lambda them: them.get("odradek_spark_query_rows_total") == 25, export.port
            )
            assert found["odradek_spark_query_lag_records"] == 0
            assert found["odradek_spark_query_state_rows"] == 1
            assert found["odradek_spark_query_state_memory_bytes"] > 0
        finally:
            query.stop()
        until(lambda them: them == {}, export.port)
    finally:
        export.close()
