"""The table of the example `activity`."""

import pytest
from deltalake import DeltaTable
from examples.activity import table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_repeated_micro_batch_is_left_out(spark, tmp_path, zone):
    path = str(tmp_path / "table")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for number, first in ((0, 0), (0, 0), (1, 10), (0, 0), (2, 20)):
            rows = spark.range(first, first + 10).selectExpr(
                "id", "timestamp_millis(id * 1000) AS at", "concat('2013-0', id % 2 + 1) AS month"
            )
            table.append(path, rows, number)
        found = table.read(spark, path).selectExpr("id", "unix_millis(at) AS ms", "month").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    expected = [(each, each * 1000, f"2013-0{each % 2 + 1}") for each in range(30)]
    assert sorted(map(tuple, found)) == expected
    assert DeltaTable(path).version() == 2, "three versions, from 0 on"
    assert len(DeltaTable(path).to_pandas(filters=[("month", "=", "2013-01")])) == 15
