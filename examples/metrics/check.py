"""Computes with DuckDB, from the metrics that were given, windows and alerts, and compares them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from duckdb import DuckDBPyConnection

from examples.metrics import own, queries
from examples.metrics.formats import KINDS_OF_VALUE, OF_RESOURCE, OTLP, PROMETHEUS
from examples.metrics.own import ALERTS, WINDOWS, Settings
from examples.metrics.sampling import CLOCK
from odradek.pipelines.own import given
from odradek.pipelines.own.given import Given, count, differing
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.own.source import Source
from odradek.pipelines.places import Line, Places

LINE = (
    r"^([a-zA-Z_:][\w:]*(?:\{.*\})?)[ \t]+([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"(?:[ \t]+(-?\d{1,15}))?[ \t]*$"
)
OF_TEXT = """
CREATE TABLE samples AS
WITH found AS (
    SELECT *, regexp_extract(text, $line, ['series', 'value', 'ms']) AS part FROM rows
)
SELECT concat_ws('@', part.series, instance) AS name,
    coalesce(epoch_ms(try_cast(part.ms AS BIGINT))::TIMESTAMPTZ, "at") AS time,
    try_cast(part.value AS DOUBLE) AS value
FROM found WHERE part.series <> ''
"""
_LABEL = "lambda a: (a->>'key') || '=\"' || coalesce({}, '') || '\"'".format(
    ", ".join(f"a->'value'->>'{kind}'" for kind in KINDS_OF_VALUE)
)
_RESOURCE = ", ".join(f"'{each}'" for each in OF_RESOURCE)
OF_REQUESTS = f"""
CREATE TABLE samples AS
WITH resources AS (
    SELECT unnest(json_extract(metrics::JSON, '$[*]')) AS r FROM rows
), metrics AS (
    SELECT json_extract(r, '$.resource.attributes[*]') AS resource,
        unnest(json_extract(r, '$.scopeMetrics[*].metrics[*]')) AS m FROM resources
), points AS (
    SELECT resource, m->>'name' AS metric, unnest(list_concat(
        json_extract(m, '$.gauge.dataPoints[*]'), json_extract(m, '$.sum.dataPoints[*]'))) AS p
    FROM metrics
), labelled AS (
    SELECT *, list_sort(list_concat(
        list_transform(list_filter(resource, lambda a: (a->>'key') IN ({_RESOURCE})), {_LABEL}),
        list_transform(json_extract(p, '$.attributes[*]'), {_LABEL}))) AS labels FROM points
)
SELECT CASE WHEN len(labels) = 0 THEN metric
        ELSE metric || '{{' || array_to_string(labels, ',') || '}}' END AS name,
    make_timestamptz(try_cast(p->>'timeUnixNano' AS BIGINT) // 1000) AS time,
    try_cast(coalesce(p->>'asDouble', p->>'asInt') AS DOUBLE) AS value
FROM labelled
WHERE metric IS NOT NULL AND try_cast(p->>'timeUnixNano' AS BIGINT) IS NOT NULL
    AND try_cast(coalesce(p->>'asDouble', p->>'asInt') AS DOUBLE) IS NOT NULL
"""
OF_ROWS = "CREATE TABLE samples AS SELECT name, time, value FROM rows"
EXPECTED = """
CREATE TABLE expected AS
SELECT name, time_bucket(to_seconds($window), time, TIMESTAMPTZ '1970-01-01 00:00:00Z') AS start,
    count(*) AS samples, avg(value) AS mean, max(value) AS max
FROM samples GROUP BY ALL
"""
DIFFERING = """
FROM expected e FULL JOIN windows w USING (name, start)
WHERE NOT coalesce(e.samples = w.samples AND e.max = w.max
    AND abs(e.mean - w.mean) <= 1e-9 * greatest(abs(e.mean), 1e-300), false)
"""
WINDOW = {
    "name": "VARCHAR", "start": "TIMESTAMPTZ", "samples": "BIGINT", "mean": "DOUBLE", "max": "DOUBLE",
}  # fmt: skip
Named = tuple[str, float, str]
"""A metric, the highest mean without an alert, and the text of the alert."""
ALERT = {"name": "VARCHAR", "start": "TIMESTAMPTZ", "rule": "VARCHAR"}


def reconcile(places: Places, source: Source, kind: str, settings: Settings) -> list[Line]:
    """Return lines of (what, expected, found)."""
    with given.connect() as database:
        table = Given(database, source.fields)
        source.load(places, table)
        table.finish()
        if kind == PROMETHEUS:
            database.execute(OF_TEXT, {"line": LINE})
        else:
            database.execute(OF_REQUESTS if kind == OTLP else OF_ROWS)
        lines = count(database, "FROM given")
        samples = count(database, "FROM samples")
        bad = lines - samples if kind == PROMETHEUS else count(database, "FROM bad")
        rejected = own.rejected(places, source, kind)
        rules = [(each.metric, each.limit, each.text) for each in settings.rules]
        return [
            ("lines that were given", lines, source.count + source.lines_skipped),
            ("lines that are no samples", bad, rejected + source.lines_skipped),
            *_compare(database, places, settings.window_s, rules),
        ]


def reconcile_samples(places: Places, samples: Sequence[tuple[str, int, float]]) -> list[Line]:
    """Return lines of (what, expected, found), of samples with (name, ms since 1970, value)."""
    rules = [(name, limit, queries.text_of(name, limit)) for name, limit in queries.RULES.items()]
    columns = {
        "name": pa.array([name for name, _, _ in samples], pa.string()),
        "time": pa.array([at for _, at, _ in samples], pa.timestamp("ms", "UTC")),
        "value": pa.array([value for _, _, value in samples], pa.float64()),
    }
    with given.connect() as database:
        database.register("samples", pa.table(columns))
        sent = sum(1 for each in read_all(places, queries.METRICS) if each.key != CLOCK.encode())
        return [
            ("samples in the topic", len(samples), sent),
            *_compare(database, places, queries.WINDOW_S, rules),
        ]


def _compare(
    database: DuckDBPyConnection, places: Places, window_s: int, rules: Sequence[Named]
) -> list[Line]:
    """Compare windows and alerts with those of the table `samples`."""
    database.execute(EXPECTED, {"window": window_s})
    for topic, name, columns in ((WINDOWS, "windows", WINDOW), (ALERTS, "alerts", ALERT)):
        given.add_results(database, name, (r.value for r in read_all(places, topic)), columns)
    samples = count(database, "FROM samples")
    in_windows = count(database, "SELECT unnest(generate_series(1, samples)) FROM windows")
    alerts = _expected_alerts(rules)
    return [
        ("samples in windows", samples, in_windows),
        ("windows", count(database, "FROM expected"), count(database, "FROM windows")),
        ("windows that differ from DuckDB's", 0, count(database, DIFFERING)),
        ("alerts", count(database, alerts), count(database, "FROM alerts")),
        ("alerts that differ from DuckDB's", 0, differing(database, alerts, "FROM alerts")),
    ]


def _expected_alerts(rules: Sequence[Named]) -> str:
    cases = " ".join(
        f"WHEN regexp_replace(name, '[{{@].*', '') = {given.literal(metric)} "
        f"AND mean > {limit!r} THEN {given.literal(text)}"
        for metric, limit, text in rules
    )
    rule = f"CASE {cases} END" if cases else "NULL::VARCHAR"
    return (
        f"SELECT * FROM (SELECT name, start, {rule} AS rule FROM expected) WHERE rule IS NOT NULL"
    )
