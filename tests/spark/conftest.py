"""One broker and one Spark session for all tests of this directory.

The broker is a node of ours; with ODRADEK_TEST_BROKER=apache it is Apache Kafka, to see that a
test asks for what is right.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.spark_connector import connector_jars
from compat.lab.toolchain import Missing

import odradek.spark
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.pipelines.settings import LOCAL_FILES

ADD_PARTITIONS_TO_TRANSACTION = 24
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # tests write records of 1970
    "num.partitions": "1",
}
PROGRAMS = ("bash", "cat", "chmod", "dirname", "env", "id", "ls", "nice", "ps", "readlink", "rm")
PROGRAMS += ("sed", "setsid", "sh", "uname")
"""What Spark and its scripts call."""


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    kind = ApacheKafka if os.environ.get("ODRADEK_TEST_BROKER") == "apache" else OdradekNode
    with kind(settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def servers(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture(scope="session")
def cluster(servers: str) -> Iterator[Cluster]:
    with Cluster(servers) as connected:
        yield connected


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A session of ours; with the jars of Spark's own connector when its tests are to run."""
    conf = {
        **LOCAL_FILES,
        "spark.python.authenticate.socketTimeout": "250s",  # of a worker on a busy machine
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    if any(item.get_closest_marker("java") for item in request.session.items):
        try:
            conf["spark.jars"] = ",".join(map(str, connector_jars()))
        except Missing:
            pass  # the tests that need them say so
    session = odradek.spark.session("tests", master="local[4]", conf=conf)
    yield session
    session.stop()


@pytest.fixture
def make_topic(request: pytest.FixtureRequest, cluster: Cluster):
    """Creates a topic with a name that tells the test: `make_topic(partitions=2, **settings)`."""
    base = re.sub(r"\W+", "-", request.node.name)[:150]
    numbers = itertools.count()

    def make(partitions: int = 1, **settings: str) -> str:
        name = f"{base}-{next(numbers)}-{os.getpid()}"
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        for made in create_topics(cluster, [NewTopic(name, partitions, 1, configs)]).values():
            if isinstance(made, Exception):
                raise made
        return name

    return make


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """A PATH with the programs that Spark and its scripts call, and no others."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        if program is not None:
            (directory / name).symlink_to(program)
    assert shutil.which("java", path=str(directory)) is None
    return str(directory)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


@pytest.fixture
def transactions(cluster: Cluster) -> None:
    """Skips where the broker has no transactions."""
    if ADD_PARTITIONS_TO_TRANSACTION not in cluster.any().versions:
        pytest.skip("this broker does not serve transactions (AddPartitionsToTxn)")
