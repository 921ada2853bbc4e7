"""The definitions of settings are those of Apache Kafka 4.3.0: every fact of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import definitions

from odradek.config.definition import Setting
from odradek.config.registry import (
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
QUORUM = {"controller.quorum.voters", "controller.quorum.bootstrap.servers"}


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    try:
        return definitions()
    except Missing as reason:
        pytest.skip(str(reason))


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
    ours = {n: facts(each) for n, each in catalogue.items() if not n.startswith("odradek.")}
    assert ours == java


def normalised(valid: str) -> str:
    """Kafka's description of valid values in ours."""
    valid = SAME_IN_OTHER_WORDS.get(valid, valid)
    return valid.replace("(case insensitive) ", "any case: ").lower()


@pytest.mark.parametrize("kind", CATALOGUES)
def test_valid_values(kind: str, rows: list[list[str]]) -> None:
    for row in rows:
        if row[0] != kind or row[1] in QUORUM:
            continue
        setting = CATALOGUES[kind]()[row[1]]
        shown = [c.description.lower() for c in setting.checks]
        if row[4]:
            assert normalised(row[4]) in {"", *shown}, row[1]
        else:
            assert set(shown) <= {"no element twice", "not empty"}, row[1]


def test_update_modes(rows: list[list[str]]) -> None:
    java = {row[1]: row[2] for row in rows if row[0] == "mode"}
    for name, setting in broker_settings().items():
        assert setting.update_mode.value == java.get(name, "read-only"), name


def synonyms() -> Iterator[tuple[str, str, int]]:
    for name, setting in topic_settings().items():
        for each in setting.synonyms:
            yield name, each.name, each.factor


def test_synonyms_of_topic_settings(rows: list[list[str]]) -> None:
    java = {(row[1], row[2], int(row[3])) for row in rows if row[0] == "synonym"}
    assert set(synonyms()) == java
