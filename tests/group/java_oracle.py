"""Runs Apache Kafka's own code for targets, topic hashes and patterns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from compat.lab.maven import kafka_jars
from compat.lab.toolchain import require


def ask(questions: Iterable[str]) -> list[str]:
    """One answer for each line.

    Raises:
        Missing: there is no Java or no Maven here.
    """
    require("javac")
    class_path = kafka_jars()[0].parent / "*"
    command = [
        require("java"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        str(class_path),
    ]
    run = subprocess.run(
        [*command, Path(__file__).with_name("GroupOracle.java")],
        input="".join(each + "\n" for each in questions),
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=3600,
    )
    return run.stdout.splitlines()


def match(pattern: str, texts: Iterable[str]) -> str:
    """The question which texts match: the answer has a 1 or 0 for each, or is "invalid"."""
    return "\t".join(["match", *(each.encode().hex() for each in (pattern, *texts))])
