"""DescribeConfigs of Apache Kafka 4.3.0, captured: Odradek returns the same values for the same
settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.config import describe
from odradek.config.describe import Described
from odradek.config.load import load

OF_4_4 = (
    "errors.deadletterqueue.",
    "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags",
    "group.streams.topology.description.plugin.class",
    "log.remote.copy.lag.",
    "max.decompressed.message.bytes",
    "remote.copy.lag.",
    "sasl.oauthbearer.allow.unverified.",
    "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
)
"""The beginnings of settings that Apache Kafka has since 4.4."""
FIXTURE = Path(__file__).parents[1] / "fixtures" / "apache-kafka-4.3.0" / "describe_configs.json"
CAPTURED: dict[str, Any] = json.loads(FIXTURE.read_text())
CONFIG = load(CAPTURED["static"], {}).config.with_dynamic(
    CAPTURED["cluster_default"], CAPTURED["per_broker"]
)


def ours(resource: str) -> list[Described]:
    match resource:
        case "broker":
            return describe.describe_broker(CONFIG)
        case "cluster_default":
            return describe.describe_cluster_default(CONFIG)
        case "topic":
            return describe.describe_topic(CAPTURED["topic"], CONFIG)
        case "group":
            return describe.describe_group(CAPTURED["group"], CONFIG)
        case _:
            return describe.describe_client_metrics(CAPTURED["client_metrics"])


@pytest.mark.parametrize("resource", CAPTURED["described"])
def test_described_as_by_apache_kafka(resource: str) -> None:
    shown = {
        each.name: [
            each.value,
            each.source,
            each.read_only,
            each.sensitive,
            each.type,
            [[found.name, found.text, found.source] for found in each.synonyms],
        ]
        for each in ours(resource)
        if not each.name.startswith(("odradek.", *OF_4_4))
    }
    assert shown == CAPTURED["described"][resource]


def test_nothing_of_it_was_ignored() -> None:
    assert CONFIG.ignored == ()
