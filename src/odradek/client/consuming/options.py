"""The settings of a consumer by Kafka's names, with Java's defaults.

librdkafka's names and its values of `auto.offset.reset` are understood, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from odradek.client.consuming.deserializing import (
    KEY_DESERIALIZER,
    VALUE_DESERIALIZER,
    deserializers,
)
from odradek.client.core.assignors import ASSIGNORS
from odradek.client.core.consumer_settings import CLASSIC, CONSUMER, ConsumerSettings
from odradek.client.core.fetch_settings import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchSettings,
    ResetPolicy,
)
from odradek.client.core.member_settings import MemberSettings
from odradek.client.shell.settings import CONNECTION_SETTINGS, Given

_FETCH_NUMBERS = {
    "fetch.max.wait.ms": ("wait_ms_max", 0),
    "fetch.min.bytes": ("bytes_min", 0),
    "fetch.max.bytes": ("bytes_max", 0),
    "max.partition.fetch.bytes": ("partition_bytes_max", 0),
    "max.poll.records": ("records_max", 1),
    "metadata.max.age.ms": ("metadata_max_age_ms", 0),
}
_COMMON_NUMBERS = {
    "request.timeout.ms": ("request_timeout_ms", 1),
    "retry.backoff.ms": ("retry_backoff_ms", 0),
    "retry.backoff.max.ms": ("retry_backoff_ms_max", 0),
}
_MEMBER_NUMBERS = {
    "session.timeout.ms": ("session_timeout_ms", 1),
    "heartbeat.interval.ms": ("heartbeat_interval_ms", 1),
    "max.poll.interval.ms": ("max_poll_interval_ms", 1),
}
"""The fields of settings that are numbers, and the lowest values."""
_OF_CLASSIC = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_OF_CONSUMER = ("group.remote.assignor",)
_OTHER_NAMES = {
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""librdkafka's names of the same settings."""
_RESETS = {
    "earliest": "earliest",
    "latest": "latest",
    "none": "none",
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
"""The values of `auto.offset.reset`, also those of librdkafka."""
_BY_DURATION = "by_duration:"
_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_ISOLATIONS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
_DAY_MS = 86_400_000

CONSUMER_SETTINGS = (
    *CONNECTION_SETTINGS,
    *_FETCH_NUMBERS,
    *_COMMON_NUMBERS,
    *_MEMBER_NUMBERS,
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "client.rack",
    "default.api.timeout.ms",
    "enable.auto.commit",
    "enable.metrics.push",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "isolation.level",
    KEY_DESERIALIZER,
    "partition.assignment.strategy",
    VALUE_DESERIALIZER,
)
"""The names of a consumer's settings."""


def given_settings(settings: Mapping[str, object], keywords: Mapping[str, object]) -> Given:
    """Return the settings of a consumer: `settings` by name, `keywords` with underscores.

    Raises:
        ValueError: a name is unknown, or a setting is given twice.
    """
    return Given(settings, keywords, CONSUMER_SETTINGS, _OTHER_NAMES)


def consumer_settings(given: Given, request_timeout_ms: int = 30_000) -> ConsumerSettings:
    """Return what the machine must know. `request_timeout_ms` is a default.

    Raises:
        ValueError: a value is malformed, or settings contradict each other.
        TypeError: a deserializer is none.
    """
    common = _numbers(given, _COMMON_NUMBERS)
    common.setdefault("request_timeout_ms", request_timeout_ms)
    rack = given.text("client.rack")
    fetch = FetchSettings(
        **_numbers(given, _FETCH_NUMBERS),
        **common,
        isolation=given.choice("isolation.level", _ISOLATIONS, READ_UNCOMMITTED),
        reset=reset_policy(given.text("auto.offset.reset", "latest")),
        decoder=deserializers(given),
        checks_crcs=given.flag("check.crcs", default=True),
        rack=rack,
    )
    member = _member(given, common, rack)
    commits = given.flag("enable.auto.commit", default=member is not None)
    if commits and member is None:
        raise ValueError("enable.auto.commit needs a group.id")
    protocol = given.choice("group.protocol", {each: each for each in (CLASSIC, CONSUMER)}, CLASSIC)
    others = _OF_CONSUMER if protocol == CLASSIC else _OF_CLASSIC
    for name in others:
        if given.has(name):
            raise ValueError(f"{name} cannot be set when group.protocol={protocol.upper()}")
    if member is not None and member.heartbeat_interval_ms >= member.session_timeout_ms:
        raise ValueError(
            f"heartbeat.interval.ms is {member.heartbeat_interval_ms}; it must be lower than "
            f"session.timeout.ms, which is {member.session_timeout_ms}"
        )
    return ConsumerSettings(
        fetch,
        member,
        protocol,
        _assignors(given),
        given.text("group.remote.assignor") or None,
        commits,
        given.number_or("auto.commit.interval.ms", 5_000),
        given.number_or("default.api.timeout.ms", 60_000),
        given.flag("exclude.internal.topics", default=True),
    )


def _numbers(given: Given, fields: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    return {
        field: given.number(name, lowest)
        for name, (field, lowest) in fields.items()
        if given.has(name)
    }


def _member(given: Given, common: Mapping[str, Any], rack: str) -> MemberSettings | None:
    if not given.has("group.id"):
        for name in ("group.instance.id", "group.protocol"):
            if given.has(name):
                raise ValueError(f"{name} needs a group.id")
        return None
    group_id = given.text("group.id")
    if not group_id:
        raise ValueError("group.id is empty; leave it out to read without a group")
    numbers = _numbers(given, _MEMBER_NUMBERS)
    instance_id = given.text("group.instance.id") or None
    return MemberSettings(group_id, instance_id, rack, **numbers, **common)


def _assignors(given: Given) -> tuple[str, ...]:
    """Return the assignors: a list, or names separated by commas. Java's class names are known."""
    value = given.object("partition.assignment.strategy")
    if value is None:
        return "range", "cooperative-sticky"
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise ValueError(f"partition.assignment.strategy is {value!r}; it must be a list of names")
    found = tuple(_JAVA_ASSIGNORS.get(str(each).strip(), str(each).strip()) for each in names)
    for name in found:
        if name not in ASSIGNORS:
            raise ValueError(
                f"partition.assignment.strategy: {name!r} is not an assignor; there are "
                f"{', '.join(ASSIGNORS)}"
            )
    return found


_JAVA = "org.apache.kafka.clients.consumer."
_JAVA_ASSIGNORS = {
    f"{_JAVA}RangeAssignor": "range",
    f"{_JAVA}RoundRobinAssignor": "roundrobin",
    f"{_JAVA}StickyAssignor": "sticky",
    f"{_JAVA}CooperativeStickyAssignor": "cooperative-sticky",
}


def reset_policy(text: str) -> ResetPolicy:
    """Return the policy of a value of `auto.offset.reset`.

    Raises:
        ValueError: there is no such policy, or the duration is malformed or negative.
    """
    word = text.strip().lower()
    if word in _RESETS:
        return ResetPolicy(_RESETS[word])
    if word.startswith(_BY_DURATION):
        found = _DURATION.fullmatch(word[len(_BY_DURATION) :])
        if found is not None and any(found.groups()):
            days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
            duration_ms = days * _DAY_MS + hours * 3_600_000 + minutes * 60_000 + seconds * 1_000
            return ResetPolicy("by_duration", int(duration_ms))
    raise ValueError(
        f"auto.offset.reset is {text!r}; it must be earliest, latest, none, or by_duration with a "
        "duration of ISO 8601, such as by_duration:P1DT2H"
    )
