"""The options of `format("odradek")`: the options of Spark's Kafka connector, and a few more.

Names are case-insensitive. Settings of the client may be written with or without the prefix
`kafka.`. An unknown option is an error, whose message lists the known options. The settings in
`TUNING_IGNORED` only tune the Java client, so they are ignored with a warning.
"""

from __future__ import annotations

import os.path
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from odradek.client.security import PLAINTEXT, SECURITY_SETTINGS, Security, parse_security
from odradek.model.topic_partition import TopicPartition
from odradek.records.compression import Codec
from odradek.spark.offsets import (
    EARLIEST,
    LATEST,
    At,
    AtTime,
    Bound,
    Listed,
    parse_assignment,
    parse_listed,
)
from odradek.spark.values.given import Given
from odradek.spark.values.settings import (
    TIMESTAMP_NUMBERS,
    TYPED_OPTIONS,
    WRITE_ONLY,
    Typed,
    parse_typed,
)

CONNECTION_OPTIONS = (
    "bootstrap.servers",
    "client.id",
    "request.timeout.ms",
    *SECURITY_SETTINGS,
)
READ_OPTIONS = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "includeHeaders",
    "readFrom",
    "logDirs",
    *TYPED_OPTIONS,
    TIMESTAMP_NUMBERS,
    "decodeErrors",
    "badRecordsTopic",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "maxRecordsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupId",
    "group.id",
    "commitOffsets",
    "isolation.level",
    "fetch.max.bytes",
)
WRITE_OPTIONS = (
    "topic",
    *TYPED_OPTIONS,
    *WRITE_ONLY,
    "acks",
    "batch.size",
    "compression.type",
    "enable.idempotence",
    "deliveryGuarantee",
    "transactional.id",
    "transaction.timeout.ms",
    "txnAppId",
    "txnVersion",
)
CODECS = {codec.name.lower(): codec for codec in Codec}
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}

FETCH_MAX_BYTES = 16 * 1024 * 1024
BATCH_SIZE = 256 * 1024
REQUEST_TIMEOUT_MS = 60_000
MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
TRANSACTION_TIMEOUT_MS = 10 * 60 * 1000
"""How long a write may take. Brokers allow 15 minutes by default (transaction.max.timeout.ms)."""
GROUP_SIZE_MAX = 200
"""The maximum length of the name of a group that is derived from a subscription."""
GUARANTEES = {"exactly-once": True, "at-least-once": False}
DECODE_ERRORS = {"fail": False, "null": True}


class ReadFrom(Enum):
    """Where tasks read records."""

    BROKER = auto()
    SEGMENTS = auto()
    """From segment files on their machine. A task without them fails."""
    AUTO = auto()
    """From segment files on their machine if possible, otherwise from the broker."""


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Connection settings of the cluster."""

    bootstrap_servers: str
    client_id: str
    request_timeout_ms: int
    security: Security = PLAINTEXT


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a read. `key` and `value` are None if they are bytes."""

    headers: bool = False
    key: Typed | None = None
    value: Typed | None = None
    keeps_undecoded: bool = False
    """Whether what cannot be decoded is null, with its bytes in another column."""

    @property
    def typed(self) -> list[Typed]:
        """The typed columns."""
        return [each for each in (self.key, self.value) if each is not None]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What to read: partitions, topics by name, or topics by pattern. Only one field is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of batch and streaming reads. Numbers are None if no limit is set."""

    connection: ConnectionOptions
    subscription: Subscription
    start: Bound
    end: Bound
    layout: Layout
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_records_per_trigger: int | None
    min_records_per_trigger: int | None
    max_trigger_delay_ms: int
    group_id: str | None
    read_committed: bool
    fetch_max_bytes: int
    read_from: ReadFrom = ReadFrom.BROKER
    log_directories: tuple[str, ...] = ()
    """The log directories (`log.dirs`) of a broker on the machines of the tasks."""
    bad_records: WriteOptions | None = None
    """How records are written whose value cannot be decoded. If None, they are an error or null."""

    @property
    def reads_headers(self) -> bool:
        """Whether records are read with their headers."""
        return self.layout.headers or self.bad_records is not None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of batch and streaming writes. If `topic` is None, each row has its own topic.

    If `exactly_once` is None, the frame decides (see `distribution`). `application` is an id and a
    version; a write with the same id and version, or an older version, is omitted.
    """

    connection: ConnectionOptions
    topic: str | None
    key: Typed | None
    value: Typed | None
    acks: int
    batch_size: int
    codec: Codec
    idempotent: bool
    exactly_once: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    application: tuple[str, int] | None
    checkpoint: str | None


