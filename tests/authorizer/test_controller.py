"""What the controller refuses within a request, and what it tells about it."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

from tests.authorizer.table import CREATE, DELETE, DESCRIBE, build, group, topic
from tests.authorizer.test_each_api import ADMIN, Served, serving

from odradek.model import api_keys
from odradek.model.acl import CLUSTER_NAME, AclOperation, AclResourceType
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.generated.create_delegation_token_request import CreateDelegationTokenRequest
from odradek.wire.generated.default_principal_data import DefaultPrincipalData
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest
from odradek.wire.generated.request_header import RequestHeader

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
WHO = "User:a"


def test_topics_are_deleted_by_those_who_may(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            ids = {
                t.name: t.topic_id for t in (await served.send(ADMIN, 3, 12, topics=None)).topics
            }

            async def delete(*names: str, by_id: tuple[str, ...] = ()) -> list[tuple[object, int]]:
                topics = [{"name": name} for name in names]
                topics += [{"name": None, "topic_id": ids[name]} for name in by_id]
                answer = await served.send(WHO, 20, 6, topics=topics, timeout_ms=1000)
                return sorted(((e.name, e.error_code) for e in answer.responses), key=str)

            # It does not learn which topics exist.
            assert await delete("t", "none") == [("none", REFUSED), ("t", REFUSED)]
            assert await delete(by_id=("t",)) == [(None, REFUSED)]
            assert await delete("t", by_id=("t",)) == [("t", REFUSED), (None, REFUSED)]
            await served.allow(WHO, topic(DESCRIBE), topic(DESCRIBE, "none"))
            assert await delete("t", "none") == [("none", UNKNOWN), ("t", REFUSED)]
            assert await delete(by_id=("t",)) == [("t", REFUSED)]
            assert await delete("t", "t") == [("t", ErrorCode.INVALID_REQUEST)]
            await served.allow(WHO, topic(DELETE))
            assert await delete("t", "tt") == [("t", 0), ("tt", REFUSED)]
            assert "t" not in served.node.controller.image.topics.by_name

    asyncio.run(run())


def test_topics_are_created_by_those_who_may(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:

            async def create(*names: str) -> dict[str, tuple[int, int, int]]:
                topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in names]
                answer = await served.send(WHO, 19, 7, topics=topics, timeout_ms=1000)
                return {
                    e.name: (e.error_code, e.topic_config_error_code, e.num_partitions)
                    for e in answer.topics
                }

            invalid = ErrorCode.INVALID_REQUEST
            await served.allow(WHO, topic(CREATE, "a"))
            assert await create("a", "b", "c", "c") == {
                "a": (0, REFUSED, -1),
                "b": (REFUSED, 0, -1),
                "c": (invalid, 0, -1),
            }
            await served.allow(
                WHO,
                (CREATE, AclResourceType.CLUSTER, CLUSTER_NAME),
                topic(AclOperation.DESCRIBE_CONFIGS, "b"),
            )
            assert await create("b") == {"b": (0, 0, 1)}

    asyncio.run(run())


def test_results_of_altered_settings_keep_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            alter = AclOperation.ALTER_CONFIGS
            await served.allow(WHO, topic(alter), group(alter))
            kinds = [(2, "tt"), (32, "g"), (4, "1"), (2, "t"), (2, "none"), (2, "twice")]
            kinds.append(kinds[-1])
            resources = [{"resource_type": k, "resource_name": name} for k, name in kinds]
            for key, version in ((44, 1), (33, 2)):
                fields = {"resources": resources, "validate_only": True}
                answer = await served.send(WHO, key, version, **fields)
                found = [(e.resource_name, e.error_code) for e in answer.responses]
                invalid = ErrorCode.INVALID_REQUEST
                assert found == [
                    ("tt", REFUSED),
                    ("g", 0),
                    ("1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
                    ("t", 0),
                    ("none", REFUSED),
                    ("twice", invalid),
                    ("twice", invalid),
                ]

    asyncio.run(run())


async def forward(
    served: Served,
    sender: str,
    client: str,
    request_in_it: Any = None,
    is_by_token: bool = False,
) -> tuple[int, int | None]:
    """The error of an envelope, and the error of the request in it (version 2)."""
    inner = request_in_it or DescribeQuorumRequest()
    header = RequestHeader(request_api_key=inner.API_KEY, request_api_version=2, correlation_id=7)
    kind, _, name = client.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=is_by_token)
    fields = {
        "request_data": bytes(header.encode(2)) + bytes(inner.encode(2)),
        "request_principal": struct.pack(">h", 0) + bytes(principal.encode(0)),
        "client_host_address": bytes((10, 0, 0, 1)),
    }
    request = build(BY_KEY[api_keys.ENVELOPE].request_class(), fields)
    answer = await served.ask(sender, 58, 0, request, on_controller=True)
    if answer.error_code:
        return answer.error_code, None
    found: Any = BY_KEY[inner.API_KEY].response_class().decode(answer.response_data, 2, 5)
    return 0, found.error_code


def test_a_forwarded_request_has_the_rights_of_its_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert await forward(served, "User:broker", WHO) == (0, refused)
            assert await forward(served, WHO, ADMIN) == (refused, None)
            await served.allow(WHO, (DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME))
            assert await forward(served, "User:broker", WHO) == (0, 0)

    asyncio.run(run())


def test_a_client_with_a_token_gets_no_token_through_another_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
            refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert await forward(served, "User:broker", WHO, request) == (0, 0)
            assert await forward(served, "User:broker", WHO, request, True) == (0, refused)
            (token,) = served.node.controller.image.delegation_tokens.values()
            assert token.requester == WHO

    asyncio.run(run())


def test_only_super_users_are_served_until_the_acls_are_loaded(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            authorizer = served.node._authorizer
            assert authorizer is not None
            await served.allow(WHO, topic(DESCRIBE))
            authorizer._rules.is_loaded = False
            assert (await served.send(ADMIN, 3, 12, topics=[{"name": "t"}])).topics[
                0
            ].error_code == 0
            answer = await served.send(WHO, 60, 1, include_cluster_authorized_operations=True)
            assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    asyncio.run(run())
