"""Sarama, which many programs in Go use: topics, idempotent produce, reads, groups, transactions."""

from __future__ import annotations

import subprocess

import pytest
from compat.clients import sarama
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing

pytestmark = [pytest.mark.cluster, pytest.mark.slow("Go builds the program, and its groups wait")]


def test_sarama() -> None:
    try:
        program = sarama()
    except Missing as reason:
        pytest.skip(str(reason))
    with OdradekNode() as node:
        done = subprocess.run(
            [program, node.bootstrap], capture_output=True, text=True, check=False, timeout=240
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["topic", "produce", "read", "group", "deleted"]
