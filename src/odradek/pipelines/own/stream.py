"""From records to columns with types, in Spark. The check (`given`) does the same in DuckDB.

A value is a row if it is a JSON object that has all required fields with their types. Everything else
is rejected: it is not in the stream, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from odradek.pipelines.own.fields import DECIMAL, INTEGER, NUMBER, TEXT, TIME, Field, Fields

END_TIME = "9999-01-01T00:00:00Z"
"""The time of the last record, in a topic of its own. It ends all windows."""
STRICT = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "allowUnquotedControlChars": "false",
}
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
ISO = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_CLOCK}( ?UTC|Z|[+-][0-9]{{2}}:[0-9]{{2}})?)?$"
SINCE_1970 = r"^-?[0-9]{1,19}(\.[0-9]+)?$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_INTEGER = r"^[+-]?[0-9]{1,10}$"


def rows(records: DataFrame, fields: Fields) -> DataFrame:
    """Return the rows of records: a column for each field. What is no row is left out."""
    return parsed(records, fields).where("is_row").drop("is_row")


def parsed(records: DataFrame, fields: Fields) -> DataFrame:
    """Return the columns of records and of fields, and whether a record is a row (`is_row`)."""
    tops = dict.fromkeys(
        name for each in fields for one in each.columns for name in (one, one.partition(".")[0])
    )
    schema = ", ".join(f"`{name}` STRING" for name in tops)
    # Names that differ only in their case are the same for Spark, unless the fields have others.
    numbered = {name: f"c{number}" for number, name in enumerate(tops)}
    row = sf.get("_listed", sf.lit(0)).cast(
        "STRUCT<{}>".format(", ".join(f"{name}: STRING" for name in numbered.values()))
    )
    text = sf.col("value").cast("string")
    listed = sf.from_json(
        sf.concat(sf.lit("["), text, sf.lit("]")), f"ARRAY<STRUCT<{schema}>>", STRICT
    )
    is_object = text.rlike(r"(?s)^\s*\{.*\}\s*$") & (sf.size("_listed") == 1)
    found = records.withColumn("_listed", listed)
    found = found.withColumns({"_row": row, "_is_object": is_object})
    found = found.drop("key", "value", "_listed")
    found = found.withColumns({each.name: _of(each, numbered) for each in fields})
    is_row = sf.coalesce("_is_object", sf.lit(False))
    for each in fields:
        if each.is_required:
            is_row &= sf.col(each.name).isNotNull()
    return found.withColumn("is_row", is_row).drop("_row", "_is_object")


def _of(field: Field, numbered: Mapping[str, str]) -> Column:
    typed = _typed(_text(field, numbered), field.kind)
    return sf.when(typed.isin(*field.values), typed) if field.values else typed


def _text(field: Field, numbered: Mapping[str, str]) -> Column:
    """Return the first value of the columns that may have a field, as text, exactly as it is."""
    found = []
    for name in field.columns:
        found.append(sf.col(f"_row.{numbered[name]}"))
        top, *rest = name.split(".")
        inner = sf.col(f"_row.{numbered[top]}")
        for step in rest:
            inner = sf.from_json(inner, f"STRUCT<`{step}`: STRING>", STRICT)[step]
        if rest:
            found.append(inner)
    return sf.coalesce(*found) if len(found) > 1 else found[0]


def _typed(text: Column, kind: str) -> Column:
    if kind == TIME:
        return _time(text)
    if kind == INTEGER:
        return sf.when(text.rlike(_INTEGER), text.try_cast("int"))
    if kind == NUMBER:
        return sf.when(text.rlike(_NUMBER), text.try_cast("double"))
    if kind == DECIMAL:
        return sf.when(text.rlike(_NUMBER), text.try_cast("decimal(18,4)"))
    assert kind == TEXT, kind
    return text


def _time(text: Column) -> Column:
    """Return a time: ISO text, or a number of seconds, ms, µs or ns since 1970, whichever fits."""
    micros = sf.regexp_replace(text, r"(\.[0-9]{6})[0-9]+", "$1")
    iso = sf.regexp_replace(micros, " ?UTC$", "Z").try_cast("timestamp")
    number = text.try_cast("decimal(38,9)")
    size = sf.abs(number)
    scale = (
        sf.when(size < 100_000_000_000, sf.lit(1_000_000))
        .when(size < 100_000_000_000_000, sf.lit(1_000))
        .when(size < 100_000_000_000_000_000, sf.lit(1))
        .otherwise(sf.lit(0))
    )
    whole = sf.when(scale > 0, sf.floor(number * scale)).otherwise(sf.floor(number / 1_000))
    since = sf.timestamp_micros(whole.cast("long"))
    return sf.when(text.rlike(ISO), iso).when(text.rlike(SINCE_1970), since)
