"""Odradek's and Apache Kafka's codecs write the same bytes, for every message and version."""

from __future__ import annotations

import pytest
from tests.oracle.jvm import Oracle
from tests.support.run_seed import seeds
from tests.wire.sampling import DECLARED, Seeded, sample

from odradek.wire.api import message_class

pytestmark = pytest.mark.java
SAMPLES = 20


@pytest.mark.parametrize("message", DECLARED, ids=lambda each: each.name)
def test_java_reads_ours_and_writes_the_same(message, oracle: Oracle) -> None:
    for version in range(message.versions.low, message.versions.high + 1):
        for seed in seeds(SAMPLES):
            ours = sample(message.name, version, Seeded(seed)).encode(version)
            java = oracle.recode(message.name, version, ours)
            assert java == ours, f"version {version}, seed {seed}"


@pytest.mark.parametrize("message", DECLARED, ids=lambda each: each.name)
def test_we_read_javas_and_write_the_same(message, oracle: Oracle) -> None:
    cls = message_class(message.name)
    for version in range(message.versions.low, message.versions.high + 1):
        for seed in seeds(SAMPLES):
            java = oracle.generate(message.name, version, seed)
            assert cls.decode(java, version).encode(version) == java, f"v{version}, seed {seed}"
