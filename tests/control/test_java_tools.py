"""Apache Kafka's tools on our metadata log (`tests/oracle/files` has whole brokers)."""

import asyncio
import json
import subprocess

import pytest
from compat.lab import java
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing

from odradek.broker.raft.snapshots import read_snapshot
from odradek.core.metadata.record import decode_record
from odradek.env.file_system import OsFileSystem
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

from .node import running
from .test_controller_node import create
from .test_topic_decisions import topic

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def jars():
    try:
        return kafka_jars()
    except Missing as reason:
        pytest.skip(str(reason))


def tool(jars, main_class, *words):
    try:
        command = java.command(main_class, jars, options=["-XX:TieredStopAtLevel=1"])
    except Missing as reason:
        pytest.skip(str(reason))
    words = [*command, *map(str, words)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


async def fill(path, **settings):
    """Write a metadata log with all kinds of records; return its last image."""
    async with running(path, **settings) as node:
        await node.ask(create(topic("a", 3, settings={"retention.ms": "5"}), topic("b", 2)))
        await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")]))
        for index in range(20):
            await node.ask(create(topic(f"t{index}", 2)))
        await node.lifecycle.shut_down(node.cache.image.offset)
        return node.cache.image


def dumped(jars, path):
    """Return (batches, payloads) of a log or snapshot, as DumpLogSegments prints them."""
    said = tool(
        jars,
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        path,
    )
    lines = said.splitlines()
    batches = [line for line in lines if line.startswith("baseOffset:")]
    assert batches
    assert all("isvalid: true" in line for line in batches)
    assert not [line for line in lines if "rror" in line or "nvalid" in line.replace("isvalid", "")]
    payloads = [json.loads(line.partition("payload: ")[2]) for line in lines if "payload: " in line]
    return batches, payloads


def kind(record):
    """`TopicRecord` as the tool writes it: `TOPIC_RECORD`."""
    name = type(record).__name__
    return "".join(f"_{each}" if each.isupper() else each for each in name).strip("_").upper()


def test_the_log_can_be_dumped(jars, tmp_path):
    asyncio.run(fill(tmp_path))
    path = tmp_path / "__cluster_metadata-0" / f"{0:020d}.log"
    batches, payloads = dumped(jars, path)
    ours = list(iterate_batches(path.read_bytes()))
    assert len(batches) == len(ours)
    records = [
        decode_record(record.value)
        for batch in ours
        if not batch.is_control
        for record in iterate_records(batch)
    ]
    assert [each["type"] for each in payloads] == [kind(record) for record in records]
    topics = [each["data"]["name"] for each in payloads if each["type"] == "TOPIC_RECORD"]
    assert topics == ["a", "b", *(f"t{index}" for index in range(20))]
    assert "LeaderChange" in tool(
        jars,
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        path,
    )


def test_a_snapshot_can_be_dumped(jars, tmp_path):
    settings = {"metadata_log_max_record_bytes_between_snapshots": "3000"}
    asyncio.run(fill(tmp_path, **settings))
    path = max((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    assert not path.name.startswith(f"{0:020d}")
    _, payloads = dumped(jars, path)
    snapshot = read_snapshot(OsFileSystem(), str(path))
    records = [decode_record(value) for value in snapshot.values]
    assert [each["type"] for each in payloads] == [kind(record) for record in records]
    said = tool(
        jars,
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        path,
    )
    for word in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"):
        assert word in said


def test_the_storage_tool_finds_nothing_wrong(jars, tmp_path):
    data = tmp_path / "data"
    asyncio.run(fill(data))
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        f"controller.quorum.bootstrap.servers=localhost:9093\nlog.dirs={data}\n"
    )
    said = tool(jars, "kafka.tools.StorageTool", "info", "-c", properties)
    assert "Found log directory" in said
    assert "Found problem" not in said
