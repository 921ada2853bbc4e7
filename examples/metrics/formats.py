"""The metrics that a person has: the text of Prometheus, OTLP in JSON, or rows with name, time and value.

The lines become records as they are. `samples` finds the samples in them, in the stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from odradek.pipelines.inputs import End, blocks, is_text, lines
from odradek.pipelines.own import formats, stream
from odradek.pipelines.own.fields import NUMBER, TEXT, TIME, Field, Fields
from odradek.pipelines.own.formats import FormatError
from odradek.pipelines.own.given import Given
from odradek.pipelines.own.rows import Row
from odradek.pipelines.own.source import END_NAME, Files
from odradek.pipelines.own.topic import Topic

ROWS, PROMETHEUS, OTLP = "rows", "prometheus", "otlp"
PLAIN = (
    Field("name", TEXT, ("name", "metric", "series")),
    Field("time", TIME, ("time", "timestamp", "at")),
    Field("value", NUMBER, ("value",)),
)
LINE = (
    Field("text", TEXT, ("text",)),
    Field("at", TIME, ("at",)),
    Field("instance", TEXT, ("instance",), is_required=False),
)
REQUEST = (Field("metrics", TEXT, ("resourceMetrics",)),)
FIELDS: dict[str, Fields] = {ROWS: PLAIN, PROMETHEUS: LINE, OTLP: REQUEST}
SAMPLE = (
    r"^([a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})?)[ \t]+"
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?:[ \t]+(-?[0-9]{1,15}))?[ \t]*$"
)
"""A line of the text format. NaN and Inf are no values, because they have no mean."""
SCRAPED = re.compile(r"# scraped at (\d+) ms from (\S+)")
"""The first line of a stored response."""
_ATTRIBUTES = "ARRAY<STRUCT<key: STRING, value: STRING>>"
_POINTS = (
    "STRUCT<dataPoints: ARRAY<STRUCT<timeUnixNano: STRING, asDouble: STRING, asInt: STRING, "
    f"attributes: {_ATTRIBUTES}>>>"
)
OTLP_SCHEMA = (
    f"ARRAY<STRUCT<resource: STRUCT<attributes: {_ATTRIBUTES}>, scopeMetrics: ARRAY<STRUCT<metrics: "
    f"ARRAY<STRUCT<name: STRING, gauge: {_POINTS}, sum: {_POINTS}>>>>>>"
)
OF_RESOURCE = ("service.name", "service.instance.id")
"""The attributes of a resource that are labels of its series."""
KINDS_OF_VALUE = ("stringValue", "intValue", "doubleValue", "boolValue")


LAST_REQUEST = {
    "resourceMetrics": [
        {
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": END_NAME,
                            "gauge": {
                                "dataPoints": [
                                    {"timeUnixNano": "9214646400000000000", "asDouble": 0.0}
                                ]
                            },
                        }
                    ]
                }
            ]
        }
    ]
}
"""A request with a time in 2262, almost the last one in nanoseconds of 64 bits."""


def kind_of(path: Path) -> str:
    """Return the kind of a file.

    Raises:
        FormatError, DamagedError, PermissionError: it cannot be read.
    """
    with path.open("rb") as file:
        if file.read(4) == formats.PARQUET_MAGIC:
            return ROWS
    if not is_text(path):
        raise FormatError("it is not text")
    for line in lines(blocks(path, formats.PROBED_BYTES_MAX)):
        text = line.decode("utf-8", "replace").strip()
        if text.startswith("{"):
            return OTLP if '"resourceMetrics"' in text else ROWS
        if text.startswith("#") or re.match(SAMPLE, text):
            return PROMETHEUS
        if text:
            return ROWS
    raise FormatError("it is empty")


class MetricFiles(Files):
    """Files of one of the kinds. Comments in the text of Prometheus are no lines."""

    kind: str = ROWS

    def last_row(self) -> dict[str, Any]:
        """See `Source`."""
        return LAST_REQUEST if self.kind == OTLP else super().last_row()

    def _opened(self, path: Path) -> Iterator[Row]:
        if self.kind == PROMETHEUS:
            if kind_of(path) != PROMETHEUS:
                raise FormatError("it is not the text of Prometheus, as the first file is")
            return _prometheus_rows(path)
        return super()._opened(path)

    def load(self, places: Any, given: Given) -> None:
        """See `Source`."""
        if self.kind != PROMETHEUS:
            super().load(places, given)
            return
        for path in sorted(map(Path, self.shipment.positions)):
            position = self.shipment.positions[str(path)]
            rows = _prometheus_rows(path, position.cut_at_bytes)
            found = [(row.number, row.value) for row in rows if row.number <= position.lines]
            given.add_objects(str(path), found)


class MetricTopic(Topic):
    """A topic whose values are rows, or requests of OTLP."""

    kind: str = ROWS

    def last_row(self) -> dict[str, Any]:
        """See `Source`."""
        return LAST_REQUEST if self.kind == OTLP else super().last_row()


def _prometheus_rows(path: Path, limit_bytes: int | None = None) -> Iterator[Row]:
    """Yield the samples of a file, or of its first bytes.

    Those without a time have that of the scrape, or of the file.
    """
    at, instance = int(path.stat().st_mtime * 1000), None
    end = End()
    for number, line in enumerate(lines(blocks(path, limit_bytes), end), 1):
        text = line.decode("utf-8", "replace").strip()
        scraped = SCRAPED.match(text) if number == 1 else None
        if scraped:
            at, instance = int(scraped[1]), scraped[2]
        if not text or text.startswith("#"):
            continue
        row = {"text": text, "at": at, "instance": instance}
        key = re.split(r"[{ \t]", text, maxsplit=1)[0]
        value = json.dumps(row, ensure_ascii=False)
        yield Row(number, key, value, cut_at_bytes=end.cut_at_bytes)


def samples(records: DataFrame, kind: str, fields: Fields) -> DataFrame:
    """Return the samples (name, time, value) in records."""
    rows = stream.rows(records, fields)
    if kind == PROMETHEUS:
        return _in_text(rows)
    if kind == OTLP:
        return _in_requests(rows)
    return rows.select("name", "time", "value")


def is_sample(kind: str) -> Column:
    """Return whether a row of the text of Prometheus is a sample; other rows always are."""
    return sf.col("text").rlike(SAMPLE) if kind == PROMETHEUS else sf.lit(True)


def _in_text(rows: DataFrame) -> DataFrame:
    found = rows.where(is_sample(PROMETHEUS) | (sf.col("text") == END_NAME))
    own = sf.regexp_extract("text", SAMPLE, 4)
    of_line = sf.timestamp_millis(sf.when(own != "", own.try_cast("bigint")))
    series = sf.regexp_extract("text", SAMPLE, 1)
    name = sf.concat_ws("@", series, "instance")
    value = sf.regexp_extract("text", SAMPLE, 3).try_cast("double")
    return found.select(
        name.alias("name"), sf.coalesce(of_line, "at").alias("time"), value.alias("value")
    )


def _in_requests(rows: DataFrame) -> DataFrame:
    requests = rows.select(
        sf.explode(sf.from_json("metrics", OTLP_SCHEMA, stream.STRICT)).alias("r")
    )
    metrics = requests.select(
        sf.col("r.resource.attributes").alias("resource"),
        sf.explode(sf.flatten("r.scopeMetrics.metrics")).alias("m"),
    )
    nothing = sf.expr("array()")
    points = sf.concat(
        sf.coalesce("m.gauge.dataPoints", nothing), sf.coalesce("m.sum.dataPoints", nothing)
    )
    found = metrics.select(
        "resource", sf.col("m.name").alias("metric"), sf.explode(points).alias("p")
    )
    of_resource = sf.filter("resource", lambda each: each["key"].isin(*OF_RESOURCE))
    labels = sf.concat(_labels(of_resource), _labels(sf.col("p.attributes")))
    text = sf.concat_ws(",", sf.array_sort(labels))
    name = sf.when(text == "", sf.col("metric")).otherwise(
        sf.concat("metric", sf.lit("{"), text, sf.lit("}"))
    )
    nanos = sf.col("p.timeUnixNano").try_cast("bigint")
    value = sf.coalesce("p.asDouble", "p.asInt").try_cast("double")
    timed = found.select(
        name.alias("name"),
        sf.timestamp_micros(sf.floor(nanos / sf.lit(1000)).cast("bigint")).alias("time"),
        value.alias("value"),
    )
    return timed.where("name IS NOT NULL AND time IS NOT NULL AND value IS NOT NULL")


def _labels(attributes: Column) -> Column:
    def label(each: Column) -> Column:
        values = [sf.get_json_object(each["value"], f"$.{kind}") for kind in KINDS_OF_VALUE]
        text = sf.coalesce(*values, sf.lit(""))
        return sf.concat(each["key"], sf.lit('="'), text, sf.lit('"'))

    return sf.coalesce(sf.transform(attributes, label), sf.expr("array()"))
