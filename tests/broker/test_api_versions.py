"""ApiVersions: a client that reaches another node than it expects starts over (KIP-1242)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient

from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse


@pytest.mark.parametrize(
    ("version", "expected", "code"),
    [
        (5, {}, ErrorCode.NONE),
        (5, {"node_id": 77}, ErrorCode.NONE),
        (5, {"cluster_id": "own", "node_id": 1}, ErrorCode.NONE),
        (5, {"cluster_id": "own", "node_id": 2}, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, {"cluster_id": "own"}, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, {"cluster_id": "other", "node_id": 1}, ErrorCode.REBOOTSTRAP_REQUIRED),
        (5, {"cluster_id": "other", "software": "-"}, ErrorCode.INVALID_REQUEST),
        (4, {"cluster_id": "other", "node_id": 1}, ErrorCode.NONE),
    ],
)
def test_the_node_that_the_client_expects(
    broker: Broker, version: int, expected: dict[str, object], code: ErrorCode
) -> None:
    cluster_id = broker.node.broker.cluster_id if expected.get("cluster_id") == "own" else "other"
    request = ApiVersionsRequest(
        client_software_name=str(expected.get("software", "test")),
        client_software_version="1",
        cluster_id=cluster_id if "cluster_id" in expected else None,
        node_id=int(str(expected.get("node_id", -1))),
    )
    with WireClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        answer = client.call("ApiVersions", version, request, ApiVersionsResponse)
    assert answer.error_code == code
    assert bool(answer.api_keys) is (code is ErrorCode.NONE)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
