"""The options that a user gave, by name, and errors that name the nearest right name."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TypeVar

from odradek.client.suggestion import nearest

SPARK_OPTIONS = ("checkpointLocation", "path", "queryName")
"""Options that Spark itself adds to the options of a sink."""

TUNING_IGNORED = frozenset(
    [
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "auto.offset.reset",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "groupidprefix",
    ]
)
"""Settings that are ignored, in lower case and without the prefix `kafka.`."""

NEAR_OPTION = 0.7
"""How similar options must be to be suggested. They have long parts in common."""

T = TypeVar("T")
D = TypeVar("D")


class Given:
    """The given options by name. An unknown option raises a ValueError."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._known = sorted(known)
        self._values: dict[str, str] = {}
        by_folded = {name.lower(): name for name in (*self._known, *SPARK_OPTIONS)}
        for given, value in options.items():
            folded = given.lower().removeprefix("kafka.")
            if folded in TUNING_IGNORED:
                warnings.warn(f'option "{given}" has no effect in this source', stacklevel=6)
            elif folded in by_folded:
                self._values[by_folded[folded]] = value
            else:
                raise ValueError(self._unknown(given, folded, by_folded))

    def _unknown(self, given: str, folded: str, by_folded: Mapping[str, str]) -> str:
        hint = nearest(folded, by_folded, by_folded.__getitem__, NEAR_OPTION)
        advice = hint or f". Known are: {', '.join(self._known)}"
        return f'unknown option "{given}"{advice}'

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self._values

    def has_any(self, *names: str) -> bool:
        """Whether one of the options was given."""
        return any(name in self._values for name in names)

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option unchanged."""
        return self._values.get(name, default)

    def integer(self, name: str, minimum: int) -> int | None:
        """Return the value as a number of at least `minimum`; None if not given."""
        if name not in self._values:
            return None
        text = self._values[name]
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{name} must be an integer; it is {text!r}") from None
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum}; it is {value}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """Return the value as a boolean."""
        return self.choice(name, {"true": True, "false": False}, default)

    def choice(self, name: str, choices: Mapping[str, T], default: D) -> T | D:
        """Return the entry of `choices` for the value."""
        if name not in self._values:
            return default
        text = self._values[name]
        if text.lower() not in choices:
            raise ValueError(
                f"{name} must be one of {', '.join(choices)}; it is {text!r}"
                f"{nearest(text.lower(), choices)}"
            )
        return choices[text.lower()]
