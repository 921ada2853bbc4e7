"""Encodes metrics as OpenTelemetry's `MetricsData`, in protobuf's encoding: gauges and sums of doubles."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from odradek.client.core.client_metrics import Sample
from odradek.wire.primitives import write_uvarint

DELTA = 1
CUMULATIVE = 2
SCOPE = "org.apache.kafka"
_fixed = struct.Struct("<Q").pack
_double = struct.Struct("<d").pack


def encode(
    samples: Iterable[Sample],
    labels: Mapping[str, str],
    began_ms: int,
    now_ms: int,
    *,
    is_delta: bool,
) -> bytes:
    """Return metrics; `labels` describe the client, the times are in ms since 1970.

    With `is_delta`, the values of totals are what was added since `began_ms`.
    """
    resource = b"".join(_message(1, _attribute(name, value)) for name, value in labels.items())
    scope = _message(1, _message(1, SCOPE.encode()))
    metrics = b"".join(
        _message(2, _metric(each, began_ms, now_ms, is_delta=is_delta)) for each in samples
    )
    return _message(1, _message(1, resource) + _message(2, scope + metrics))


def _metric(sample: Sample, began_ms: int, now_ms: int, *, is_delta: bool) -> bytes:
    point = _times(began_ms, now_ms) + _tag(4, 1) + _double(sample.value)
    if sample.node_id is not None:
        point += _message(7, _attribute("node_id", f"node-{sample.node_id}"))
    name = _message(1, sample.name.encode())
    if not sample.is_total:
        return name + _message(5, _message(1, point))
    temporality = _number(2, DELTA if is_delta else CUMULATIVE) + _number(3, 1)  # it never falls
    return name + _message(7, _message(1, point) + temporality)


def _times(began_ms: int, now_ms: int) -> bytes:
    return _tag(2, 1) + _fixed(began_ms * 1_000_000) + _tag(3, 1) + _fixed(now_ms * 1_000_000)


def _attribute(name: str, value: str) -> bytes:
    return _message(1, name.encode()) + _message(2, _message(1, value.encode()))


def _tag(field: int, kind: int) -> bytes:
    return write_uvarint(field << 3 | kind)


def _number(field: int, value: int) -> bytes:
    return _tag(field, 0) + write_uvarint(value)


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, 2) + write_uvarint(len(content)) + content
