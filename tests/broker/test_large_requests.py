"""Another thread decodes large requests and encodes their responses; handlers work in pieces."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from compat.lab.wire_client import WireClient, decode_response
from tests.attacks.attack import is_closed
from tests.bad_input.coordinators.requests import wait_for_coordinators
from tests.support.threads import threads_of

from odradek.handlers import k02_list_offsets, large_requests
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_configs_response import DescribeConfigsResponse
from odradek.wire.generated.describe_groups_request import DescribeGroupsRequest
from odradek.wire.generated.describe_groups_response import DescribeGroupsResponse
from odradek.wire.generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.wire.generated.list_offsets_response import ListOffsetsResponse
from odradek.wire.large_requests import LARGE_BYTES

LATEST = -1
MANY = 20_000
"""Partitions of a request that is large."""
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DUPLICATE = ErrorCode.INVALID_REQUEST


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 3, "clicks": 2}) as running:
        yield running


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that decode large requests, in their order."""
    return threads_of(monkeypatch, large_requests, "decode_large")


def request(*topics: tuple[str, list[int]]) -> ListOffsetsRequest:
    """A request for the ends of partitions."""
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=i, timestamp=LATEST) for i in each
                ],
            )
            for name, each in topics
        ]
    )


def answers(response: ListOffsetsResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    """The partition and the error code of each result."""
    return [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


def test_each_partition_of_a_large_request_gets_its_answer(broker, threads):
    asked = request(("orders", list(range(MANY))), ("none", []), ("clicks", [1, 0]))
    with WireClient(broker.port) as wire:
        response = wire.call("ListOffsets", 7, asked, ListOffsetsResponse)
    expected = [(index, 0 if index < 3 else UNKNOWN) for index in range(MANY)]
    assert answers(response) == [
        ("orders", expected), ("none", []), ("clicks", [(1, 0), (0, 0)]),
    ]  # fmt: skip
    assert [name.startswith("odradek-codec") for name in threads] == [True]


def test_requests_after_a_large_one_wait_for_it(broker, threads):
    """All answers come in the order of the requests, and the connection stays usable."""
    sizes = [MANY, 1, 100_000, 2]  # the third one has memory of its own
    frames = [_frame(broker, request(("orders", list(range(size))))) for size in sizes]
    with WireClient(broker.port) as wire:
        wire.send(b"".join(frames))
        received = [
            decode_response("ListOffsets", 7, wire.receive(), ListOffsetsResponse) for _ in sizes
        ]
    assert [len(each.topics[0].partitions) for each in received] == sizes
    assert len(threads) == 2


def _frame(broker: Broker, asked: ListOffsetsRequest) -> bytes:
    with WireClient(broker.port) as wire:
        return wire.frame("ListOffsets", 7, asked)


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_pieces_make_the_same_answer(broker, monkeypatch, piece):
    """A partition that two pieces name is a duplicate in both."""
    asked = request(("orders", [0, 1, 2, 7]), ("none", []), ("clicks", [0, 0]), ("orders", [1]))
    with WireClient(broker.port) as wire:
        whole = wire.call("ListOffsets", 7, asked, ListOffsetsResponse)
        turns = broker.node.selector.turns
        monkeypatch.setattr(k02_list_offsets, "PIECE", piece)
        assert wire.call("ListOffsets", 7, asked, ListOffsetsResponse) == whole
    assert broker.node.selector.turns - turns >= 7 // (piece + 1)
    assert answers(whole) == [
        ("orders", [(0, 0), (1, DUPLICATE), (2, 0), (7, UNKNOWN)]),
        ("none", []),
        ("clicks", [(0, DUPLICATE), (0, DUPLICATE)]),
        ("orders", [(1, DUPLICATE)]),
    ]


def test_a_malformed_large_request_closes_its_connection(broker, threads, caplog):
    frame = bytearray(_frame(broker, request(("orders", list(range(MANY))))))
    del frame[-50:]
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    with WireClient(broker.port) as wire:
        wire.send(bytes(frame))
        assert is_closed(wire.socket)
    assert "a request of ListOffsets version 7 is malformed" in caplog.text
    assert len(threads) == 1


def test_a_client_that_leaves_is_not_answered(broker, threads, caplog):
    """Nothing fails, and others are served."""
    frame = _frame(broker, request(("orders", list(range(MANY)))))
    assert len(frame) > LARGE_BYTES
    for _ in range(5):
        with WireClient(broker.port) as wire:
            wire.send(frame)
    with WireClient(broker.port) as wire:
        asked = request(("orders", list(range(MANY))))
        response = wire.call("ListOffsets", 7, asked, ListOffsetsResponse)
    assert len(response.topics[0].partitions) == MANY
    assert "failed" not in caplog.text
    assert "exception" not in caplog.text.lower()


def test_many_clients_with_large_requests_take_turns(broker, threads):
    """All are answered, though only some are processed at the same time, and one client leaves."""
    frame = _frame(broker, request(("orders", list(range(MANY)))))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(WireClient(broker.port)) for _ in range(12)]
        for wire in clients:
            wire.send(frame)
        clients.pop().close()
        for wire in clients:
            response = decode_response("ListOffsets", 7, wire.receive(), ListOffsetsResponse)
            assert len(response.topics[0].partitions) == MANY
    while len(broker.node.dispatcher.large):
        time.sleep(0.01)  # the request of the client that has left


TOPIC_TYPE, UNKNOWN_TYPE = 2, 99


def configs(wire: WireClient, *resources: tuple[int, str]) -> DescribeConfigsResponse:
    """Describe two settings of each resource, given its type and name."""
    asked = [
        DescribeConfigsResource(
            resource_type=each, resource_name=name,
            configuration_keys=["retention.ms", "segment.bytes"],
        )
        for each, name in resources
    ]  # fmt: skip
    return wire.call(
        "DescribeConfigs", 2, DescribeConfigsRequest(resources=asked), DescribeConfigsResponse
    )


def test_many_resources_are_described_in_pieces(broker):
    """More than `HANDLER.pieces.size`, so that there are several pieces."""
    topics = [(TOPIC_TYPE, name) for name in ("orders", "none", "clicks")] * 9
    with WireClient(broker.port) as wire:
        turns = broker.node.selector.turns
        answer = configs(wire, *topics)
        assert broker.node.selector.turns - turns >= 3
        assert answer.results == [configs(wire, each).results[0] for each in topics]


def test_an_error_in_a_later_piece_is_that_of_the_whole_request(broker):
    topics = [(TOPIC_TYPE, f"t{number}") for number in range(25)]
    topics[20] = (UNKNOWN_TYPE, "t20")
    with WireClient(broker.port) as wire:
        answer = configs(wire, *topics)
    assert [each.resource_name for each in answer.results] == [name for _, name in topics]
    assert {each.error_code for each in answer.results} == {ErrorCode.INVALID_REQUEST}


def test_many_groups_are_described_in_pieces(broker):
    """The handler is a coroutine."""
    names = [f"group-{number}" for number in range(450)]
    wait_for_coordinators(broker.port)
    with WireClient(broker.port) as wire:
        asked = DescribeGroupsRequest(groups=names)
        answer = wire.call("DescribeGroups", 5, asked, DescribeGroupsResponse)
    assert sorted(each.group_id for each in answer.groups) == sorted(names)
    assert {each.group_state for each in answer.groups} == {"Dead"}
