"""The examples of docs/spark.md run unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from odradek.client.security import SECURITY_SETTINGS
from odradek.spark import options

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.spark
def test_the_examples_run(spark, servers, tmp_path, capsys):
    names: dict = {}
    examples = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        here = example.replace("localhost:9092", servers)
        exec(here.replace('"checkpoints/', f'"{tmp_path}/'), names)  # in the session of the tests
    shown = capsys.readouterr().out
    assert "|  a|  one|        0|" in shown
    assert "|  b|  two|        0|" in shown
    assert "|[61]|     0| cpu| 0.5|" in shown
    shouts = spark.read.format("odradek").option("bootstrap.servers", servers)
    found = shouts.option("subscribe", "shouts").load().collect()
    assert sorted((row.key, row.value) for row in found) == [(b"a", b"ONE"), (b"b", b"TWO")]


def test_every_option_is_described():
    described = set(re.findall(r"`(?:kafka\.)?([\w.]+)`", TEXT))
    known = {
        *options.CONNECTION_OPTIONS,
        *options.READ_OPTIONS,
        *options.WRITE_OPTIONS,
    } - set(SECURITY_SETTINGS)
    assert known <= described
