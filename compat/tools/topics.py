"""TopicCommand: every verb."""

from __future__ import annotations

from compat.scenarios.stage import equal, eventually
from compat.tools.workbench import Workbench, check

TOOL = "TopicCommand"


@check("TopicCommand create")
def create(bench: Workbench) -> None:
    """Create with partitions, settings, manual assignment; twice; with a bad name or setting."""
    topic = bench.topic("tool-topic", 3, "--config", "retention.ms=1000000")
    again = bench.try_tool(TOOL, "--create", "--topic", topic)
    equal(again.code, 1, "exit code of creating it again")
    again.says("already exists")
    bench.tool(TOOL, "--create", "--topic", topic, "--if-not-exists").says_not("Created")
    name = bench.try_tool(TOOL, "--create", "--topic", "bad name")
    equal(name.code, 1, "exit code for a bad name")
    setting = bench.try_tool(TOOL, "--create", "--topic", "tool-bad", "--config", "retention.ms=x")
    equal(setting.code, 1, "exit code for a bad setting")
    broker = str(bench.broker_id())
    words = ["--create", "--topic", "tool-manual", "--replica-assignment", f"{broker},{broker}"]
    bench.tool(TOOL, *words).says("Created topic tool-manual")
    two = bench.try_tool(TOOL, "--create", "--topic", "tool-two", "--replication-factor", "2")
    equal(two.code, 1, "exit code for two replicas on one broker")


@check("TopicCommand list and describe")
def describe(bench: Workbench) -> None:
    """List names; describe one, by name and by id, those with settings, those in trouble."""
    topic = bench.topic("tool-described", 2, "--config", "max.message.bytes=54321")
    broker = bench.broker_id()
    eventually(
        lambda: bench.tool(TOOL, "--list").lines(), lambda names: topic in names, "listed topics"
    )
    told = bench.tool(TOOL, "--describe", "--topic", topic)
    told.says(
        rf"^Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 2\tReplicationFactor: 1\t",
        r"Configs: .*max\.message\.bytes=54321",
        rf"\tPartition: 0\tLeader: {broker}\tReplicas: {broker}\tIsr: {broker}\b",
        rf"\tPartition: 1\tLeader: {broker}\tReplicas: {broker}\tIsr: {broker}\b",
    )
    identity = told.find(r"TopicId: ([\w-]{22})")[1]
    bench.tool(TOOL, "--describe", "--topic-id", identity).says(rf"^Topic: {topic}\t")
    bench.tool(TOOL, "--describe", "--topics-with-overrides").says(rf"^Topic: {topic}\t")
    for trouble in ("under-replicated", "unavailable", "under-min-isr"):
        equal(bench.tool(TOOL, "--describe", f"--{trouble}-partitions").lines(), [], trouble)
    nothing = bench.try_tool(TOOL, "--describe", "--topic", "tool-no-such-topic")
    equal(nothing.code, 1, "exit code for a topic that is not there")


@check("TopicCommand alter and delete")
def alter_and_delete(bench: Workbench) -> None:
    """More partitions, never fewer; deletion by name and by pattern."""
    topic = bench.topic("tool-altered", 1)
    bench.tool(TOOL, "--alter", "--topic", topic, "--partitions", "4")
    eventually(
        lambda: bench.tool(TOOL, "--describe", "--topic", topic).out,
        lambda out: "PartitionCount: 4" in out,
        "partitions",
    )
    fewer = bench.try_tool(TOOL, "--alter", "--topic", topic, "--partitions", "2")
    equal(fewer.code, 1, "exit code for fewer partitions")
    bench.tool(TOOL, "--delete", "--topic", "tool-alt.*")
    eventually(
        lambda: bench.tool(TOOL, "--list").lines(), lambda names: topic not in names, "topics left"
    )
    gone = bench.try_tool(TOOL, "--delete", "--topic", topic)
    equal(gone.code, 1, "exit code for deleting it again")
    bench.tool(TOOL, "--delete", "--topic", topic, "--if-exists")
