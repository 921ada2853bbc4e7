"""A loop whose time is a number, a coordinator's topic in memory, and an image of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from odradek.core.metadata.image import (
    FeaturesImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
    TopicsImage,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.builder import plain_batch

EPOCH_MS = 1_700_000_000_000
LED = PartitionRegistration((1,), (bytes(16),), (1,), (), (), (), (), 1, 0, 0, 0)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")[:16]


def image_of(
    topics: Mapping[str, int], offset: int = 1, features: Mapping[str, int] | None = None
) -> MetadataImage:
    """An image with these topics: partition counts by name."""
    images = {
        name: TopicImage(name, topic_id(name), dict.fromkeys(range(count), LED))
        for name, count in topics.items()
    }
    by_id = {each.id: each for each in images.values()}
    finalized = FeaturesImage(features or {})
    return MetadataImage(offset, 1, features=finalized, topics=TopicsImage(images, by_id))


def making(coordinator: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """For a fixture: makes coordinators with settings, and closes them in the end."""
    made = []

    def make(**settings: Any) -> Any:
        made.append(coordinator(**settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


class _NothingToSelect:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everyone waits and nothing is scheduled"
        self._loop.now_s += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Sleeps take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._selector = _NothingToSelect(self)

    def time(self) -> float:
        return self.now_s

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class VirtualClock:
    """The clock of a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return EPOCH_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._loop.now_s * 1000)

    def monotonic_ns(self) -> int:
        return round(self._loop.now_s * 1_000_000_000)


class MemoryPartition:
    """A partition's log. With `is_replicated` somebody has to move the high watermark."""

    def __init__(self, is_replicated: bool = False) -> None:
        self.batches: list[bytes] = []
        self.start_offset = 0
        self.end = 0
        self.high = 0
        self.is_replicated = is_replicated
        self.batch_bytes_max = 1_048_588
        self.refusal: ErrorCode | None = None
        self.appends = 0
        self._waiting: list[tuple[int, Callable[[ApiError | None], None]]] = []

    @property
    def end_offset(self) -> int:
        return self.end

    @property
    def high_watermark(self) -> int:
        return self.high

    @property
    def commits_at_once(self) -> bool:
        return not self.is_replicated

    def append(
        self, batch: bytearray, *, verification_guard: int = 0, transaction_version: int = 0
    ) -> int:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        if len(batch) > self.batch_bytes_max:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        view = RecordBatch(batch)
        view.check()
        batch[:8] = self.end.to_bytes(8, "big")
        self.batches.append(bytes(batch))
        self.appends += 1
        self.end += view.last_offset_delta + 1
        if not self.is_replicated:
            self.commit()
        return self.end

    def append_records(self, timestamp: int, records: Sequence[tuple[bytes, bytes]]) -> int:
        return self.append(plain_batch(timestamp, records))

    def delete_records_before(self, offset: int) -> None:
        if not 0 <= offset <= self.high:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.start_offset = max(self.start_offset, offset)

    def commit(self, offset: int | None = None) -> None:
        """Followers have caught up."""
        self.high = self.end if offset is None else offset
        waiting, self._waiting = self._waiting, []
        for offset, committed in waiting:
            self.when_committed(offset, committed)

    def fail(self, code: ErrorCode) -> None:
        """What is not committed may never be."""
        waiting, self._waiting = self._waiting, []
        for _, committed in waiting:
            committed(ApiError(code))

    async def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for batch in self.batches:
            if RecordBatch(batch).last_offset < offset:
                continue
            if data and len(data) + len(batch) > max_bytes:
                break
            data += batch
        await asyncio.sleep(0.001)
        return data

    def when_committed(self, offset: int, committed: Callable[[ApiError | None], None]) -> None:
        if offset <= self.high:
            committed(None)
        else:
            self._waiting.append((offset, committed))

    def views(self) -> list[RecordBatch]:
        return [view for batch in self.batches for view in iterate_batches(batch)]


class MemoryTopic:
    """Makes partitions as they are asked for, unless they are led elsewhere."""

    def __init__(self, is_replicated: bool = False) -> None:
        self.partitions: dict[int, MemoryPartition] = {}
        self.is_replicated = is_replicated
        self.elsewhere: set[int] = set()

    def partition(self, index: int) -> MemoryPartition:
        if index in self.elsewhere:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if index not in self.partitions:
            self.partitions[index] = MemoryPartition(self.is_replicated)
        return self.partitions[index]


class OnALoop:
    """What coordinators under test have in common: a loop, a clock, and answers at once."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)

    def run(self, ms: int = 0) -> None:
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))

    def get(self, answer: Any) -> Any:
        """The response, now; the error code if it is one."""
        try:
            if isinstance(answer, asyncio.Future) or asyncio.iscoroutine(answer):
                return self.loop.run_until_complete(answer)
        except ApiError as error:
            return error.code
        return answer

    def call(self, method: Any, *arguments: Any) -> Any:
        """Call a method of the coordinator; a refusal is its error code."""
        try:
            answer = method(*arguments)
        except ApiError as error:
            return error.code
        return self.get(answer)
