"""ConsumerGroupCommand and GroupsCommand: every verb, and groups of both protocols."""

from __future__ import annotations

import re

from compat.scenarios.stage import equal, eventually
from compat.tools.workbench import Output, Workbench, check

TOOL = "consumer.group.ConsumerGroupCommand"
RECORDS = 6


def _group(bench: Workbench, name: str) -> tuple[str, str]:
    """A topic with six records in one partition, and a group that has read them and left."""
    topic, group = bench.topic(f"tool-of-{name}"), f"tool-group-{name}"
    bench.produce(topic, *(f"key:{n}" for n in range(RECORDS)))
    words = ["--topic", topic, "--group", group, "--from-beginning"]
    bench.tool("consumer.ConsoleConsumer", *words, "--max-messages", str(RECORDS))
    return topic, group


@check("ConsumerGroupCommand describe")
def describe(bench: Workbench) -> None:
    """An empty group: listed, its offsets, its state, no members; an unknown one is an error."""
    topic, group = _group(bench, "described")
    eventually(
        lambda: bench.tool(TOOL, "--list").lines(), lambda names: group in names, "listed groups"
    )
    bench.tool(TOOL, "--list", "--state").says(rf"^{group} +Empty")
    bench.tool(TOOL, "--list", "--type").says(rf"^{group} +Classic")
    bench.tool(TOOL, "--list", "--state", "Stable").says_not(group)
    bench.tool(TOOL, "--list", "--state", "Empty", "--type", "classic").says(rf"^{group} ")
    bench.tool("GroupsCommand", "--list").says(rf"^{group} +Classic +consumer")
    bench.tool(TOOL, "--describe", "--group", group).says(
        rf"^{group} +{topic} +0 +{RECORDS} +{RECORDS} +0 +- +- +-"
    )
    bench.tool(TOOL, "--describe", "--group", group, "--state").says(
        rf"^{group} +127\.0\.0\.1:{bench.broker.port} +\({bench.broker_id()}\) .*Empty +0"
    )
    bench.tool(TOOL, "--describe", "--group", group, "--offsets", "--verbose").says(
        rf"^{group} +{topic} +0 +0 +{RECORDS} +{RECORDS} +0 "
    )
    bench.tool(TOOL, "--describe", "--group", group, "--members").says_not(rf"^{group} ")
    for words, shown in (((), rf"{topic} +0"), (("--state",), r"\S+ +\(.*Empty +0")):
        eventually(  # groups that others delete meanwhile make the tool give up
            lambda words=words: bench.try_tool(TOOL, "--describe", "--all-groups", *words).out,  # type: ignore[misc]
            lambda out, shown=shown: (
                re.search(rf"^{group} +{shown}", out, re.MULTILINE) is not None
            ),  # type: ignore[misc]
            f"the group among all {' '.join(words)}",
        )
    unknown = bench.try_tool(TOOL, "--describe", "--group", "tool-no-such-group")
    unknown.says("GroupIdNotFoundException")


@check("ConsumerGroupCommand members")
def members(bench: Workbench) -> None:
    """A group with a member: stable, with client, host and assignment; it cannot be deleted."""
    topic, group = _group(bench, "members")
    consumer = bench.start("consumer.ConsoleConsumer", "--topic", topic, "--group", group)
    try:
        eventually(
            lambda: bench.tool(TOOL, "--describe", "--group", group, "--state").out,
            lambda out: re.search(rf"^{group} .* range +Stable +1", out, re.MULTILINE) is not None,
            "a stable group of one",
        )
        words = ["--describe", "--group", group, "--members", "--verbose"]
        bench.tool(TOOL, *words).says(
            rf"^{group} +console-consumer-[\w-]+ .*/127\.0\.0\.1 +console-consumer.* 1 +.*{topic}"
        )
        lag = bench.tool(TOOL, "--describe", "--group", group)
        lag.says(rf"^{group} +{topic} +0 +{RECORDS} +{RECORDS} +0 +console-consumer-")
        refused = bench.try_tool(TOOL, "--delete", "--group", group)
        refused.says("GroupNotEmptyException")
        reset = ["--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"]
        bench.try_tool(TOOL, *reset).says("inactive")
    finally:
        consumer.terminate()
        consumer.communicate(timeout=20)


