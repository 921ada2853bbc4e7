"""ListOffsets (2), versions 1-11: find offsets by timestamp, and the ends of a partition.

- Negative timestamps have special meanings:
    -1: the latest offset (the high watermark, with `read_committed` the last stable offset)
    -2: the earliest offset
    -3: the offset of the record with the largest timestamp (from version 7 on)
    -4: the earliest local offset (from version 8 on)
    -5: the latest tiered offset (from version 9 on)
    -6: the earliest offset that is not tiered yet (from version 11 on)
- A negative timestamp that the version does not have gets the error UNSUPPORTED_VERSION.
- The offset is -1, without an error, if all records are earlier than the timestamp, or if consumers
  may not read the found record yet.
- A new leader may not know yet what its predecessor had committed. Until its high watermark has
  reached the start of its epoch, consumers get the error OFFSET_NOT_AVAILABLE (KIP-207), before
  version 5 LEADER_NOT_AVAILABLE, if the offset would be at or above the high watermark.
- If a request contains a partition twice, the partition gets the error INVALID_REQUEST.
- If data is not in the page cache, a thread reads it first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.partitions.partition import Partition
from odradek.env.file_system import FileSystem
from odradek.env.page_cache import ReadWouldBlock
from odradek.handlers.authorization import TOPIC, AclOperation, denied
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
VERSION_MIN_OF_SPECIAL = {LATEST: 1, EARLIEST: 1, -3: 7, EARLIEST_LOCAL: 8, -5: 9, -6: 11}
READ_COMMITTED = 1
CONSUMER_ID = -1
DEBUGGING_CONSUMER_ID = -2
PIECE = 250
"""About so many topics and partitions are looked up without a pause, in a millisecond."""


class _Part(NamedTuple):
    """Some of the requested partitions of a topic."""

    topic: str
    partitions: Sequence[ListOffsetsPartition]
    result: ListOffsetsTopicResponse
    """The answers are added to it."""


_Piece = list[_Part]


def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[None, None, ListOffsetsResponse]:
    """Return one result per partition."""
    response = ListOffsetsResponse()
    search = _Search(broker, context, request)
    pieces = _pieces(request, response)
    piece = next(pieces, [])
    for second in pieces:
        context.mark_large()
        return _search_all(search, chain((piece, second), pieces), response)
    search.count(piece)
    try:
        search.look(piece, broker.cold_reads.non_blocking)
    except ReadWouldBlock as missing:
        return _look_again(search, piece, missing, response)
    return response


def _pieces(request: ListOffsetsRequest, response: ListOffsetsResponse) -> Iterator[_Piece]:
    """Divide the partitions of a request, and add the results of its topics to the response."""
    piece: _Piece = []
    count = 0
    for topic in request.topics:
        result = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(result)
        for begin in range(0, len(topic.partitions) or 1, PIECE):
            if count >= PIECE:
                yield piece
                piece, count = [], 0
            partitions = topic.partitions[begin : begin + PIECE]
            piece.append(_Part(topic.name, partitions, result))
            count += 1 + len(partitions)
    if piece:
        yield piece


async def _search_all(
    search: _Search, pieces: Iterable[_Piece], response: ListOffsetsResponse
) -> ListOffsetsResponse:
    """Answer a large request in pieces. Other requests are processed between them."""
    counted: list[_Piece] = []
    for piece in pieces:
        search.count(piece)
        counted.append(piece)
        await asyncio.sleep(0)
    for piece in counted:
        try:
            search.look(piece, search.broker.cold_reads.non_blocking)
        except ReadWouldBlock as missing:
            await _look_again(search, piece, missing, response)
        await asyncio.sleep(0)
    return response


async def _look_again(
    search: _Search, piece: _Piece, missing: ReadWouldBlock, response: ListOffsetsResponse
) -> ListOffsetsResponse:
    await search.broker.cold_reads.look_again(partial(search.look, piece), missing)
    return response


class _Search:
    """Finds the offsets that a request asks for, a piece at a time."""

    def __init__(
        self, broker: Broker, context: RequestContext, request: ListOffsetsRequest
    ) -> None:
        self.broker = broker
        self._context = context
        self._request = request
        self._named: dict[str, set[int]] = {}
        """The partitions that the request names."""
        self._named_twice: set[tuple[str, int]] = set()

    def count(self, piece: _Piece) -> None:
        """Note which partitions a piece names. Do this for all pieces before the first `look`."""
        for part in piece:
            named = self._named.setdefault(part.topic, set())
            for each in part.partitions:
                if each.partition_index in named:
                    self._named_twice.add((part.topic, each.partition_index))
                named.add(each.partition_index)

    def look(self, piece: _Piece, files: FileSystem) -> None:
        """Add the answers to the results.

        Raises:
            ReadWouldBlock: data must be read first. Nothing was added.
        """
        names = (part.topic for part in piece)
        refused = denied(self.broker, self._context, AclOperation.DESCRIBE, TOPIC, names)
        missing: list[ReadWouldBlock] = []
        found = [
            [self._answer(part.topic, each, refused, files, missing) for each in part.partitions]
            for part in piece
        ]
        if missing:
            raise ReadWouldBlock.all_of(missing)
        for part, answers in zip(piece, found, strict=True):
            part.result.partitions += answers

    def _answer(
        self,
        topic: str,
        wanted: ListOffsetsPartition,
        refused: Collection[str],
        files: FileSystem,
        missing: list[ReadWouldBlock],
    ) -> ListOffsetsPartitionResponse:
        version = self._context.api_version
        answer = ListOffsetsPartitionResponse()
        try:
            if topic in refused:
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if (topic, wanted.partition_index) in self._named_twice:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            version_min = VERSION_MIN_OF_SPECIAL.get(wanted.timestamp, 1000)
            if wanted.timestamp < 0 and version < version_min:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
            partition = self.broker.replicas.find(topic, wanted.partition_index)
            answer = _look_up(partition, wanted, self._request, files)
        except ApiError as error:
            code = error.code
            if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            answer.error_code = code
        except ReadWouldBlock as part:
            missing.append(part)
        answer.partition_index = wanted.partition_index
        return answer


def _look_up(
    partition: Partition,
    wanted: ListOffsetsPartition,
    request: ListOffsetsRequest,
    files: FileSystem,
) -> ListOffsetsPartitionResponse:
    partition.check_epoch(wanted.current_leader_epoch)
    if request.replica_id != DEBUGGING_CONSUMER_ID:
        partition.check_leader()
    log = partition.log
    limit = log.log_end_offset
    if request.replica_id == CONSUMER_ID:
        committed = request.isolation_level == READ_COMMITTED
        limit = log.last_stable_offset if committed else log.high_watermark
    is_late = request.replica_id == CONSUMER_ID and partition.is_behind_epoch
    if is_late and wanted.timestamp == LATEST:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
    if wanted.timestamp == LATEST:
        return ListOffsetsPartitionResponse(
            offset=limit, leader_epoch=partition.registration.leader_epoch
        )
    found = log.offset_for_timestamp(wanted.timestamp, files)
    if found is None:
        return ListOffsetsPartitionResponse()
    if found.offset >= limit and wanted.timestamp not in {EARLIEST, EARLIEST_LOCAL}:
        if is_late:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return ListOffsetsPartitionResponse()
    return ListOffsetsPartitionResponse(
        timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


HANDLER = Handler(request=ListOffsetsRequest, handle=handle)
