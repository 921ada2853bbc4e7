"""Finds the definition of a setting by its name.

A module of definitions is parsed when its settings are used for the first time.
"""

from __future__ import annotations

import functools
from importlib import import_module

from odradek.config.definition import Setting, Status, read_settings

BROKER_SUBJECTS = (
    "node",
    "listeners",
    "quorum",
    "log",
    "replication",
    "groups",
    "transactions",
    "share_streams",
    "quotas",
    "tiered",
    "security",
    "oauth",
    "authorizer",
    "odradek",
)
"""The modules of broker settings, in the order of the documentation."""

Catalogue = dict[str, Setting]


def subject(name: str) -> Catalogue:
    """Return the settings of one module of `definitions`, by name."""
    return read_settings(import_module(f"odradek.config.definitions.{name}").SETTINGS)


@functools.cache
def broker_settings() -> Catalogue:
    """Return every setting of a node, by name."""
    merged: Catalogue = {}
    for name in BROKER_SUBJECTS:
        merged.update(subject(name))
    return merged


@functools.cache
def topic_settings() -> Catalogue:
    """Return every setting of a topic, by name."""
    return subject("topics")


@functools.cache
def group_settings() -> Catalogue:
    """Return every setting of a group, by name."""
    return subject("group_settings")


@functools.cache
def client_metrics_settings() -> Catalogue:
    """Return every setting of a client metrics subscription, by name."""
    return subject("client_metrics")


_LISTENER_PREFIX = "listener.name."
_OF_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Settings whose prefix may contain the name of a SASL mechanism after the listener's name."""


def base_name(name: str) -> str:
    """Return the setting that `listener.name.<listener>[.<mechanism>].<setting>` overrides."""
    if not name.startswith(_LISTENER_PREFIX):
        return name
    _, dot, base = name[len(_LISTENER_PREFIX) :].partition(".")
    if not dot:
        return name
    mechanism, _, of_mechanism = base.partition(".")
    if mechanism == "oauthbearer" and of_mechanism.startswith(("sasl.oauthbearer.", "sasl.login.")):
        return of_mechanism
    return next((each for each in _OF_MECHANISM if base.endswith(each)), base)


def broker_setting(name: str) -> Setting | None:
    """Return the definition of a broker setting. `name` may have the prefix of a listener."""
    return broker_settings().get(base_name(name))


BROKER_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings with the same meaning in different units, by descending precedence."""


OF_AUTHORIZER = frozenset(("super.users", "allow.everyone.if.no.acl.found"))
"""Settings that Apache Kafka passes to the class of the authorizer. Shown only if they are set."""

DYNAMIC_ONLY = frozenset(
    (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
)
"""Settings that can only be dynamic. They are shown only if they are set."""


@functools.cache
def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the names of the settings that can have a setting's value, by precedence."""
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    for family in BROKER_SYNONYMS:
        if name in family:
            return family
    base = base_name(name)
    return (name,) if base == name else (name, base)


def honoured(catalogue: Catalogue) -> list[str]:
    """Return the names of the settings that have an effect."""
    return [name for name, each in catalogue.items() if each.status is Status.HONOURED]
