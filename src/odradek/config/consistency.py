"""Checks of combinations of settings before a node starts, and before dynamic settings change.

Each check yields messages that name the settings and the fix. The rules are the rules of Kafka's
KafkaConfig.validateValues, GroupCoordinatorConfig and QuorumConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.config.broker_config import (
    BROKER,
    CONTROLLER,
    RACK_AWARE_SELECTOR,
    BrokerConfig,
)
from odradek.config.kerberos import GSSAPI
from odradek.config.oauth import OAUTHBEARER
from odradek.config.sasl import PLAIN, SCRAM_MECHANISMS

MEBIBYTE = 1024 * 1024
_ASSIGNORS = frozenset(("uniform", "range", "UniformAssignor", "RangeAssignor"))
_ASSIGNORS_OF_KAFKA = "org.apache.kafka.coordinator.group.assignor."
"""The prefix of the assignor classes that configuration files of Apache Kafka may name."""


def problems(config: BrokerConfig) -> list[str]:
    """Return all problems of a node's combined settings; none if the node may start."""
    checks: tuple[Callable[[BrokerConfig], Iterator[str]], ...] = (
        node,
        listeners,
        quorum,
        controller_login,
        limits,
        logs,
        groups,
        authorizer,
        replica_selector,
    )
    return [problem for check in checks for problem in check(config)]


def node(config: BrokerConfig) -> Iterator[str]:
    """Check the node id, and the times of fetches and heartbeats."""
    effective = config.layers.effective
    if effective.get("broker.id", effective["node.id"]) != effective["node.id"]:
        yield "node.id and broker.id differ: give them the same value, or only node.id"
    if config.layers.value("replica.fetch.wait.max.ms") > config.layers.value(  # type: ignore[operator]
        "replica.lag.time.max.ms"
    ):
        yield _conflict(config, "replica.fetch.wait.max.ms", "at most", "replica.lag.time.max.ms")
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        yield _conflict(
            config, "broker.heartbeat.interval.ms", "at most half of", "broker.session.timeout.ms"
        )


def _conflict(config: BrokerConfig, name: str, how: str, other: str) -> str:
    shown = config.layers.shown
    return f"{shown(name)}, but it must be {how} {other}, and {shown(other)}"


def listeners(config: BrokerConfig) -> Iterator[str]:
    """Check listeners, advertised listeners, and the inter-broker listener."""
    names = [each.name for each in config.listeners]
    if config.is_broker:
        advertised = [each.name for each in config.advertised_listeners]
        if not advertised:
            yield (
                "no listener is left for clients: controller.listener.names holds "
                f"{', '.join(names)}; add another one to listeners"
            )
        elif config.inter_broker_listener_name not in advertised:
            yield _inter_broker_listener(config, advertised)
        extra = [name for name in advertised if name not in names]
        if extra:
            yield (
                f"advertised.listeners holds {', '.join(extra)}, "
                f"but listeners has only {', '.join(names)}"
            )
    for each in (*config.advertised_listeners, *config.advertised_controller_listeners):
        if each.host == "0.0.0.0" and each.name in config.advertised_by_setting:  # noqa: S104
            yield f"advertised.listeners holds {each}: 0.0.0.0 is no address to connect to"
    effective = config.layers.effective
    if {"inter.broker.listener.name", "security.inter.broker.protocol"} <= effective.keys():
        yield "set inter.broker.listener.name or security.inter.broker.protocol, not both"


def _inter_broker_listener(config: BrokerConfig, advertised: list[str]) -> str:
    name, names = config.inter_broker_listener_name, ", ".join(advertised)
    if "inter.broker.listener.name" in config.layers.effective:
        return f"inter.broker.listener.name is {name}, but it must be one of {names}"
    protocol = config.layers.shown("security.inter.broker.protocol")
    return (
        f"no listener is named {name} for the connections between brokers ({protocol}): set "
        f"inter.broker.listener.name to one of {names}"
    )


def quorum(config: BrokerConfig) -> Iterator[str]:
    """Check controller listeners and voters, according to the node's roles."""
    names = [each.name for each in config.listeners]
    controllers = config.controller_listener_names
    voters = sorted(config.quorum_voters)
    if config.is_controller:
        missing = [name for name in controllers if name not in names]
        if missing:
            yield (
                f"controller.listener.names holds {', '.join(missing)}, which listeners lacks: "
                f"add {missing[0]}://host:port to listeners"
            )
        if voters and config.node_id not in voters:
            yield (
                f"{_own_id(config)}, but controller.quorum.voters has only "
                f"{', '.join(map(str, voters))}: a controller must be one of the voters"
            )
    if config.is_controller and not controllers and not config.is_first_voter:
        yield "a quorum of several controllers needs controller.listener.names"
    if config.process_roles == {CONTROLLER} and not controllers:
        yield "a node that is only a controller needs controller.listener.names"
    elif config.process_roles == {CONTROLLER} and set(names) != set(controllers):
        yield "a node that is only a controller may listen only on controller.listener.names"
    if config.process_roles == {BROKER}:
        if not voters and not config.quorum_bootstrap_servers:
            yield "a broker needs controller.quorum.bootstrap.servers or controller.quorum.voters"
        if not controllers:
            yield "a broker needs controller.listener.names, to know how controllers are reached"
        if config.node_id in voters:
            yield f"{_own_id(config)}, which is a voter, but process.roles lacks controller"
        if config.controller_quorum_auto_join_enable:
            yield "controller.quorum.auto.join.enable is for nodes with the role controller"
        shared = [name for name in controllers if name in names]
        if shared:
            yield f"listeners of a broker must not hold the controller listener {shared[0]}"


