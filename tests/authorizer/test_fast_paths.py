"""The fast paths of Produce and OffsetCommit, and Fetch, keep verdicts until the ACLs change."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.authorizer.table import GROUP, TOPIC, build
from tests.authorizer.test_each_api import ADMIN, Served, serving
from tests.log.support import batch

from odradek.broker.clients.request_context import RequestContext
from odradek.core.authorizer.verdicts import NAMES_MAX, Verdicts
from odradek.model import api_keys
from odradek.model.acl import AclOperation
from odradek.model.errors import ErrorCode
from odradek.network.peer import Peer
from odradek.wire.api import BY_KEY

READ, WRITE = AclOperation.READ, AclOperation.WRITE
NAMED = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]


def peer_of(principal: str) -> Peer:
    return Peer("10.0.0.9", 50_000, "PLAINTEXT", "127.0.0.1", 9092, principal=principal)


def quick(served: Served, peer: Peer, key: int, version: int, fields: dict[str, Any]) -> bool:
    """Whether the fast path has answered."""
    entry = served.node.dispatcher.entries[key]
    entry.load()
    assert entry.quick is not None
    frame = bytes(build(BY_KEY[key].request_class(), fields).encode(version))
    return entry.quick(peer, memoryview(bytearray(frame)), 0, version, 1) is not None


def produce() -> dict[str, Any]:
    data = [{"index": 0, "records": bytes(batch())}]
    return {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": data}]}


async def revoke(served: Served, principal: str) -> None:
    filters = [
        {
            "resource_type_filter": 1,
            "pattern_type_filter": 1,
            "resource_name_filter": None,
            "principal_filter": principal,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
    ]
    answer = await served.send(ADMIN, 31, 3, filters=filters)
    assert answer.filter_results[0].matching_acls


def test_produce(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            peer = peer_of("User:w")
            assert not quick(served, peer, 0, 9, produce())
            await served.allow("User:w", (WRITE, TOPIC, "t"))
            assert quick(served, peer, 0, 9, produce())
            kept = peer.verdicts
            assert kept is not None
            assert kept.names(WRITE, TOPIC) == {"t"}
            assert quick(served, peer, 0, 9, produce())
            assert peer.verdicts is kept
            await revoke(served, "User:w")
            assert not quick(served, peer, 0, 9, produce())
            assert peer.verdicts is not kept
            answer = await served.send("User:w", 0, 9, **produce())
            (topic,) = answer.responses
            (partition,) = topic.partition_responses
            assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            log = served.node.broker.replicas.find("t", 0).log
            assert log.log_end_offset == 2

    asyncio.run(run())


def test_another_principal_of_the_connection_is_checked_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            await served.allow("User:w", (WRITE, TOPIC, "t"))
            peer, other = peer_of("User:w"), peer_of("User:x")
            assert quick(served, peer, 0, 9, produce())
            assert peer.verdicts is not None
            other.keep_verdicts(peer.verdicts)
            assert not quick(served, other, 0, 9, produce())

    asyncio.run(run())


def test_part_of_a_produce_request_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            await served.allow("User:w", (WRITE, TOPIC, "t"))
            fields = produce()
            (topic,) = fields["topic_data"]
            fields["topic_data"] = [topic, {**topic, "name": "tt"}]
            assert not quick(served, peer_of("User:w"), 0, 9, fields)
            answer = await served.send("User:w", 0, 9, **fields)
            found = {each.name: each.partition_responses[0].error_code for each in answer.responses}
            assert found == {"t": 0, "tt": ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    asyncio.run(run())


def test_offset_commit(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": NAMED}
            await served.send(ADMIN, 10, 4, key_type=0, coordinator_keys=["g"])
            await served.send(ADMIN, 8, 9, **fields)
            peer = peer_of("User:r")
            assert not quick(served, peer, 8, 9, fields)
            await served.allow("User:r", (READ, GROUP, "g"))
            assert not quick(served, peer, 8, 9, fields)
            await served.allow("User:r", (READ, TOPIC, "t"))
            assert quick(served, peer, 8, 9, fields)
            await revoke(served, "User:r")
            assert not quick(served, peer, 8, 9, fields)

    asyncio.run(run())


async def fetch(served: Served, peer: Peer, **fields: Any) -> dict[Any, int]:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in ("t", "tt")]
    values = {"topics": topics, "min_bytes": 0, "max_bytes": 1 << 20, **fields}
    request = build(BY_KEY[api_keys.FETCH].request_class(), values)
    context = RequestContext(peer, 1, 12, 1, "test", 0)
    answer = served.node.dispatcher.entries[api_keys.FETCH].handle(context, request)
    if asyncio.isfuture(answer) or asyncio.iscoroutine(answer):
        answer = await answer
    return {each.topic: each.partitions[0].error_code for each in answer.responses}


def test_fetch(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            peer = peer_of("User:r")
            assert await fetch(served, peer) == {"t": refused, "tt": refused}
            await served.allow("User:r", (READ, TOPIC, "t"))
            assert await fetch(served, peer) == {"t": 0, "tt": refused}
            assert peer.verdicts is not None
            assert peer.verdicts.names(READ, TOPIC) == {"t"}
            await served.allow("User:r", (READ, TOPIC, "tt"))
            assert await fetch(served, peer) == {"t": 0, "tt": 0}
            await revoke(served, "User:r")
            assert await fetch(served, peer) == {"t": refused, "tt": refused}
            # A follower needs CLUSTER_ACTION, and no rights on topics.
            assert await fetch(served, peer, replica_id=7) == {"t": refused, "tt": refused}

    asyncio.run(run())


def test_the_audit_log_of_allowances_has_each_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            await served.allow("User:w", (WRITE, TOPIC, "t"), (READ, TOPIC, "t"))
            peer = peer_of("User:w")
            assert quick(served, peer, 0, 9, produce())
            with caplog.at_level(logging.DEBUG, "odradek.authorizer"):
                assert not quick(served, peer, 0, 9, produce())
                caplog.clear()
                for _ in range(2):
                    await fetch(served, peer)
                text = [each.getMessage() for each in caplog.records]
            assert sum("Allowed operation = READ" in each for each in text) == 2

    asyncio.run(run())


def test_kept_names_are_limited() -> None:
    verdicts = Verdicts("User:a", 1)
    names = verdicts.names(READ, TOPIC)
    names.update(map(str, range(NAMES_MAX)))
    assert verdicts.names(READ, TOPIC) == set()