def layout(options: Mapping[str, str]) -> Layout:
    """Return the columns of a read. Reject unknown options.

    Spark also asks for them when a query writes. Then no values are typed.

    Raises:
        ValueError: an option is unknown, malformed, or contradicts another one.
    """
    given = _given(options, (*READ_OPTIONS, *WRITE_OPTIONS))
    if not given.has_any("assign", "subscribe", "subscribePattern"):
        return Layout(headers=given.boolean("includeHeaders", False))
    return _layout(given, _topics(_subscription(given)))


def _given(options: Mapping[str, str], known: Iterable[str]) -> Given:
    return Given(options, {*known, *CONNECTION_OPTIONS})


def _topics(subscription: Subscription) -> list[str]:
    """Return the topics that a subscription names."""
    return sorted({*subscription.topics, *(each.topic for each in subscription.partitions)})


def _layout(given: Given, topics: Sequence[str]) -> Layout:
    """Return the columns of a read whose options fit each other."""
    typed = parse_typed(given, topics, _request_timeout_ms(given))
    for name in ("decodeErrors", "badRecordsTopic"):
        if given.has(name) and not typed:
            raise ValueError(f"{name} is for typed values: valueFormat and valueSchema are missing")
    return Layout(
        headers=given.boolean("includeHeaders", False),
        key=typed.get("key"),
        value=typed.get("value"),
        keeps_undecoded=given.choice("decodeErrors", DECODE_ERRORS, False),
    )


def _bad_records(
    given: Given, connection: ConnectionOptions, subscription: Subscription
) -> WriteOptions | None:
    topic = given.text("badRecordsTopic")
    if not topic:
        return None
    if given.has("decodeErrors"):
        raise ValueError("give decodeErrors or badRecordsTopic, not both")
    if topic in _topics(subscription) or (
        subscription.pattern and re.fullmatch(subscription.pattern, topic)
    ):
        raise ValueError(f"badRecordsTopic {topic} is read by the same query: use another topic")
    return WriteOptions(
        connection=connection,
        topic=topic,
        key=None,
        value=None,
        acks=-1,
        batch_size=BATCH_SIZE,
        codec=Codec.NONE,
        idempotent=True,
        exactly_once=False,
        transactional_id=None,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        application=None,
        checkpoint=None,
    )


