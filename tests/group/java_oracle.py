"""What Apache Kafka's own assignors, hash and patterns answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from compat.lab.maven import kafka_jars
from compat.lab.toolchain import require

from odradek.core.group.consumer.assignors import GroupSpec
from odradek.core.group.consumer.member import Assignment


def ask(questions: Iterable[str]) -> list[str]:
    """One answer for each line.

    Raises:
        Missing: there is no Java or no Maven here.
    """
    require("javac")
    class_path = kafka_jars()[0].parent / "*"
    command = [require("java"), "-XX:+UseSerialGC", "-cp", str(class_path)]
    run = subprocess.run(
        [*command, Path(__file__).with_name("GroupOracle.java")],
        input="".join(each + "\n" for each in questions),
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=120,
    )
    return run.stdout.splitlines()


def assign(assignor: str, group: GroupSpec) -> str:
    """The question for an assignment; `assigned` reads the answer."""
    kind = "homogeneous" if group.is_homogeneous else "heterogeneous"
    words = ["assign", assignor, kind]
    for topic_id, count in group.partition_counts.items():
        words.append(f"topic {topic_id.hex()} {count}")
    for member_id, member in sorted(group.members.items()):
        topics = ",".join(each.hex() for each in sorted(member.topic_ids))
        target = ";".join(
            f"{topic_id.hex()}:{','.join(map(str, sorted(partitions)))}"
            for topic_id, partitions in member.target.items()
        )
        words.append(f"member {member_id} {member.instance_id or ''} {topics} {target}")
    return "\t".join(words)


def assigned(answer: str) -> dict[str, Assignment]:
    """What each member got; those that got nothing are not in it."""
    found = {}
    for text in answer.rstrip("\t").split("\t"):
        if not text:
            continue
        member_id, _, topics = text.partition(" ")
        found[member_id] = {
            bytes.fromhex(topic_id): frozenset(map(int, partitions.split(",")))
            for topic_id, partitions in (topic.split(":") for topic in topics.split(";"))
        }
    return found


def match(pattern: str, texts: Iterable[str]) -> str:
    """The question which texts match: the answer has a 1 or 0 for each, or is "invalid"."""
    return "\t".join(["match", *(each.encode().hex() for each in (pattern, *texts))])
