"""The metrics of quotas, under the names that Apache Kafka has. Names of clients are labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.core.quota.clients import Manager, QuotaType
from odradek.core.quota.meters import Meter, MutationMeter
from odradek.node.metrics.sources import MetricSources
from odradek.telemetry.mbeans import Metric, attribute, one

_SOCKETS = "kafka.server:type=socket-server-metrics"
_Measure = Callable[[Meter | MutationMeter, int], float]
_AnyManager = Manager[Meter] | Manager[MutationMeter]


def clients(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of clients that have a limit, with Kafka's tags `user` and `client-id`."""
    now_ms = node.quotas.now_ms()
    quotas = node.quotas.clients
    byte_rate = ("byte-rate", "Bytes per second.", _rate)
    types: tuple[tuple[QuotaType, _AnyManager, list[tuple[str, str, _Measure]]], ...] = (
        (QuotaType.PRODUCE, quotas.produce, [byte_rate]),
        (QuotaType.FETCH, quotas.fetch, [byte_rate]),
        (
            QuotaType.REQUEST,
            quotas.request,
            [("request-time", "Percent of the time in which requests were processed.", _rate)],
        ),
        (
            QuotaType.CONTROLLER_MUTATION,
            quotas.mutation,
            [
                ("mutation-rate", "Partitions created and deleted per second.", _rate),
                ("tokens", "Partitions that may be created and deleted at once.", _tokens),
            ],
        ),
    )
    for kind, manager, rates in types:
        meters = [((meter.key.user, meter.key.client_id or ""), meter) for meter in _all(manager)]
        pattern = f"kafka.server:type={kind.value}"
        text = "Average milliseconds for which connections were throttled in the last minute."
        for name, documentation, measure in (*rates, ("throttle-time", text, _throttle_time)):
            rows = [(tags, measure(meter, now_ms)) for tags, meter in meters]
            yield attribute(f"{pattern},user=*,client-id=*", name, documentation, rows)
        yield attribute(
            pattern,
            "queue-size",
            "Connections that are throttled.",
            one(manager.throttles.count(now_ms)),
        )


def _all(manager: _AnyManager) -> list[Meter | MutationMeter]:
    return [*manager.meters.values()]


def _rate(meter: Meter | MutationMeter, now_ms: int) -> float:
    return meter.rate(now_ms)


def _tokens(meter: Meter | MutationMeter, now_ms: int) -> float:
    assert isinstance(meter, MutationMeter)
    return meter.tokens(now_ms)


def _throttle_time(meter: Meter | MutationMeter, now_ms: int) -> float:
    return meter.throttle_time_ms(now_ms)


def connections(node: MetricSources) -> Iterator[Metric]:
    """Yield the rates of new connections, and the delays of connections."""
    now_ms = node.quotas.now_ms()
    rates = node.server.rates
    if rates is None:
        return
    yield attribute(
        _SOCKETS,
        "broker-connection-accept-rate",
        "New connections per second.",
        one(rates.rate(now_ms)),
    )
    listeners = list(rates.listeners.items())
    for name, text, values in (
        (
            "connection-accept-rate",
            "New connections per second of a listener.",
            [each.rate.measure(now_ms) for _, each in listeners],
        ),
        (
            "connection-accept-throttle-time",
            "Average milliseconds by which connections were delayed by max.connection.creation.rate.",
            [each.throttled.measure(now_ms) for _, each in listeners],
        ),
        (
            "ip-connection-accept-throttle-time",
            "Average milliseconds after which rejected connections of an address were closed.",
            [each.refused.measure(now_ms) for _, each in listeners],
        ),
    ):
        rows = [
            ((listener,), value) for (listener, _), value in zip(listeners, values, strict=True)
        ]
        yield attribute(f"{_SOCKETS},listener=*", name, text, rows)
