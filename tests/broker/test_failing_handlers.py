"""An exception in a handler does not stop the node, and is logged."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
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
from odradek.wire.generated.list_groups_request import ListGroupsRequest
from odradek.wire.generated.list_groups_response import ListGroupsResponse
from odradek.wire.generated.metadata_request import MetadataRequest


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


def no_file_is_left() -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("states", [1, 10_000], ids=["small", "large"])
def test_a_handler_that_cannot_be_imported_ends_the_connection_and_is_tried_again(
    states: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = ListGroupsRequest(states_filter=["no such state"] * states)
    with Broker() as broker:
        entry = broker.node.dispatcher.entries[api_keys.LIST_GROUPS]
        load, entry._load = entry._load, no_file_is_left
        with (
            WireClient(broker.port) as client,
            caplog.at_level(logging.ERROR),
            pytest.raises(ConnectionError),
        ):
            client.call("ListGroups", 4, request, ListGroupsResponse)
        assert "ListGroups failed, and its connection is closed" in caplog.text
        assert os.strerror(errno.EMFILE) in caplog.text
        assert entry.metrics.by_error == {ErrorCode.UNKNOWN_SERVER_ERROR: 1}
        entry._load = load
        with WireClient(broker.port) as client:
            answer = client.call("ListGroups", 4, request, ListGroupsResponse)
            assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_deferred", [False, True], ids=["at once", "deferred"])
def test_a_response_that_cannot_be_encoded_ends_the_connection(
    is_deferred: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ListGroupsResponse(throttle_time_ms=1 << 40)

    async def later() -> ListGroupsResponse:
        return answer

    with Broker() as broker:
        entry = broker.node.dispatcher.entries[api_keys.LIST_GROUPS]
        entry.load()
        entry.handle = lambda *_: later() if is_deferred else answer
        with (
            WireClient(broker.port) as client,
            caplog.at_level(logging.ERROR),
            pytest.raises(ConnectionError),
        ):
            client.call("ListGroups", 4, ListGroupsRequest(), ListGroupsResponse)
    assert "struct.error" in caplog.text


def test_a_request_that_fails_after_its_client_has_disconnected_leaves_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(context: RequestContext, _: Any) -> None:
        while context.peer._connection is not None:
            await asyncio.sleep(0.01)
        raise ApiError(ErrorCode.POLICY_VIOLATION)

    with caplog.at_level(logging.ERROR), Broker() as broker:
        dispatcher = broker.node.dispatcher
        dispatcher.entries[api_keys.METADATA].load()
        dispatcher.entries[api_keys.METADATA].handle = refuse
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
