"""The same quota requests to Apache Kafka and to Odradek: the same errors, and the same entities."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.toolchain import Missing
from compat.lab.wire_client import WireClient
from tests.support.run_seed import seeds

from odradek.testing import Broker
from odradek.wire.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.wire.generated.alter_client_quotas_response import AlterClientQuotasResponse
from odradek.wire.generated.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from odradek.wire.generated.describe_client_quotas_response import DescribeClientQuotasResponse

pytestmark = [pytest.mark.java, pytest.mark.cluster]
ROUNDS = 150
KINDS = ("user", "user", "client-id", "ip", "group", "")
NAMES = ("a", "b", None, "10.0.0.1", "::1", "")
LIMITS = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    *("controller_mutation_rate", "connection_creation_rate", "no_such_rate"),
)
VALUES = (1.0, 5.0, 2.5, 1e6, 0.0, -1.0, 2.0**31, 2.0**63, 2.0**64, 3.0000001)


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    try:
        theirs = ApacheKafka()
    except Missing as reason:
        pytest.skip(str(reason))
    with theirs, Broker() as ours:
        yield theirs.port, ours.port


def entity(draw: random.Random) -> list[tuple[str, str | None]]:
    count = draw.choice((0, 1, 1, 1, 2, 2))
    return [(draw.choice(KINDS), draw.choice(NAMES)) for _ in range(count)]


def alteration(draw: random.Random) -> AlterClientQuotasRequest:
    entries = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        names = [draw.choice(LIMITS) for _ in range(draw.choice((0, 1, 1, 2)))]
        ops = [
            OpData(key=name, value=draw.choice(VALUES), remove=draw.random() < 0.3)
            for name in names
        ]
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity(draw)]
        entries.append(EntryData(entity=parts, ops=ops))
    return AlterClientQuotasRequest(entries=entries, validate_only=draw.random() < 0.1)


def question(draw: random.Random) -> DescribeClientQuotasRequest:
    components = [
        ComponentData(
            entity_type=draw.choice(KINDS),
            match_type=draw.choice((0, 1, 2, 2, 0)),
            match=draw.choice(NAMES),
        )
        for _ in range(draw.choice((0, 1, 1, 2)))
    ]
    return DescribeClientQuotasRequest(components=components, strict=draw.random() < 0.4)


def altered(wire: WireClient, version: int, request: AlterClientQuotasRequest) -> object:
    answer = wire.call("AlterClientQuotas", version, request, AlterClientQuotasResponse)
    results = [
        (sorted((e.entity_type, e.entity_name or "") for e in entry.entity), entry.error_code)
        for entry in answer.entries
    ]
    return sorted(results)


def described(wire: WireClient, version: int, request: DescribeClientQuotasRequest) -> object:
    answer = wire.call("DescribeClientQuotas", version, request, DescribeClientQuotasResponse)
    if answer.entries is None:
        return answer.error_code
    return sorted(
        (
            sorted((e.entity_type, e.entity_name or "<default>") for e in entry.entity),
            sorted((e.key, e.value) for e in entry.values),
        )
        for entry in answer.entries
    )


def test_errors_and_entities_are_equal(ports: tuple[int, int]) -> None:
    draw = random.Random(seeds(1)[0])
    everything = DescribeClientQuotasRequest()
    with WireClient(ports[0]) as theirs, WireClient(ports[1]) as ours:
        for number in range(ROUNDS):
            change, version = alteration(draw), draw.choice((0, 1))
            assert altered(ours, version, change) == altered(theirs, version, change), (
                number,
                change,
            )
            wanted = described(ours, 1, everything)
            while described(theirs, 1, everything) != wanted:
                pass  # a broker of Apache Kafka learns of a change after the response
            ask = question(draw)
            assert described(ours, version, ask) == described(theirs, version, ask), (number, ask)
