"""The pipelines on a person's own data, in public formats with bad lines: DuckDB finds the same.

`tests/pipelines/own_kills.py` runs them on more data, and kills them.
"""

from __future__ import annotations

import io
import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from examples.activity import __main__ as activity
from examples.commitlog import __main__ as commitlog
from examples.commitlog import own as own_commitlog
from examples.metrics import __main__ as metrics
from examples.metrics import own as own_metrics
from examples.stages import __main__ as stages
from examples.suggestions import __main__ as suggestions
from pyspark.sql import functions as sf
from rich.console import Console
from tests.pipelines import samples

from odradek.client.admin.topics import delete_topics
from odradek.pipelines.arguments import Parser
from odradek.pipelines.own import stream
from odradek.pipelines.places import PipelineError, Places, StoppedError

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("transactions")]


@pytest.fixture
def run(spark, servers, cluster, tmp_path):
    """Runs a pipeline with options; returns what differs, the lines of the table, and the output."""
    output = tmp_path / "output"

    def run(module, *words, stopping=None):
        parser = Parser(prog="pipeline")
        module.add_arguments(parser)
        options = parser.parse_args([str(word) for word in words])
        module.check(options)
        console = Console(file=io.StringIO(), width=250)
        places = Places(spark, servers, output, is_continued=output.exists())
        if stopping is not None:
            places = replace(places, stopping=stopping)
        lines = module.run(console, places, options)
        found = {what: (expected, found) for what, expected, found in lines}
        wrong = {what for what, (expected, value) in found.items() if expected != value}
        return wrong, found, console.file.getvalue()

    yield run
    created = (output / "topics").read_text().splitlines() if output.exists() else []
    delete_topics(cluster, created)


class Endpoint:
    """Serves the text of Prometheus, with other values each time, and notes them."""

    def __init__(self):
        served = self.served = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                value = (len(served) * 7) % 11 + 0.25
                served.append(value)
                lines = (
                    "# TYPE load gauge",
                    f"load {value}",
                    f'requests_total{{path="/a b",code="200"}} {10 * value}',
                    "broken NaN",
                )
                self.send_response(200)
                self.end_headers()
                self.wfile.write("\n".join(lines).encode() + b"\n")

            def log_message(self, *words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.address}/metrics"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.long