def read_options(options: Mapping[str, str], streaming: bool) -> ReadOptions:
    """Parse the options of a read.

    Raises:
        ValueError: an option is unknown, missing, malformed, or contradicts another one.
    """
    given = _given(options, READ_OPTIONS)
    if streaming:
        for name in READ_OPTIONS:
            if name.startswith("ending") and given.has(name):
                raise ValueError(f"{name} is for batch reads: a stream has no end")
    else:
        for name in READ_OPTIONS:
            if "Trigger" in name and given.has(name):
                warnings.warn(f"{name} is for streams and has no effect here", stacklevel=2)
    per_trigger = given.integer("maxOffsetsPerTrigger", 1)
    read_from, log_directories = _read_from(given)
    connection, subscription = _connection(given), _subscription(given)
    return ReadOptions(
        connection=connection,
        subscription=subscription,
        start=_start(given, LATEST if streaming else EARLIEST, streaming),
        end=_end(given),
        layout=_layout(given, _topics(subscription)),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        min_partitions=given.integer("minPartitions", 1),
        max_records_per_partition=given.integer("maxRecordsPerPartition", 1),
        max_records_per_trigger=per_trigger or given.integer("maxRecordsPerTrigger", 1),
        min_records_per_trigger=given.integer("minOffsetsPerTrigger", 1),
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        group_id=_group(given),
        read_committed=given.choice(
            "isolation.level", {"read_uncommitted": False, "read_committed": True}, False
        ),
        fetch_max_bytes=given.integer("fetch.max.bytes", 1) or FETCH_MAX_BYTES,
        read_from=read_from,
        log_directories=log_directories,
        bad_records=_bad_records(given, connection, subscription),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write.

    Raises:
        ValueError: an option is unknown, missing or malformed.
    """
    given = _given(options, WRITE_OPTIONS)
    acks = given.choice("acks", ACKS, -1)
    idempotent = given.boolean("enable.idempotence", acks == -1)
    if idempotent and acks != -1:
        raise ValueError("enable.idempotence needs acks=all")
    topic = given.text("topic") or None
    topics = [] if topic is None else [topic]
    typed = parse_typed(given, topics, _request_timeout_ms(given), writing=True)
    return WriteOptions(
        connection=_connection(given),
        topic=topic,
        key=typed.get("key"),
        value=typed.get("value"),
        acks=acks,
        batch_size=given.integer("batch.size", 1) or BATCH_SIZE,
        codec=given.choice("compression.type", CODECS, Codec.NONE),
        idempotent=idempotent,
        exactly_once=_exactly_once(given),
        transactional_id=given.text("transactional.id") or None,
        transaction_timeout_ms=given.integer("transaction.timeout.ms", 1) or TRANSACTION_TIMEOUT_MS,
        application=_application(given),
        checkpoint=given.text("checkpointLocation") or None,
    )


def _exactly_once(given: Given) -> bool | None:
    """Return the guarantee that was asked for, explicitly or by an option that needs it."""
    guarantee = given.choice("deliveryGuarantee", GUARANTEES, None)
    for name in ("transactional.id", "txnAppId"):
        if given.has(name):
            if guarantee is False:
                raise ValueError(f"{name} needs deliveryGuarantee=exactly-once")
            return True
    return guarantee


def _application(given: Given) -> tuple[str, int] | None:
    name, version = given.text("txnAppId"), given.integer("txnVersion", 0)
    if bool(name) != (version is not None):
        raise ValueError("give both txnAppId and txnVersion, or none of them")
    return None if version is None else (name, version)


def _read_from(given: Given) -> tuple[ReadFrom, tuple[str, ...]]:
    """Return where to read, and the log directories. With log directories the default is AUTO."""
    names = (name.strip() for name in given.text("logDirs").split(","))
    directories = tuple(dict.fromkeys(os.path.normpath(name) for name in names if name))
    default = ReadFrom.AUTO if directories else ReadFrom.BROKER
    choices = {each.name.lower(): each for each in ReadFrom}
    chosen = given.choice("readFrom", choices, default)
    relative = [each for each in directories if not os.path.isabs(each)]
    if relative:
        raise ValueError(f"logDirs must be absolute paths; {relative[0]} is not")
    if chosen is not ReadFrom.BROKER and not directories:
        raise ValueError(
            f"readFrom={chosen.name.lower()} needs logDirs: the log.dirs of the broker on the "
            "machines of the tasks"
        )
    if chosen is ReadFrom.BROKER and directories:
        raise ValueError("logDirs has no effect with readFrom=broker: omit one of them")
    return chosen, directories


def _group(given: Given) -> str | None:
    """Return the group that shows the progress of a streaming query.

    The default is derived from the subscription, because a reader does not know its query.
    """
    if not given.boolean("commitOffsets", True):
        return None
    subscribed = given.text("subscribe") or given.text("subscribePattern") or given.text("assign")
    return given.text("groupId") or given.text("group.id") or f"spark-{subscribed}"[:GROUP_SIZE_MAX]


def _connection(given: Given) -> ConnectionOptions:
    servers = given.text("bootstrap.servers")
    if not servers:
        raise ValueError('option "kafka.bootstrap.servers" is missing: host:port[,host:port]')
    return ConnectionOptions(
        bootstrap_servers=servers,
        client_id=given.text("client.id", "odradek-spark"),
        request_timeout_ms=_request_timeout_ms(given),
        security=parse_security({n: given.text(n) for n in SECURITY_SETTINGS if given.has(n)}),
    )


def _request_timeout_ms(given: Given) -> int:
    return given.integer("request.timeout.ms", 1) or REQUEST_TIMEOUT_MS


def _subscription(given: Given) -> Subscription:
    ways = [name for name in ("assign", "subscribe", "subscribePattern") if given.has(name)]
    if len(ways) != 1:
        raise ValueError(
            f"give exactly one of assign, subscribe, subscribePattern; given: {ways or 'none'}"
        )
    text = given.text(ways[0])
    match ways[0]:
        case "assign":
            subscription = Subscription(partitions=tuple(parse_assignment(text)))
        case "subscribe":
            names = (name.strip() for name in text.split(","))
            subscription = Subscription(topics=tuple(name for name in names if name))
        case _:
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(
                    f"subscribePattern {text!r} is not a valid pattern: {error}"
                ) from error
            subscription = Subscription(pattern=text)
    if subscription == Subscription():
        raise ValueError(f"{ways[0]} names nothing to read")
    return subscription


def _start(given: Given, default: int, streaming: bool) -> Bound:
    latest_if_none = given.choice(
        "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, False
    )
    timed = _at_time(given, "startingTimestamp", "startingOffsetsByTimestamp", latest_if_none)
    if timed is not None:
        return timed
    bound = _bound(given, "startingOffsets", default)
    sentinels = [bound.offset] if isinstance(bound, At) else list(bound.offsets.values())
    if not streaming and LATEST in sentinels:
        raise ValueError("startingOffsets of a batch read cannot be latest: it would read nothing")
    return bound


def _end(given: Given) -> Bound:
    timed = _at_time(given, "endingTimestamp", "endingOffsetsByTimestamp", latest_if_none=True)
    if timed is not None:
        return timed
    bound = _bound(given, "endingOffsets", LATEST)
    sentinels = [bound.offset] if isinstance(bound, At) else list(bound.offsets.values())
    if EARLIEST in sentinels:
        raise ValueError("endingOffsets cannot be earliest: it would read nothing")
    return bound


def _at_time(given: Given, everywhere: str, listed: str, latest_if_none: bool) -> AtTime | None:
    timestamp_ms = given.integer(everywhere, 0)
    if timestamp_ms is not None:
        return AtTime(timestamp_ms, latest_if_none)
    if given.has(listed):
        return AtTime(parse_listed(given.text(listed), listed), latest_if_none)
    return None


def _bound(given: Given, name: str, default: int) -> At | Listed:
    text = given.text(name).strip()
    words = {"": default, "earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return At(words[text.lower()])
    offsets = parse_listed(text, name)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(f"{name}: offset {offset} of {partition}; -2 is earliest, -1 latest")
    return Listed(offsets)


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(given: Given, name: str, default: int) -> int:
    """Parse a duration such as `15m` or `500ms` into milliseconds.

    A number without a unit is in milliseconds, as in Spark's JavaUtils.
    """
    text = given.text(name).strip().lower()
    if not text:
        return default
    matched = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)?", text)
    if matched is None:
        raise ValueError(f"{name} must be a time such as 15m or 500ms; it is {text!r}")
    return int(matched[1]) * _UNITS_MS[matched[2] or "ms"]
