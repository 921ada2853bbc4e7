"""How an application runs as a process, and which of its clients gets which setting.

A setting goes to each client that has it. A prefix says which client is meant: `consumer.` all consumers,
`main.consumer.`, `restore.consumer.` and `global.consumer.` one of them, `producer.`, `admin.`. The more exact
prefix decides, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.admin.admin import ADMIN_SETTINGS
from odradek.client.consuming.options import CONSUMER_SETTINGS
from odradek.client.producer.options import PRODUCER_SETTINGS
from odradek.client.suggestion import nearest
from odradek.core.streams.task import TaskSettings

AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE = "exactly_once_v2"
CLASSIC = "classic"
STREAMS = "streams"
"""Values of `group.protocol`."""
MAIN_CONSUMER = "main.consumer."
RESTORE_CONSUMER = "restore.consumer."
GLOBAL_CONSUMER = "global.consumer."
PRODUCER = "producer."
ADMIN = "admin."
_CONSUMERS = "consumer."
_CLIENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    MAIN_CONSUMER: (("", _CONSUMERS, MAIN_CONSUMER), CONSUMER_SETTINGS),
    RESTORE_CONSUMER: (("", _CONSUMERS, RESTORE_CONSUMER), CONSUMER_SETTINGS),
    GLOBAL_CONSUMER: (("", _CONSUMERS, GLOBAL_CONSUMER), CONSUMER_SETTINGS),
    PRODUCER: (("", PRODUCER), PRODUCER_SETTINGS),
    ADMIN: (("", ADMIN), ADMIN_SETTINGS),
}
"""The prefixes that concern a client, the more exact one later, and the settings that it has."""
_PURGE = "repartition.purge.interval.ms"
_CLEANUP = "state.cleanup.delay.ms"
_SERVER = "application.server"
_STANDBYS = "num.standby.replicas"
_PROTOCOL = "group.protocol"
_TAG = "client.tag."
_RUNNER = (
    "processing.guarantee",
    "commit.interval.ms",
    "replication.factor",
    _PURGE,
    _PROTOCOL,
    _CLEANUP,
    _SERVER,
    _STANDBYS,
)
_CONTROLLED = frozenset(
    {
        "allow.auto.create.topics",
        "enable.auto.commit",
        "enable.idempotence",
        "group.id",
        "group.protocol",
        "group.remote.assignor",
        "key.deserializer",
        "key.serializer",
        "partition.assignment.strategy",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
"""What the application itself must decide, or the results would be wrong."""
_OF_MEMBERS = ("auto.offset.reset", "group.instance.id")


class WorkerSettings(NamedTuple):
    """How an application runs."""

    clients: Mapping[str, Mapping[str, Any]]
    """The settings of each client, by its prefix."""
    exactly_once: bool = False
    commit_interval_ms: int = 30_000
    replication_factor: int = -1
    purge_interval_ms: int = 30_000
    tasks: TaskSettings = TaskSettings()
    group_protocol: str = CLASSIC
    state_cleanup_delay_ms: int = 600_000
    """How long the state of a task that has left is kept, in case it returns."""
    endpoint: tuple[str, int] | None = None
    """The host and port where the process answers queries."""
    client_tags: Mapping[str, str] = {}


def worker_settings(
    given: Mapping[str, Any], bootstrap_servers: str, reset: str | None, tasks: TaskSettings
) -> WorkerSettings:
    """Return the settings of a worker. Names have dots or underscores.

    `reset` is what the application's streams say; without it the consumer's setting counts, or "earliest".

    Raises:
        ValueError: a name is unknown, or may not be set, or a value is malformed.
    """
    written = {name.replace("_", "."): value for name, value in given.items()}
    if len(written) < len(given):
        raise ValueError(f"a setting is given twice: {', '.join(sorted(given))}")
    settings = {"bootstrap.servers": bootstrap_servers, **written}
    guarantee = settings.pop("processing.guarantee", AT_LEAST_ONCE)
    if guarantee not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise ValueError(
            f'processing_guarantee is "{AT_LEAST_ONCE}" or "{EXACTLY_ONCE}": {guarantee!r}'
        )
    is_exact = guarantee == EXACTLY_ONCE
    interval = _number(settings, "commit.interval.ms", 100 if is_exact else 30_000, 0)
    factor = _number(settings, "replication.factor", -1, -1)
    purge = _number(settings, _PURGE, 30_000, 0)
    cleanup = _number(settings, _CLEANUP, 600_000, 0)
    protocol = _protocol(settings)
    endpoint = _endpoint(settings, protocol)
    tags = {
        name.removeprefix(_TAG): str(settings.pop(name))
        for name in list(settings)
        if name.startswith(_TAG)
    }
    clients = _routed(settings)
    if is_exact:
        _make_exact(clients)
    main = clients[MAIN_CONSUMER]
    main["auto.offset.reset"] = reset or main.get("auto.offset.reset", "earliest")
    return WorkerSettings(
        clients,
        is_exact,
        interval,
        factor,
        purge,
        tasks,
        group_protocol=protocol,
        state_cleanup_delay_ms=cleanup,
        endpoint=endpoint,
        client_tags=tags,
    )


def _number(settings: dict[str, Any], name: str, default: int, lowest: int) -> int:
    value = settings.pop(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise ValueError(
            f"{name.replace('.', '_')} is {value!r}; it must be a whole number of {lowest} or more"
        )
    return value


def _protocol(settings: dict[str, Any]) -> str:
    protocol = str(settings.pop(_PROTOCOL, CLASSIC)).lower()
    if protocol not in (CLASSIC, STREAMS):
        raise ValueError(f'group_protocol is "{CLASSIC}" or "{STREAMS}": {protocol!r}')
    if _number(settings, _STANDBYS, 0, 0):
        raise ValueError(
            "num_standby_replicas is a setting of the group: set group_protocol="
            f'"{STREAMS}" here, and streams.num.standby.replicas of the group with '
            "`odradek config set group APPLICATION_ID streams.num.standby.replicas=1`"
        )
    return protocol


def _endpoint(settings: dict[str, Any], protocol: str) -> tuple[str, int] | None:
    text = settings.pop(_SERVER, "") or ""
    if not text:
        return None
    if protocol != STREAMS:
        raise ValueError(
            f'application_server needs group_protocol="{STREAMS}": the members of a classic group do '
            "not know one another's addresses"
        )
    host, _, port = str(text).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"application_server is {text!r}; it must be HOST:PORT")
    return host, int(port)


def _routed(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of each client."""
    for name in settings:
        prefix, rest = _split(name)
        if rest in _CONTROLLED:
            raise ValueError(f"{name} cannot be set: the application decides it")
        if not any(prefix in prefixes and rest in known for prefixes, known in _CLIENTS.values()):
            raise ValueError(f"there is no setting {name}{nearest(name, _names(prefix))}")
    found: dict[str, dict[str, Any]] = {}
    for client, (prefixes, known) in _CLIENTS.items():
        chosen = found[client] = {}
        for prefix in prefixes:
            for name in known:
                if prefix + name in settings:
                    chosen[name] = settings[prefix + name]
    for client in (MAIN_CONSUMER, RESTORE_CONSUMER, GLOBAL_CONSUMER):
        found[client]["allow.auto.create.topics"] = "false"
    for client in (
        RESTORE_CONSUMER,
        GLOBAL_CONSUMER,
    ):  # they have no group, and are told where to read
        for name in _OF_MEMBERS:
            found[client].pop(name, None)
    return found


def _make_exact(clients: Mapping[str, dict[str, Any]]) -> None:
    """Let consumers read what is committed only, and limit transactions to 10 s by default."""
    for client in (MAIN_CONSUMER, RESTORE_CONSUMER, GLOBAL_CONSUMER):
        if clients[client].setdefault("isolation.level", "read_committed") != "read_committed":
            raise ValueError(f"isolation.level must be read_committed with {EXACTLY_ONCE}")
    clients[PRODUCER].setdefault("transaction.timeout.ms", 10_000)


def _split(name: str) -> tuple[str, str]:
    """Return the prefix of a name, which may be empty, and the rest."""
    for prefix in (MAIN_CONSUMER, RESTORE_CONSUMER, GLOBAL_CONSUMER, _CONSUMERS, PRODUCER, ADMIN):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def _names(prefix: str) -> Iterable[str]:
    """Return the names that may be set with a prefix."""
    names = {
        prefix + name
        for prefixes, known in _CLIENTS.values()
        if prefix in prefixes
        for name in known
        if name not in _CONTROLLED
    }
    return sorted(names.union(() if prefix else _RUNNER))
