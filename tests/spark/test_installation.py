"""The wheel with the extra `spark` in a new environment is all that Spark needs.

No Java is in the PATH, and Spark gets no jar and no package of Maven. The node, the driver, and the
processes of the standalone cluster run in the new environment, outside this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT
from tests.spark.faults.standalone import StandaloneCluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

ROWS = 1000
PROGRAM = """
import sys
import odradek
from odradek.spark import by_partition, session

master, servers, checkpoints = sys.argv[1:]
conf = {"spark.stage.maxConsecutiveAttempts": "1", "spark.executor.memory": "512m"}
spark = session("installed", master=master, conf=conf)
options = {"kafka.bootstrap.servers": servers}


def read(topic):
    return spark.read.format("odradek").options(**options, subscribe=topic).load()


def copy(source, target, by_tasks):
    rows = spark.readStream.format("odradek").options(**options, subscribe=source)
    rows = rows.option("startingOffsets", "earliest").load().select("key", "value")
    to = {**options, "topic": target}
    if by_tasks:
        rows = by_partition(rows, to)
    writer = rows.writeStream.format("odradek").options(**to, deliveryGuarantee="exactly-once")
    writer = writer.option("checkpointLocation", f"{checkpoints}/{target}")
    writer.trigger(availableNow=True).start().awaitTermination()


name = "local" if master.startswith("local") else "cluster"
rows = spark.range(ROWS).selectExpr("string(id) AS key", "string(id) AS value")
rows.write.format("odradek").mode("append").options(**options, topic=name).save()
copy(name, f"{name}-driver", False)
copy(name, f"{name}-tasks", True)
for topic in (name, f"{name}-driver", f"{name}-tasks"):
    found = read(topic).selectExpr("count(*)", "count(DISTINCT key, value)").first()
    print(topic, *found)
context = spark.sparkContext
print("java", context._jvm.System.getProperty("java.home"))
print("jars", context.getConf().get("spark.jars", ""), context.getConf().get("spark.jars.packages", ""))
print("odradek", odradek.__file__)
spark.stop()
"""


class Installed(OdradekNode):
    """A node of another environment."""

    environment: Path

    @property
    def program(self) -> Path:
        return self.environment / "bin" / "odradek"


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A new environment with the wheel."""
    directory = tmp_path_factory.mktemp("installation")
    pip = [sys.executable, "-m", "pip"]
    made = [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(ROOT)]
    subprocess.run(made, check=True)
    (wheel,) = directory.glob("odradek-*.whl")
    new = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(new)], check=True)
    python = str(new / "bin" / "python")
    words = [*pip, "--python", python, "install", "--quiet", f"{wheel}[spark]"]
    subprocess.run(words, check=True)
    return new


def test_spark_needs_nothing_else(environment, tmp_path, path_without_java) -> None:
    python = str(environment / "bin" / "python")
    variables = {"HOME": str(tmp_path), "PATH": path_without_java}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("ROWS", str(ROWS)))
    node = Installed(directory=tmp_path / "node")
    node.environment = environment
    node.variables_removed = frozenset(os.environ)
    node.variables_added = variables
    with node, StandaloneCluster(tmp_path, python=python, environment=variables) as cluster:
        for master, name in (("local[2]", "local"), (cluster.master, "cluster")):
            done = subprocess.run(
                [python, str(program), master, node.bootstrap, str(tmp_path / name)],
                env=variables,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            lines = [line.partition(" ") for line in done.stdout.splitlines()]
            said = {name: text for name, _, text in lines}
            for topic in (name, f"{name}-driver", f"{name}-tasks"):
                assert said[topic] == f"{ROWS} {ROWS}"
            assert said["java"].startswith(str(environment))
            assert said["odradek"].startswith(str(environment))
            assert said["jars"].strip() == ""
