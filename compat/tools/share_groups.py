"""ShareGroupCommand and the formatters of share groups: offsets, state, reset and deletion."""

from __future__ import annotations

from compat.lab.wire_client import WireClient
from compat.scenarios.stage import eventually
from compat.tools.workbench import Workbench, check

TOOL = "consumer.group.ShareGroupCommand"
RECORDS = 6


def _group(bench: Workbench, name: str) -> tuple[str, str]:
    """A topic with six records, and a share group without members that begins at the start."""
    topic, group = bench.topic(f"tool-of-share-{name}", 2), f"tool-share-{name}"
    with WireClient(bench.broker.port) as wire:
        for number in range(RECORDS):
            eventually(
                lambda value=b"%d" % number: wire.produce_one(topic, value),  # type: ignore[misc]
                lambda code: code == 0,
                "an acknowledgement",
            )
    words = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest"]
    bench.tool(TOOL, *words, "--dry-run").says(rf"^{group} +{topic} +0 +0")
    bench.tool(TOOL, "--list").says_not(rf"^{group}$")
    bench.tool(TOOL, *words, "--execute").says(rf"^{group} +{topic} +[01] +0")
    return topic, group


@check("ShareGroupCommand describe")
def describe(bench: Workbench) -> None:
    """A group without members: listed with its type, its start offsets, its state."""
    topic, group = _group(bench, "described")
    bench.tool(TOOL, "--list").says(rf"^{group}$")
    bench.tool(TOOL, "--list", "--state").says(rf"^{group} +Empty")
    bench.tool(TOOL, "--list", "--state", "Stable").says_not(group)
    bench.tool("GroupsCommand", "--list", "--share").says(rf"^{group} +Share +share")
    offsets = bench.tool(TOOL, "--describe", "--group", group)
    offsets.says(rf"^{group} +{topic} +0 +0 ", rf"^{group} +{topic} +1 +0 ")
    bench.tool(TOOL, "--describe", "--group", group, "--state").says(
        rf"^{group} +127\.0\.0\.1:{bench.broker.port} +\({bench.broker_id()}\) +Empty +0"
    )
    bench.tool(TOOL, "--describe", "--group", group, "--members").says_not(rf"^{group} ")
    unknown = bench.try_tool(TOOL, "--describe", "--group", "tool-no-such-group")
    unknown.says("tool-no-such-group")


@check("ShareGroupCommand reset and delete")
def reset(bench: Workbench) -> None:
    """Start offsets are reset to the end and deleted, and in the end the group is deleted."""
    topic, group = _group(bench, "reset")
    words = ["--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute"]
    moved = bench.tool(TOOL, *words)
    moved.says(rf"^{group} +{topic} +0 +{RECORDS}$", rf"^{group} +{topic} +1 +0$")
    told = bench.tool(TOOL, "--describe", "--group", group)
    told.says(rf"^{group} +{topic} +0 +{RECORDS} +0", rf"^{group} +{topic} +1 +0 +0")
    other = bench.topic("tool-of-share-other")
    bench.tool(TOOL, "--delete-offsets", "--group", group, "--topic", topic).says(rf"{topic}")
    eventually(
        lambda: bench.tool(TOOL, "--describe", "--group", group).out,
        lambda out: topic not in out,
        "no offsets",
    )
    refused = bench.try_tool(TOOL, "--delete-offsets", "--group", group, "--topic", other)
    refused.says(other)
    bench.tool(TOOL, "--delete", "--group", group).says(rf"{group}")
    bench.tool(TOOL, "--list").says_not(rf"^{group}$")


@check("Formatters of share groups")
def formatters(bench: Workbench) -> None:
    """The records of the share coordinator and of the groups, in the words of the tools."""
    topic, group = _group(bench, "formatted")
    states = bench.reads_log("__share_group_state", "group.share.ShareGroupStateMessageFormatter")
    states.says(rf'"groupId":"{group}".*"startOffset":0')
    groups = bench.reads_log("__consumer_offsets", "GroupMetadataMessageFormatter")
    groups.says_not("Exception")
    bench.reads_log("__consumer_offsets", "OffsetsMessageFormatter").says_not("Exception")
    assert topic
