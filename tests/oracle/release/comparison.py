"""Finds what differs between Apache Kafka 4.4.0 and Odradek. Each difference is a line of text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.maven import next_jars
from compat.lab.odradek_node import OdradekNode
from compat.lab.wire_client import WireClient
from tests.oracle import test_java_schemas, test_java_settings
from tests.oracle.jvm import definitions
from tests.oracle.release import commands, mbeans
from tests.wire.sampling import DECLARED

from odradek import testing
from odradek.config.definition import Status
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse

RECORDED = Path(__file__).with_name("recorded")
FEATURES, MBEANS, OPTIONS = (RECORDED / f"{each}.txt" for each in ("features", "mbeans", "options"))


def schemas() -> set[str]:
    """Compare the declarations of all messages, field by field."""
    theirs = test_java_schemas.read_schemas(next_jars())
    found = {f"missing {each}" for each in theirs.keys() - {each.name for each in DECLARED}}
    for message in DECLARED:
        if message.name not in theirs:
            found.add(f"only here {message.name}")
            continue
        try:
            test_java_schemas.compare_message(message, theirs)
        except AssertionError as difference:
            found.add(f"{message.name}: {difference}")
    return found


def features() -> set[str]:
    """Compare APIs, their versions, features, and the levels of a new cluster."""
    theirs = set(FEATURES.read_text(encoding="utf-8").splitlines())
    with OdradekNode() as node:
        ours = set(versions(node))
    return {f"missing {each}" for each in theirs - ours} | {f"only here {e}" for e in ours - theirs}


def versions(broker: Broker) -> list[str]:
    """Return what a broker says in ApiVersions."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    with WireClient(broker.port) as client:
        answer = client.call("ApiVersions", 4, request, ApiVersionsResponse)
    lines = [
        f"api {each.api_key} {each.min_version}-{each.max_version}" for each in answer.api_keys
    ]
    lines += [
        f"feature {each.name} {each.min_version}-{each.max_version}"
        for each in answer.supported_features
    ]
    lines += [f"level {each.name} {each.max_version_level}" for each in answer.finalized_features]
    return sorted(lines)


def settings() -> set[str]:
    """Compare names, types, defaults, bounds and texts."""
    rows = definitions()
    found = set()
    for kind, catalogue in test_java_settings.CATALOGUES.items():
        theirs = {row[1]: row for row in rows if row[0] == kind}
        ours = catalogue()
        found |= {f"missing {each}" for each in theirs.keys() - ours.keys()}
        found |= {f"only here {each}" for each in ours.keys() - theirs.keys()}
        for name in ours.keys() & theirs.keys():
            setting, row = ours[name], theirs[name]
            assert setting.documentation
            if test_java_settings.facts(setting) != (row[2], row[3], row[5], row[6]):
                found.add(f"facts {name}")
            if not test_java_settings.has_values(setting, row):
                found.add(f"values {name}")
            if setting.documentation != row[7]:
                found.add(f"text {name}")
            if setting.status is not Status.HONOURED:
                found.add(f"without effect {name}")
    return found


def metrics() -> set[str]:
    """Compare MBeans and their attributes after the same work."""
    theirs = set(MBEANS.read_text(encoding="utf-8").splitlines())
    with testing.Broker() as broker:
        mbeans.work(broker.bootstrap_servers)
        return theirs - mbeans.of_node(broker.node)


def options() -> set[str]:
    """Compare the options that the help of commands shows."""
    counterparts, ours = commands.counterparts(), commands.our_options()
    theirs = commands.recorded(OPTIONS)
    assert set(counterparts) == theirs
    for option, words in counterparts.items():
        assert words == "-" or words in ours, f"{option}: there is no {words}"
    return {option for option, words in counterparts.items() if words == "-"}


AREAS: dict[str, Callable[[], set[str]]] = {
    "schemas": schemas,
    "features": features,
    "settings": settings,
    "metrics": metrics,
    "commands": options,
}


def record() -> None:
    """Record what needs a running node of Apache Kafka, or its commands.

    Raises:
        Missing: Java or Maven is not installed.
    """
    RECORDED.mkdir(exist_ok=True)
    with NextApacheKafka() as broker:
        lines = {FEATURES: versions(broker)}
    lines |= {MBEANS: mbeans.of_apache_kafka(), OPTIONS: commands.read_help()}
    for path, text in lines.items():
        path.write_text("".join(f"{each}\n" for each in text), encoding="utf-8")