@pytest.mark.cluster
class TestAll:
    """Each pipeline; `make proofs` runs these."""

    @pytest.mark.parametrize("name", ["shop.csv", "shop.csv.gz"])
    def test_activity(self, run, tmp_path, name):
        bad = samples.shop_events(tmp_path / name, 2000)
        wrong, found, shown = run(activity, "--input", tmp_path / name)
        assert not wrong, found
        assert found["lines that were given"] == (2000, 2000)
        assert found["lines that are no rows"] == (bad, bad)
        assert "is no row: its quotes are wrong" in shown
        assert "activity.png" in shown

    def test_stages(self, run, tmp_path):
        bad = samples.shop_events(tmp_path / "shop.csv", 2000)
        samples.products(tmp_path / "products.csv")
        words = ("--input", tmp_path / "shop.csv", "--reference", tmp_path / "products.csv")
        wrong, found, _ = run(stages, *words)
        assert not wrong, found
        assert found["lines that are no rows"][0] <= bad  # without a user it is a row

    @pytest.mark.parametrize("name", ["ratings.csv", "ratings.dat"])
    def test_suggestions(self, run, tmp_path, name):
        bad = samples.ratings(tmp_path / name, 2000)
        wrong, found, _ = run(suggestions, "--input", tmp_path / name)
        assert not wrong, found
        assert found["lines that are no rows"] == (bad, bad)
        assert found["suggestions"][0] > 0

    @pytest.mark.parametrize("make", [samples.prometheus, samples.otlp])
    def test_metrics(self, run, tmp_path, make):
        bad = make(tmp_path / "file", 1500)
        name = "node_load1" if make is samples.prometheus else "system.cpu"
        words = ("--input", tmp_path / "file", "--alert", f"{name}>0.4")
        wrong, found, _ = run(metrics, *words)
        assert not wrong, found
        assert found["lines that are no samples"] == (bad, bad)
        assert found["alerts"][0] > 0

    def test_an_endpoint_that_is_scraped(self, run, spark, servers, tmp_path):
        """The windows are those of what the endpoint says that it has served."""
        with Endpoint() as endpoint:
            words = ("--scrape", endpoint.url, "--seconds", "4", "--every", "0.3", "--window", "1s")
            wrong, found, _ = run(metrics, *words, "--alert", "load>4")
        assert not wrong, found
        _, *served = endpoint.served  # the first request only sees whether it answers
        places = Places(spark, servers, tmp_path / "output")
        windows = places.read(own_metrics.WINDOWS, own_metrics.WINDOW).collect()
        for name, factor in (("load", 1), ('requests_total{path="/a b",code="200"}', 10)):
            of_series = [each for each in windows if each.name == f"{name}@{endpoint.address}"]
            values = [factor * value for value in served]
            assert sum(each.samples for each in of_series) == len(values)
            total = sum(each["mean"] * each.samples for each in of_series)
            assert total == pytest.approx(sum(values))
            assert max(each["max"] for each in of_series) == max(values)
            at = 0
            for window in sorted(of_series, key=lambda each: each.start):
                part = values[at : at + window.samples]
                assert window["mean"] == pytest.approx(sum(part) / len(part))
                at += window.samples
        assert len({each.name for each in windows}) == 2

    def test_requests_of_an_exporter(self, run):
        """Requests that OpenTelemetry's exporter for Python (1.45) has made."""
        file = Path(samples.__file__).with_name("otlp_requests.jsonl")
        wrong, found, shown = run(metrics, "--input", file, "--window", "1s", "--alert", "cpu>0.15")
        assert not wrong, found
        assert found["samples in windows"] == (12, 12)
        labels = 'codes="",ok="true",path="/a",service.instance.id="a-1",service.name="shop"'
        assert f"requests{{{labels}}}" in shown
        assert found["alerts"][0] >= 1

    @pytest.mark.parametrize("words", [(), ("--follow", "--seconds", "8")])
    def test_a_topic(self, run, send, tmp_path, make_topic, words):
        samples.shop_events(tmp_path / "shop.csv", 1500)
        topic = make_topic(partitions=3)
        send(topic, [*values_of(tmp_path / "shop.csv"), "{", None])
        wrong, found, _ = run(activity, "--topic", topic, *words)
        assert not wrong, found
        assert found["lines that were given"] == (1502, 1502)


def values_of(path):
    names, *rows = path.read_text().splitlines()
    return [json.dumps(dict(zip(names.split(","), e.split(","), strict=False))) for e in rows]


@pytest.fixture
def send(spark, servers):
    """Writes values to a topic."""

    def send(topic, values):
        frame = spark.createDataFrame([(each,) for each in values], "value string")
        writer = frame.write.format("odradek").mode("append")
        writer.options(**{"kafka.bootstrap.servers": servers, "topic": topic}).save()

    return send


class Stop(threading.Event):
    """Asks the pipeline to stop when it waits for the first time, after `before` was called."""

    def __init__(self, before):
        super().__init__()
        self._before = before

    def wait(self, timeout=None):
        if not self.is_set():
            self._before()
            self.set()
        return super().wait(timeout)


