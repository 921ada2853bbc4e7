"""The metrics of connections and of the event loop."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.network.authentications import Outcome
from odradek.node.metrics.sources import MetricSources
from odradek.telemetry.mbeans import Metric, attribute, gauge, meter, one, own, own_count, rate

SOCKETS = "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"
PROCESSOR = "0"
"""Apache Kafka has several network processors for each listener; here one event loop serves all."""
_EXPIRED = "expired-connections-killed-count"


def connections(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of connections."""
    server = node.server
    by_listener = {endpoint.name: 0 for endpoint in server.endpoints}
    for connection in list(server.connections):
        by_listener[connection.peer.listener] += 1
    yield attribute(
        SOCKETS,
        "connection-count",
        "Open connections.",
        [((name, PROCESSOR), count) for name, count in by_listener.items()],
    )
    for verb, past, counts in (
        ("creation", "accepted", server.opened),
        ("close", "closed", server.closed),
    ):
        rows = [((name, PROCESSOR), counts[name]) for name in by_listener]
        yield attribute(SOCKETS, f"connection-{verb}-total", f"Connections {past}.", rows)
        text = f"Connections {past} per second, averaged over a minute."
        yield rate(SOCKETS, f"connection-{verb}-rate", text, rows)
    yield meter(
        "kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=*",
        "Share of the time (0 to 1) in which a listener accepted no connection because of "
        "max.connections or max.connection.creation.rate. The count is in nanoseconds.",
        [((name,), server.blocked_ns(name)) for name in by_listener],
        1e9,
    )
    for outcome in Outcome:
        rows = [((name, PROCESSOR), count) for name, count in server.authentications.of(outcome)]
        name = outcome.value.replace("_", "-")
        text = "Authentications by TLS or SASL, by their outcome."
        if outcome is Outcome.EXPIRED:
            text = "Connections closed because their clients did not authenticate again in time."
        yield attribute(SOCKETS, name, text, rows)
    yield gauge(
        "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount",
        "Connections closed because their clients did not authenticate again in time.",
        one(sum(count for _, count in server.authentications.of(Outcome.EXPIRED))),
    )
    for name, text, value in (
        ("odradek_network_bytes_in", "Bytes received.", server.bytes_in),
        ("odradek_network_bytes_out", "Bytes sent.", server.bytes_out),
        (
            "odradek_network_connections_accepted",
            "Connections accepted.",
            server.connections_accepted,
        ),
        (
            "odradek_network_connections_refused",
            "Connections rejected because of a limit.",
            server.connections_refused,
        ),
        (
            "odradek_network_frames_refused",
            "Connections closed because of a request of an invalid size.",
            server.frames_refused,
        ),
        (
            "odradek_requests_refused",
            "Connections closed because of a request that is malformed or not served.",
            node.dispatcher.requests_refused,
        ),
    ):
        yield own_count(name, text, one(value))


def event_loop(node: MetricSources) -> Iterator[Metric]:
    """Yield the metrics of the event loop, which does the work of Apache Kafka's threads."""
    selector = node.selector
    if selector is None:
        return
    yield own_count("odradek_loop_turns", "Iterations of the event loop.", one(selector.turns))
    yield own(
        "odradek_loop_pause_seconds_max",
        "Duration of the longest iteration of the event loop since the last scrape.",
        one(selector.take_pause_max()),
    )
    idle_ns = int(selector.idle_seconds * 1e9)
    yield meter(
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        "Share of the time (0 to 1) in which the event loop waited for work. Odradek has no pool of "
        "request handlers: the event loop handles the requests. The count is in nanoseconds.",
        one(idle_ns),
        1e9,
    )
    idle_share = selector.take_idle_share()
    yield gauge(
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        "Share of the time (0 to 1) in which the event loop waited for work, since it was last read. "
        "The event loop is the only network processor.",
        one(idle_share),
    )
    yield gauge(
        "kafka.network:type=Processor,name=IdlePercent,networkProcessor=*",
        "Share of the time (0 to 1) in which the event loop waited for work, since it was last read. "
        "The event loop is the only network processor.",
        [((PROCESSOR,), idle_share)],
    )
    ratios = [("raft-metrics", "poll-idle-ratio-avg")]
    if node.of_broker is not None:
        ratios += [
            ("group-coordinator-metrics", "thread-idle-ratio-avg"),
            ("share-coordinator-metrics", "thread-idle-ratio-avg"),
            ("share-coordinator-metrics", "thread-idle-ratio-min"),
        ]
    for kind, name in ratios:
        yield attribute(
            f"kafka.server:type={kind}",
            name,
            "Share of the time (0 to 1) in which the event loop waited for work, since it was last "
            "read. It does the work of all threads.",
            one(idle_share),
        )
    yield gauge(
        "kafka.network:type=RequestChannel,name=RequestQueueSize",
        "Connections with received requests that wait for their next turn in the event loop.",
        one(node.server.turns.waiting),
    )
    blocked = sum(each.is_blocked for each in list(node.server.connections))
    for keys, rows in ((",processor=*", [((PROCESSOR,), blocked)]), ("", one(blocked))):
        yield gauge(
            f"kafka.network:type=RequestChannel,name=ResponseQueueSize{keys}",
            "Connections with responses that wait until the client accepts more bytes.",
            rows,
        )