@check("ConsumerGroupCommand consumer protocol")
def consumer_protocol(bench: Workbench) -> None:
    """A group of the new protocol: its type, state, epochs, and what its member has."""
    topic, group = bench.topic("tool-of-new"), "tool-group-new"
    words = ["--topic", topic, "--group", group, "--consumer-property", "group.protocol=consumer"]
    consumer = bench.start("consumer.ConsoleConsumer", *words)
    described = ["--describe", "--group", group, "--verbose"]
    # The member may have joined before the coordinator knew the topic, and is then without partitions.
    member = (
        rf"^{group} +[\w-]+ .*/127\.0\.0\.1 +console-consumer 1 +\d+ +{topic}\(?:?0\)? .*{topic}"
    )
    try:
        eventually(
            lambda: bench.try_tool(TOOL, *described, "--members").out,
            lambda out: re.search(member, out, re.MULTILINE) is not None,
            "a member with the partition",
        )
        bench.tool(TOOL, "--list", "--type", "consumer").says(rf"^{group} +Consumer")
        bench.tool(TOOL, "--list", "--type", "classic").says_not(rf"^{group} ")
        bench.tool(TOOL, *described, "--state").says(rf"^{group} .* uniform +Stable +(\d+) +\1 +1")
    finally:
        consumer.terminate()
        consumer.communicate(timeout=20)


@check("ConsumerGroupCommand reset")
def reset(bench: Workbench) -> None:
    """Offsets are reset in every way, first dry, then for good, and exported and imported."""
    topic, group = _group(bench, "reset")

    def to(*words: str) -> Output:
        return bench.tool(TOOL, "--reset-offsets", "--group", group, "--topic", topic, *words)

    def offset(output: Output) -> str:
        return output.find(rf"^{group} +{topic} +0 +(-?\d+)")[1]

    def now() -> str:
        told = bench.tool(TOOL, "--describe", "--group", group)
        return told.find(rf"^{group} +{topic} +0 +(\d+)")[1]

    equal(offset(to("--to-earliest", "--dry-run")), "0", "dry run")
    equal(now(), str(RECORDS), "offset after the dry run")
    for words, expected in (
        (("--to-earliest",), "0"),
        (("--shift-by", "2"), "2"),
        (("--to-offset", "4"), "4"),
        (("--shift-by", "-1"), "3"),
        (("--to-current",), "3"),
        (("--to-latest",), str(RECORDS)),
        (("--by-duration", "PT1H"), "0"),
        (("--to-datetime", "2001-01-01T00:00:00.000"), "0"),
        (("--to-datetime", "2199-01-01T00:00:00.000"), str(RECORDS)),
    ):
        equal(offset(to(*words, "--execute")), expected, f"answer to {' '.join(words)}")
        equal(now(), expected, f"offset after {' '.join(words)}")
    reset_group = ["--reset-offsets", "--group", group]
    exported = to("--to-offset", "5", "--export", "--dry-run").find(rf'^"?{topic}"?,0,5$')[0]
    path = bench.file("offsets.csv", f"{exported}\n")
    bench.tool(TOOL, *reset_group, "--from-file", path, "--execute")
    equal(now(), "5", "offset after the import")
    for more, expected in (
        (["--topic", f"{topic}:0", "--to-offset", "1"], "1"),
        (["--all-topics", "--to-latest"], str(RECORDS)),
        (["--topic", topic, "--to-offset", "99"], str(RECORDS)),
    ):
        bench.tool(TOOL, *reset_group, *more, "--execute")
        equal(now(), expected, f"offset after {' '.join(more)}")
    path = bench.file("groups.csv", f"{group},{topic},0,2\n")
    several = ["--reset-offsets", "--group", group, "--group", "tool-group-made-by-reset"]
    bench.tool(TOOL, *several, "--from-file", path, "--execute")
    equal(now(), "2", "offset after the import for several groups")


@check("ConsumerGroupCommand delete")
def delete(bench: Workbench) -> None:
    """A group's offsets, then the group itself."""
    topic, group = _group(bench, "deleted")
    words = ["--delete-offsets", "--group", group, "--topic", topic]
    bench.tool(TOOL, *words).says(r"Request succeeded", rf"^{topic} +0 +Successful")
    bench.tool(TOOL, "--describe", "--group", group).says_not(rf"^{group} +{topic}")
    topic, group = _group(bench, "deleted-whole")
    bench.tool(TOOL, "--delete", "--group", group).says("was successful")
    equal(group in bench.tool(TOOL, "--list").lines(), False, "the group is still listed")
    again = bench.try_tool(TOOL, "--delete", "--group", group)
    again.says("GroupIdNotFoundException")


@check("groups of other kinds")
def other_kinds(bench: Workbench) -> None:
    """Tools for share and Streams groups do not find consumer groups; a pattern is looked at."""
    for tool in ("consumer.group.ShareGroupCommand", "streams.StreamsGroupCommand"):
        # Clients that run at the same time have share groups.
        bench.tool(tool, "--list").says_not("tool-group")
        refused = bench.try_tool(tool, "--describe", "--group", "tool-no-such-group")
        refused.says("GroupIdNotFoundException|not found|UnsupportedVersionException")
    bench.tool("GroupsCommand", "--list", "--share").says_not("tool-group")
    bench.tool("GroupsCommand", "--list", "--group-type", "classic").says(r" Classic +consumer")
    regex = ("consumer.group.ConsumerGroupCommand", "--validate-regex")
    bench.tool(*regex, "a+", bootstrap=False).says(r"`a\+` is valid")