def test_a_topic_that_is_followed(run, send, servers, spark, make_topic, tmp_path):
    """Its records come while the queries run, and while they do not run."""
    samples.changes(tmp_path / "changes.jsonl", 300)
    values = [*(tmp_path / "changes.jsonl").read_text().splitlines(), None]
    topic = make_topic()
    words = ("--topic", topic, "--follow")

    def applied():
        send(topic, values[:100])
        deadline = time.monotonic() + 100
        while not any(each.lastProgress for each in spark.streams.active):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for each in spark.streams.active:  # as the runner does
            each.stop()

    with pytest.raises(StoppedError):
        run(commitlog, *words, stopping=Stop(applied))
    send(topic, values[100:])
    wrong, found, shown = run(commitlog, *words, "--seconds", "1")
    assert not wrong, found
    assert found["lines that were given"] == (len(values), len(values))
    assert found["rows of the replica"][0] > 10
    send(topic, values[:1])
    wrong, found, shown = run(commitlog, *words)
    assert not wrong, found
    assert found["lines that were given"] == (len(values), len(values))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--follow",), "--follow needs --topic"),
        (("--seconds", "3"), "--seconds needs --follow"),
        (("--topic", "t", "--seconds", "3"), "--seconds needs --follow"),
    ],
)
def test_wrong_options_of_following(run, words, error):
    with pytest.raises(ValueError, match=error):
        run(commitlog, *words)


def changes(run, path, *words):
    return run(commitlog, "--input", path, *words)


def test_changes_of_a_database(run, tmp_path):
    path = tmp_path / "changes.jsonl"
    bad = samples.changes(path, 1000)
    wrong, found, shown = changes(run, path)
    assert not wrong, found
    assert found["lines that are no rows"] == (bad, bad)
    assert found["rows of the replica"][0] > 50
    assert "commitlog.png" in shown
    with path.open("a") as file:  # the output continues with what is added
        file.write('{"op": "c", "before": null, "after": {"id": "new"}}\n')
    rows = found["rows of the replica"][0]
    wrong, found, _ = changes(run, path)
    assert not wrong, found
    assert found["rows of the replica"] == (rows + 1, rows + 1)
    with pytest.raises(PipelineError, match="has the results of other input or options"):
        changes(run, path, "--key", "name")


def first_change(changed):
    first = sf.min_by(sf.struct("content"), sf.struct("partition", "offset")).alias("last")
    return changed.groupBy("row_key").agg(first).select("row_key", "last.content")


def without_deletes(rows, names):
    key = own_commitlog.key_of(names)
    return rows.select(key, sf.col("after").alias("content"), "partition", "offset").where(
        "content IS NOT NULL"
    )


def doubled_digits(text, kind):
    return sf.regexp_replace(text, "^([0-9])$", "1$1")


REPLICA = "rows of the replica that differ from DuckDB's"
REBUILT = "rows of the rebuilt table that differ from DuckDB's"


@pytest.mark.parametrize(
    ("module", "name", "bug", "seen"),
    [
        (own_commitlog, "newest", first_change, {REBUILT}),
        (own_commitlog, "changes", without_deletes, {REPLICA, REBUILT}),
        (stream, "_typed", doubled_digits, {"rows of the replica", "rows of the rebuilt table"}),
    ],
    ids=["the first change counts", "deletes are lost", "keys of one digit are others"],
)
def test_a_bug_in_the_stream_is_seen(run, tmp_path, monkeypatch, module, name, bug, seen):
    path = tmp_path / "changes.jsonl"
    samples.changes(path, 300)
    monkeypatch.setattr(module, name, bug)
    wrong, found, _ = changes(run, path)
    assert seen <= wrong, found


def test_a_wrong_mean_of_metrics_is_seen(run, tmp_path, monkeypatch):
    def by_largest(samples, settings):
        found = own_metrics_windows(samples, settings)
        return found.withColumn("mean", sf.col("max"))

    own_metrics_windows = own_metrics.windows
    monkeypatch.setattr(own_metrics, "windows", by_largest)
    samples.prometheus(tmp_path / "file", 300)
    wrong, found, _ = run(metrics, "--input", tmp_path / "file", "--window", "60s")
    assert wrong == {"windows that differ from DuckDB's"}, found
