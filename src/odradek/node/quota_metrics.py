"""The metrics of quotas, under the names that Apache Kafka has. Names of clients are labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.core.quota.clients import Manager, QuotaType
from odradek.core.quota.meters import Meter, MutationMeter
from odradek.node.metric_families import Family, MetricSources, Sample, one

_Measure = Callable[[Meter | MutationMeter, int], float]
_AnyManager = Manager[Meter] | Manager[MutationMeter]


def clients(node: MetricSources) -> Iterator[Family]:
    """Yield the metrics of clients that have a limit, with Kafka's tags `user` and `client-id`."""
    now_ms = node.quotas.now_ms()
    quotas = node.quotas.clients
    byte_rate = ("byte_rate", "Bytes per second.", _rate)
    types: tuple[tuple[QuotaType, _AnyManager, list[tuple[str, str, _Measure]]], ...] = (
        (QuotaType.PRODUCE, quotas.produce, [byte_rate]),
        (QuotaType.FETCH, quotas.fetch, [byte_rate]),
        (QuotaType.REQUEST, quotas.request,
         [("request_time", "Percent of the time in which requests were processed.", _rate)]),
        (QuotaType.CONTROLLER_MUTATION, quotas.mutation,
         [("mutation_rate", "Partitions created and deleted per second.", _rate),
          ("tokens", "Partitions that may be created and deleted at once.", _tokens)]),
    )  # fmt: skip
    for kind, manager, rates in types:
        meters = [
            ({"user": meter.key.user, "client_id": meter.key.client_id or ""}, meter)
            for meter in _all(manager)
        ]
        prefix = f"kafka_server_{kind.value.lower()}"
        text = "Average milliseconds for which connections were throttled in the last minute."
        for name, documentation, measure in (*rates, ("throttle_time", text, _throttle_time)):
            samples = [Sample(labels, measure(meter, now_ms)) for labels, meter in meters]
            yield Family(f"{prefix}_{name}", "gauge", documentation, samples)
        yield Family(
            f"{prefix}_queue_size", "gauge", "Connections that are throttled.",
            one(manager.throttles.count(now_ms)),
        )  # fmt: skip


def _all(manager: _AnyManager) -> list[Meter | MutationMeter]:
    return [*manager.meters.values()]


def _rate(meter: Meter | MutationMeter, now_ms: int) -> float:
    return meter.rate(now_ms)


def _tokens(meter: Meter | MutationMeter, now_ms: int) -> float:
    assert isinstance(meter, MutationMeter)
    return meter.tokens(now_ms)


def _throttle_time(meter: Meter | MutationMeter, now_ms: int) -> float:
    return meter.throttle_time_ms(now_ms)


def connections(node: MetricSources) -> Iterator[Family]:
    """Yield the rates of new connections, and the delays of connections."""
    now_ms = node.quotas.now_ms()
    rates = node.server.rates
    if rates is None:
        return
    prefix = "kafka_server_socket_server_metrics"
    yield Family(
        f"{prefix}_broker_connection_accept_rate", "gauge", "New connections per second.",
        one(rates.rate(now_ms)),
    )  # fmt: skip
    listeners = list(rates.listeners.items())
    for name, text, values in (
        ("connection_accept_rate", "New connections per second of a listener.",
         [each.rate.measure(now_ms) for _, each in listeners]),
        ("connection_accept_throttle_time",
         "Average milliseconds by which connections were delayed by max.connection.creation.rate.",
         [each.throttled.measure(now_ms) for _, each in listeners]),
        ("ip_connection_accept_throttle_time",
         "Average milliseconds after which rejected connections of an address were closed.",
         [each.refused.measure(now_ms) for _, each in listeners]),
    ):  # fmt: skip
        samples = [
            Sample({"listener": listener}, value)
            for (listener, _), value in zip(listeners, values, strict=True)
        ]
        yield Family(f"{prefix}_{name}", "gauge", text, samples)
