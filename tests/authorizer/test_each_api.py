"""Each served API with all rights that it needs, without one of them, and with those on another
resource."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.authorizer.matrix.stage import codes
from tests.authorizer.table import (
    GROUP,
    REFUSALS,
    ROWS,
    TOPIC,
    TRANSACTIONAL_ID,
    UNCHECKED,
    WITHOUT_ERRORS,
    Need,
    Row,
    build,
)

from odradek.broker.clients.request_context import RequestContext
from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.config.load import load
from odradek.handlers.error_answers import error_answer
from odradek.model.acl import AclOperation, AclResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.node.node import Node
from odradek.wire.api import BY_KEY
from odradek.wire.primitives import Message

ADMIN = "User:admin"
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"{ADMIN};User:broker",
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "delegation.token.secret.key": "secret",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Served:
    """A node, and requests to its handlers with any principal."""

    def __init__(self, node: Node) -> None:
        self.node = node
        assert node._controller is not None
        assert node._controller.service is not None
        self.dispatchers = {False: node.dispatcher, True: node._controller.service.dispatcher}

    async def ask(
        self, principal: str, key: int, version: int, request: Message, on_controller: bool = False
    ) -> Any:
        """The answer, as the dispatcher would send it."""
        entry = self.dispatchers[on_controller].entries[key]
        peer = Peer("10.0.0.9", 50_000, "SASL", "127.0.0.1", 9092, principal=principal)
        context = RequestContext(peer, key, version, 1, "test", 0)
        try:
            answer = entry.handle(context, request)
            if answer is not None and not isinstance(answer, Message):
                answer = await answer
        except ApiError as error:
            if entry.error_response is not None:
                answer = entry.error_response(request, error)
            else:
                answer = error_answer(request, version, error.code, error.message)
        return type(answer).decode(answer.encode(version), version)

    async def send(self, principal: str, key: int, version: int, **fields: Any) -> Any:
        request = build(BY_KEY[key].request_class(), fields)
        request = type(request).decode(request.encode(version), version)
        return await self.ask(principal, key, version, request)

    async def allow(self, principal: str, *needs: Need) -> None:
        await self.grant([(principal, *need) for need in needs])

    async def grant(
        self, grants: list[tuple[str, AclOperation, AclResourceType, str]], permission: int = 3
    ) -> None:
        creations = [
            {
                "resource_type": kind,
                "resource_name": name,
                "principal": principal,
                "host": "*",
                "operation": operation,
                "permission_type": permission,
            }
            for principal, operation, kind, name in grants
        ]
        answer = await self.send(ADMIN, 30, 3, creations=creations)
        assert {each.error_code for each in answer.results} == {0}


@contextlib.asynccontextmanager
async def serving(path: Path, **settings: str) -> AsyncIterator[Served]:
    node = Node(load({}, {**SETTINGS, "log.dirs": str(path), **settings}).config)
    await node.start()
    try:
        served = Served(node)
        topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in ("t", "tt")]
        answer = await served.send(ADMIN, 19, 7, topics=topics, timeout_ms=5000)
        assert {each.error_code for each in answer.topics} == {0}
        for kind, name in ((0, "g"), (1, "x")):
            await served.send(ADMIN, 10, 4, key_type=kind, coordinator_keys=[name])
        yield served
    finally:
        await node.stop()


def elsewhere(need: Need) -> Need:
    """The same operation on another resource, whose name begins as the right one."""
    operation, kind, name = need
    return operation, kind, f"{name}t"


def test_each_row_is_obeyed(tmp_path: Path) -> None:
    asyncio.run(_each_row_is_obeyed(tmp_path))


async def _each_row_is_obeyed(path: Path) -> None:
    async with serving(path) as served:
        grants = []
        for number, row in enumerate(ROWS):
            grants += [(f"User:{number}", *need) for need in row.needs]
            for at in range(len(row.needs)):
                others = [need for n, need in enumerate(row.needs) if n != at]
                grants += [(f"User:{number} without {at}", *need) for need in others]
            named = [need for need in row.needs if need[1] is not AclResourceType.CLUSTER]
            if (AclOperation.WRITE, TOPIC, "any") not in named:  # any topic will do
                grants += [(f"User:{number} elsewhere", *elsewhere(need)) for need in named]
        await served.grant(grants)
        offsets = [{"name": "t", "partitions": [{"partition_index": 0}]}]
        fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": offsets}
        await served.send(ADMIN, 8, 9, **fields)  # the group exists
        wrong = []
        for number, row in enumerate(ROWS):
            cases = [(f"User:{number} without {at}", e) for at, e in enumerate(row.errors)]
            cases += [(who, row.errors[0]) for who in ("User:nobody", f"User:{number} elsewhere")]
            for principal, error in cases:
                found = await answered(served, row, principal)
                if error not in found or not found <= {error, *NOT_ATTEMPTED}:
                    wrong.append((row.key, principal, error.name, found))
        for number, row in enumerate(ROWS):  # last, because some of them change the node
            found = await answered(served, row, f"User:{number}")
            if found & REFUSALS:
                wrong.append((row.key, f"User:{number}", found))
        assert wrong == [], wrong


NOT_ATTEMPTED = {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}


async def answered(served: Served, row: Row, principal: str) -> set[int]:
    answer = await served.ask(principal, row.key, row.version, row.request(), row.is_on_controller)
    return set(codes(answer))


def test_all_served_apis_are_in_the_table(tmp_path: Path) -> None:
    async def keys() -> list[set[int]]:
        async with serving(tmp_path) as served:
            return [set(served.dispatchers[each].entries) for each in (False, True)]

    on_broker, on_controller = asyncio.run(keys())
    rows = {row.key for row in ROWS if not row.is_on_controller}
    assert on_broker == rows | WITHOUT_ERRORS | UNCHECKED
    # What brokers forward is checked by the controller in any case.
    assert on_controller <= {row.key for row in ROWS} | WITHOUT_ERRORS | UNCHECKED


def test_what_is_invisible(tmp_path: Path) -> None:
    asyncio.run(_what_is_invisible(tmp_path))


async def _what_is_invisible(path: Path) -> None:
    async with serving(path) as served:
        who, describe = "User:a", AclOperation.DESCRIBE
        names = [each["name"] for each in ({"name": "t"}, {"name": "tt"}, {"name": "none"})]

        async def seen(**fields: Any) -> list[tuple[str | None, int]]:
            answer = await served.send(who, 3, 12, **fields)
            return [(each.name, each.error_code) for each in answer.topics]

        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        asked = [{"name": name} for name in names]
        assert await seen(topics=None) == []
        assert await seen(topics=asked) == [(name, refused) for name in names]
        answer = await served.send(who, 3, 12, topics=asked)
        assert {each.topic_id for each in answer.topics} == {bytes(16)}
        await served.allow(who, (describe, TOPIC, "tt"))
        assert await seen(topics=None) == [("tt", 0)]
        by_id = [
            {"name": None, "topic_id": each.topic_id}
            for each in (await served.send(ADMIN, 3, 12, topics=None)).topics
            if each.name in ("t", "tt")
        ]
        assert sorted(await seen(topics=by_id), key=str) == [("tt", 0), (None, refused)]
        page = await served.send(who, 75, 0, topics=[], response_partition_limit=10)
        assert [each.name for each in page.topics] == ["tt"]

        await served.send(
            ADMIN,
            8,
            9,
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[{"name": n, "partitions": [{"partition_index": 0}]} for n in ("t", "tt")],
        )
        assert (await served.send(who, 16, 4)).groups == []
        await served.allow(who, (describe, GROUP, "g"))
        assert [each.group_id for each in (await served.send(who, 16, 4)).groups] == ["g"]
        (offsets,) = (
            await served.send(who, 9, 8, groups=[{"group_id": "g", "topics": None}])
        ).groups
        assert [each.name for each in offsets.topics] == ["tt"]

        await served.send(ADMIN, 38, 3, owner_principal_name=None, max_lifetime_ms=-1)
        assert len((await served.send(ADMIN, 41, 3, owners=None)).tokens) == 1
        assert (await served.send(who, 41, 3, owners=None)).tokens == []
        await served.allow(who, (AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, ADMIN))
        (token,) = (await served.send(who, 41, 3, owners=None)).tokens
        assert token.principal_name == "admin"

        await served.send(ADMIN, 22, 4, transactional_id="x", transaction_timeout_ms=1000)
        assert (await served.send(who, 66, 1)).transaction_states == []
        await served.allow(who, (describe, TRANSACTIONAL_ID, "x"))
        found = (await served.send(who, 66, 1)).transaction_states
        assert [each.transactional_id for each in found] == ["x"]


def test_authorized_operations(tmp_path: Path) -> None:
    asyncio.run(_authorized_operations(tmp_path))


async def _authorized_operations(path: Path) -> None:
    async with serving(path) as served:
        who, cluster = "User:a", AclResourceType.CLUSTER
        fields = {"topics": [{"name": "t"}], "include_topic_authorized_operations": True}
        read, describe = 1 << AclOperation.READ, 1 << AclOperation.DESCRIBE

        async def of_topic() -> int:
            (found,) = (await served.send(who, 3, 12, **fields)).topics
            operations: int = found.topic_authorized_operations
            return operations

        assert await of_topic() == -(2**31), "an error has no operations"
        await served.allow(who, (AclOperation.READ, TOPIC, "t"))
        assert await of_topic() == read | describe
        await served.grant([(who, AclOperation.READ, TOPIC, "t")], permission=2)
        await served.allow(who, (AclOperation.WRITE, TOPIC, "t"))
        assert await of_topic() == 1 << AclOperation.WRITE | describe

        async def of_cluster() -> int:
            answer = await served.send(who, 60, 1, include_cluster_authorized_operations=True)
            operations: int = answer.cluster_authorized_operations
            return operations

        assert await of_cluster() == 0
        await served.allow(who, (AclOperation.CREATE, cluster, "kafka-cluster"))
        assert await of_cluster() == 0, "DESCRIBE is needed"
        await served.allow(who, (AclOperation.DESCRIBE, cluster, "kafka-cluster"))
        assert await of_cluster() == describe | 1 << AclOperation.CREATE


def test_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(_the_audit_log(tmp_path, caplog))


async def _the_audit_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(path) as served:
        await served.allow("User:a", (AclOperation.READ, TOPIC, "t"))
        caplog.clear()
        with caplog.at_level(logging.INFO, "odradek.authorizer"):
            await served.send("User:a", 3, 12, topics=[{"name": "t"}, {"name": "bad\nname"}])
            await served.send("User:a", 3, 12, topics=None)
        assert [each.getMessage() for each in caplog.records if "authorizer" in each.name] == [
            "Principal = User:a is Denied operation = DESCRIBE from host = 10.0.0.9 on resource = "
            "Topic:LITERAL:'bad\\nname' for request = Metadata with resourceRefCount = 1 based on "
            "rule DefaultDeny"
        ]
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "odradek.authorizer"):
            await served.send("User:a", 3, 12, topics=[{"name": "t"}])
        (line,) = [each.getMessage() for each in caplog.records if "authorizer" in each.name]
        assert "Principal = User:a is Allowed operation = DESCRIBE" in line
        assert line.endswith(
            "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=t, "
            "patternType=LITERAL, principal=User:a, host=*, operation=READ, permissionType=ALLOW))"
        )
        # The handler and the controller check the owner of a token, but only one of them logs.
        await served.allow("User:a", (AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:b"))
        owner = {"owner_principal_type": "User", "max_lifetime_ms": -1}
        caplog.clear()
        with caplog.at_level(logging.DEBUG, "odradek.authorizer"):
            for name, error in (("b", 0), ("c", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)):
                made = await served.send("User:a", 38, 3, owner_principal_name=name, **owner)
                assert made.error_code == error
        lines = [each.getMessage() for each in caplog.records if "authorizer" in each.name]
        assert [line.split(" operation")[0] for line in lines] == [
            "Principal = User:a is Allowed",
            "Principal = User:a is Denied",
        ]


def test_without_a_rule_everyone_may_be_allowed(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, **{"allow.everyone.if.no.acl.found": "true"}) as served:
            fields: dict[str, Any] = {"topics": [{"name": "t"}]}
            answer = await served.send("User:a", 3, 12, **fields)
            assert answer.topics[0].error_code == 0
            await served.allow("User:b", (AclOperation.READ, TOPIC, "t"))
            answer = await served.send("User:a", 3, 12, **fields)
            assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    asyncio.run(run())


def test_patterns_of_consumer_groups_match_visible_topics(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            topics = (await served.send(ADMIN, 3, 12, topics=None)).topics
            names = {each.topic_id: each.name for each in topics}
            describe, read = AclOperation.DESCRIBE, AclOperation.READ
            await served.allow("User:a", (read, GROUP, "p"), (describe, TOPIC, "tt"))

            async def beat(epoch: int, **fields: Any) -> Any:
                while True:
                    answer = await served.send(
                        "User:a", 68, 1, group_id="p", member_id="m", member_epoch=epoch, **fields
                    )
                    if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        assert answer.error_code == 0
                        return answer
                    await asyncio.sleep(0.01)

            fields = {"subscribed_topic_regex": "t+", "rebalance_timeout_ms": 60_000}
            answer = await beat(0, topic_partitions=[], **fields)
            while answer.assignment is None or not answer.assignment.topic_partitions:
                await asyncio.sleep(0.01)
                answer = await beat(answer.member_epoch)
            found = [names[each.topic_id] for each in answer.assignment.topic_partitions]
            assert found == ["tt"]

    asyncio.run(run())