def _own_id(config: BrokerConfig) -> str:
    assumed = config.layers.assumed
    is_old = "node.id" in assumed and "broker.id" not in assumed
    return config.layers.shown("broker.id" if is_old else "node.id")


def controller_login(config: BrokerConfig) -> Iterator[str]:
    """Check that the controllers can log in to each other.

    A controller reads the credentials of SCRAM from the metadata log, but does not know which part of it
    is committed before a leader is elected. So the controllers refuse each other's votes, in Apache Kafka
    too, which starts and never has a leader.
    """
    peers = config.controller_peers
    mechanism = None if peers is None else peers.mechanism
    if config.is_controller and len(config.quorum_voters) > 1 and mechanism in SCRAM_MECHANISMS:
        yield (
            f"sasl.mechanism.controller.protocol: several controllers cannot use {mechanism} among "
            f"themselves: set {PLAIN}, {OAUTHBEARER} or {GSSAPI} on the controllers; brokers may use "
            f"{mechanism} to connect to them"
        )


def limits(config: BrokerConfig) -> Iterator[str]:
    """Check the limits of requests and connections."""
    queued = config.value("queued.max.request.bytes")
    assert isinstance(queued, int)
    if 0 < queued < config.socket_request_max_bytes:
        yield _conflict(config, "queued.max.request.bytes", "at least", "socket.request.max.bytes")
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        yield (
            "max.connections.per.ip may be 0 only when max.connections.per.ip.overrides "
            "says who may connect"
        )


def logs(config: BrokerConfig) -> Iterator[str]:
    """Check segment times, retention, compaction lags, and the memory for compaction."""
    topic, shown = config.topic_defaults, config.layers.shown
    if topic.segment_ms < 1:
        yield f"{shown('log.roll.ms')}, but it must be at least 1"
    if topic.segment_jitter_ms < 0:
        yield f"{shown('log.roll.jitter.ms')}, but it must be at least 0"
    if topic.retention_ms == 0:
        yield (
            f"{shown('log.retention.ms')}, but it must be at least 1, or -1 to keep records for ever"
        )
    if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        lags = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
        yield _conflict(config, lags[0], "at most", lags[1])
    threads = max(config.log_cleaner_threads, 1)
    if config.log_cleaner_dedupe_buffer_size // threads <= MEBIBYTE:
        yield (
            f"{shown('log.cleaner.dedupe.buffer.size')}, but it must be above 1 MiB for each of "
            f"log.cleaner.threads, and {shown('log.cleaner.threads')}"
        )


def groups(config: BrokerConfig) -> Iterator[str]:
    """Check protocols, assignors, and whether each default of groups is within its bounds."""
    if "classic" not in config.group_coordinator_rebalance_protocols:
        yield "group.coordinator.rebalance.protocols must hold classic"
    for name in config.group_consumer_assignors:
        if name.removeprefix(_ASSIGNORS_OF_KAFKA) not in _ASSIGNORS:
            yield f"group.consumer.assignors names {name}, but there are only uniform and range"
    for kind in ("consumer", "share", "streams"):
        for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            yield from _bounded(config, f"group.{kind}.", what)
        heartbeat, session = (
            config.value(f"group.{kind}.{what}")
            for what in ("heartbeat.interval.ms", "session.timeout.ms")
        )
        assert isinstance(heartbeat, int)
        assert isinstance(session, int)
        if heartbeat >= session:
            names = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
            yield _conflict(config, names[0], "below", names[1])
    for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        yield from _bounded(config, "group.share.", what)


def _bounded(config: BrokerConfig, prefix: str, what: str) -> Iterator[str]:
    low, value, high = (
        config.value(name) for name in (f"{prefix}min.{what}", prefix + what, f"{prefix}max.{what}")
    )
    assert isinstance(low, int)
    assert isinstance(value, int)
    assert isinstance(high, int)
    if not low <= value <= high:
        shown = config.layers.shown
        yield (
            f"{shown(prefix + what)}, but must be from {prefix}min.{what} to {prefix}max.{what}: "
            f"{shown(f'{prefix}min.{what}')}, {shown(f'{prefix}max.{what}')}"
        )


def authorizer(config: BrokerConfig) -> Iterator[str]:
    """Check the class of the authorizer."""
    name = config.authorizer_class_name
    if name not in ("", STANDARD_AUTHORIZER):
        yield (
            f"authorizer.class.name is not supported: {name} is a Java class. "
            f"The only supported authorizer is {STANDARD_AUTHORIZER}"
        )


def replica_selector(config: BrokerConfig) -> Iterator[str]:
    """Check the class that chooses the replica from which a consumer reads."""
    name = config.replica_selector_class
    if name not in (None, "", RACK_AWARE_SELECTOR):
        yield (
            f"replica.selector.class is not supported: {name} is a Java class. "
            f"The only supported class is {RACK_AWARE_SELECTOR}"
        )
