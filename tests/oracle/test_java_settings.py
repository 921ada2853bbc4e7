"""The definitions of settings are equal to those of Apache Kafka 4.4.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import definitions, valid

from odradek.config.checks import ConfigurationError
from odradek.config.definition import Setting
from odradek.config.registry import (
    DYNAMIC_ONLY,
    OF_AUTHORIZER,
    Catalogue,
    broker_settings,
    client_metrics_settings,
    group_settings,
    topic_settings,
)

pytestmark = pytest.mark.java
CATALOGUES = {
    "broker": broker_settings,
    "topic": topic_settings,
    "group": group_settings,
    "metrics": client_metrics_settings,
}
SAME_IN_OTHER_WORDS = {
    "non-null string": "",
    "non-empty string": "not empty",
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": "partition:broker, ... or *",
    "[latest, earliest, by_duration:PnDTnHnMn.nS]": "latest, earliest, by_duration:...",
}
ONLY_OURS = {
    "group.streams.topology.description.plugin.class": (
        "[org.apache.kafka.server.streams.inmemorytopologydescriptionplugin]",
    )
}
"""The values of settings that name classes of Java: Odradek has those of these names."""
QUORUM = {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    try:
        return definitions()
    except Missing as reason:
        pytest.skip(str(reason))


def is_ours(name: str) -> bool:
    """Whether no `ConfigDef` of Apache Kafka has the setting."""
    return name.startswith("odradek.") or name in OF_AUTHORIZER


def facts(setting: Setting) -> tuple[str, str, str, str]:
    default = "<required>" if setting.required else setting.default_text
    return (
        setting.type.name,
        "<null>" if default is None else default,
        setting.importance.upper(),
        str(setting.internal).lower(),
    )


@pytest.mark.parametrize("kind", CATALOGUES)
def test_names_types_defaults_importance(kind: str, rows: list[list[str]]) -> None:
    java = {row[1]: (row[2], row[3], row[5], row[6]) for row in rows if row[0] == kind}
    catalogue: Catalogue = CATALOGUES[kind]()
    ours = {n: facts(each) for n, each in catalogue.items() if not is_ours(n)}
    assert ours == java


def normalised(valid: str) -> str:
    """Convert Kafka's description of valid values to Odradek's."""
    valid = SAME_IN_OTHER_WORDS.get(valid, valid)
    return valid.replace("(case insensitive) ", "any case: ").lower()


@pytest.mark.parametrize("kind", CATALOGUES)
def test_valid_values(kind: str, rows: list[list[str]]) -> None:
    for row in rows:
        if row[0] != kind or row[1] in QUORUM:
            continue
        setting = CATALOGUES[kind]()[row[1]]
        assert has_values(setting, row, ONLY_OURS.get(row[1], ())), row[1]


def has_values(setting: Setting, row: list[str], besides: Iterable[str] = ()) -> bool:
    """Whether a setting checks what Apache Kafka says that it checks."""
    shown = [each.description.lower() for each in setting.checks]
    if row[4]:
        return normalised(row[4]) in {"", *shown}
    return set(shown) <= {"no element twice", "not empty", *besides}


def test_update_modes(rows: list[list[str]]) -> None:
    java = {row[1]: row[2] for row in rows if row[0] == "mode"}
    for name, setting in broker_settings().items():
        if is_ours(name):
            continue
        assert setting.update_mode.value == java.get(name, "read-only"), name


def synonyms() -> Iterator[tuple[str, str, int]]:
    for name, setting in topic_settings().items():
        for each in setting.synonyms:
            yield name, each.name, each.factor


def test_synonyms_of_topic_settings(rows: list[list[str]]) -> None:
    java = {(row[1], row[2], int(row[3])) for row in rows if row[0] == "synonym"}
    assert set(synonyms()) == java


SOME_VALUES = (
    *("", " ", "0", "1", "-1", "-2", "2", "9", "10", "17", "18", "100", "1000", "4000", "600000"),
    *("0.5", "1.5", "-0.1", "1e3", "32767", "32768", "2147483647", "2147483648", "+5", "0x10"),
    *("9223372036854775807", "9223372036854775808", "true", "TRUE", "yes", "1_000", "a", "a,b"),
    *("a,,b", "a,a", " a , b ", ",", "*", "1:2", "1:2,3:4", "*,1:2", "delete", "compact,delete"),
    *("compact,", "zstd", "ZSTD", "producer", "LogAppendTime", "logappendtime", "classic,consumer"),
    *("broker", "broker,controller", "SSL", "none", "required", "upgrade", "latest", "EARLIEST"),
    *("by_duration:PT1H", "by_duration:-PT1H", "by_duration:P1D", "by_duration:P", "by_duration:"),
    *(
        "by_duration:PT1.5S",
        "1@a:1",
        "1@a",
        "x@a:1",
        "1@[::1]:9",
        "a:1",
        "a",
        ":1",
        "a:b",
        "[::1]:1",
    ),
    *(
        "read_committed",
        "READ_COMMITTED",
        "RS256",
        "rs256",
        "PLAINTEXT://:9092",
        "1048576",
        "4",
        "3",
    ),
)
STRICTER = {
    ("broker", "controller.quorum.bootstrap.servers", ":1"),
    ("broker", "controller.quorum.bootstrap.servers", "PLAINTEXT://:9092"),
}
"""Odradek refuses a controller without a host. Kafka accepts it and fails later."""


def test_the_same_values_are_valid() -> None:
    rows, ours = [], []
    for kind, catalogue in CATALOGUES.items():
        for name, setting in catalogue().items():
            if is_ours(name) or name in DYNAMIC_ONLY or setting.type.name == "CLASS":
                continue
            for value in SOME_VALUES:
                rows.append((kind, name, value))
                ours.append(takes(setting, value))
    try:
        java = valid(rows)
    except Missing as reason:
        pytest.skip(str(reason))
    assert len(java) == len(rows)
    different = {row for row, one, two in zip(rows, ours, java, strict=True) if one != two}
    assert different == STRICTER


def takes(setting: Setting, value: str) -> bool:
    try:
        setting.parse(value)
    except ConfigurationError:
        return False
    return True
