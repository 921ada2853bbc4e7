"""The SPARK_HOME with which workers import the installed PySpark, not the archive."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from odradek.spark import spark_home

PYSPARK = Path(pyspark.__file__).parent


@pytest.fixture
def bare(monkeypatch, tmp_path):
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("bare")
def test_it_has_scripts_and_jars_but_no_archive_and_is_made_once():
    home = spark_home.linked()
    assert home is not None
    for name in ("bin/spark-submit", "bin/spark-class", "jars"):
        assert (home / name).resolve() == (PYSPARK / name).resolve()
    assert not (home / "python").exists()
    made = home.stat().st_ino
    assert spark_home.linked() == home
    assert home.stat().st_ino == made
    spark_home._make(home, PYSPARK)
    assert [each.name for each in home.parent.iterdir()] == [home.name], "nothing is left over"


@pytest.mark.usefixtures("bare")
def test_the_users_spark_home_is_used(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home.linked() is None


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("says", ["/elsewhere/pyspark/__init__.py", ""])
def test_workers_with_another_pyspark_keep_the_archive(monkeypatch, tmp_path, says):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '%s' '{says}'\n")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    assert spark_home.linked() is None
    python.write_text(f"#!/bin/sh\nprintf '%s' '{PYSPARK / '__init__.py'}'\n")
    assert spark_home.linked() is not None
    python.write_text("#!/bin/sh\nexit 1\n")
    assert spark_home.linked() is None
    python.unlink()
    assert spark_home.linked() is None


@pytest.mark.usefixtures("bare")
def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_home.linked() is None


@pytest.mark.spark
@pytest.mark.skipif("SPARK_HOME" in os.environ, reason="the user's SPARK_HOME is used")
def test_workers_import_the_installed_pyspark(spark):
    def places(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [sys.modules["pyspark"].__file__]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(places, "file string").collect()
    assert row.file == pyspark.__file__
