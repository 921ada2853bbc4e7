"""The metrics of a node as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from odradek.node.node import Node
from odradek.telemetry.exposition import Exposition
from odradek.telemetry.names import SPELLINGS


def exported(node: Node, names: str = "total") -> list[Sample]:
    """Return all samples with one spelling of their names."""
    text = Exposition(node.metrics, SPELLINGS[names]).text()
    return [each for family in text_string_to_metric_families(text) for each in family.samples]


def by_labels(node: Node, names: str = "total") -> dict[tuple[str, tuple[str, ...]], float]:
    """Return all values by name and by the values of the labels."""
    return {(each.name, tuple(each.labels.values())): each.value for each in exported(node, names)}
