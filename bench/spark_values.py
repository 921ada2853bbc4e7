"""`python -m bench.spark_values`: decodes and encodes typed values, without Spark.

The values have five fields, in JSON about 100 bytes. They are converted in batches of 50 000. The
results are the CPU times of the fastest of several passes on one core. `bench.spark` compares
jobs in Spark with `from_json` and `to_json`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from bench.spark_micro import best
from odradek.spark import json_encoding
from odradek.spark.json_decoding import JsonDecoder
from odradek.spark.values import formats
from odradek.spark.values.avro_schema import schema_of
from odradek.spark.values.settings import Typed

ROWS = 50_000
COLUMN = (
    StructType()
    .add("id", LongType())
    .add("name", StringType())
    .add("price", DoubleType())
    .add("sold", BooleanType())
    .add("at", TimestampType())
)
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Row {
  int64 id = 1; string name = 2; double price = 3; bool sold = 4;
  google.protobuf.Timestamp at = 5;
}
"""


def rows() -> pa.StructArray:
    """Return the rows as a column."""
    kind = formats.arrow_type(COLUMN)
    return pa.array(
        [
            {
                "id": number,
                "name": f"name {number}",
                "price": number / 7,
                "sold": number % 2 == 0,
                "at": 1_700_000_000_000_000 + number,
            }
            for number in range(ROWS)
        ],
        kind,
    )


def measured(
    title: str, encode: Callable[[], pa.Array], decode: Callable[[pa.Array], object]
) -> None:
    """Measure a format, and print a line."""
    values = encode()
    encoding, decoding = best(encode), best(lambda: decode(values))
    print(
        f"{title:<9} {values.nbytes / ROWS:4.0f} bytes   decode {decoding / ROWS * 1e6:5.2f} µs"
        f"   encode {encoding / ROWS * 1e6:5.2f} µs"
    )


def main() -> None:
    """Measure each format."""
    column = rows()
    print(f"{ROWS:,} values, CPU time for each")
    from_json = JsonDecoder(column.type)
    measured("JSON", lambda: json_encoding.encode(column).cast(pa.binary()), from_json.decode)
    avro = Typed("value", "avro", schema=schema_of(COLUMN))
    protobuf = Typed("value", "protobuf", schema=PROTO)
    for typed in (avro, protobuf):
        encoder = formats.encoder(typed, COLUMN)
        decoder = formats.decoder(typed, formats.column_type(typed))
        measured(
            typed.format_name,
            lambda encoder=encoder: encoder.encode(column),  # type: ignore[misc]
            decoder.decode,
        )


if __name__ == "__main__":
    main()
