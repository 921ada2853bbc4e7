"""An exception in a handler does not stop the node, and is logged."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from typing import Any

import pytest
from compat.lab.wire_client import WireClient, request_frame

from odradek.broker.clients.request_context import RequestContext
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.metadata_request import MetadataRequest

METADATA = 3


def test_a_quick_answer_that_fails_ends_the_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    with Broker(topics={"one": 1}) as broker, WireClient(broker.port) as bystander:
        dispatcher = broker.node.dispatcher
        dispatcher.inject = None  # with injected faults nothing is answered quickly
        dispatcher.entries[api_keys.PRODUCE].load()
        dispatcher.entries[api_keys.PRODUCE].quick = defect
        before = bystander.metadata("one")
        with (
            WireClient(broker.port) as client,
            caplog.at_level(logging.ERROR),
            pytest.raises(ConnectionError),
        ):
            client.produce_one("one", b"lost")
        assert "Produce failed" in caplog.text
        assert bystander.metadata("one") == before


def test_a_request_that_fails_after_its_client_has_disconnected_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(context: RequestContext, _: Any) -> None:
        while context.peer._connection is not None:
            await asyncio.sleep(0.01)
        raise ApiError(ErrorCode.POLICY_VIOLATION)

    with caplog.at_level(logging.ERROR), Broker() as broker:
        dispatcher = broker.node.dispatcher
        dispatcher.entries[METADATA].load()
        dispatcher.entries[METADATA].handle = refuse
        request = request_frame("Metadata", 12, MetadataRequest(topics=None), 1)
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(request)
            while not dispatcher._tasks:
                time.sleep(0.01)
        while dispatcher._tasks:
            time.sleep(0.01)
        gc.collect()
    assert caplog.text == ""


def test_a_fetch_that_fails_while_it_waits_gets_an_error(monkeypatch, caplog) -> None:
    """It is evaluated again after an append, which other code has begun."""

    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    with Broker(topics={"one": 1}) as broker, WireClient(broker.port) as producer:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            session_epoch=0,
            topics=[FetchTopic(topic="one", partitions=[wanted])],
        )
        partition = broker.node.broker.replicas.find("one", 0)
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.sendall(request_frame("Fetch", 12, request, 1))
            while not partition._waiters:
                time.sleep(0.01)
            (fetch,) = partition._waiters
            monkeypatch.setattr(fetch, "_evaluate", defect)
            producer.produce_one("one", b"value")
            assert client.recv(4) != b""
        assert not partition._waiters
        (session,) = broker.node.broker.fetch_sessions._sessions.values()
        assert session.waiting is None
    assert "Fetch failed" in caplog.text
