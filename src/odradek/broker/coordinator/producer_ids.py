"""Allocates producer ids from blocks that the controller assigns to this broker.

A producer id is assigned only once in the lifetime of a cluster. A block belongs to one broker. If
the broker stops, the unused ids of its block are lost. The next block is requested before the
current block is used up, so that producers do not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.broker.controller.channel import ControllerChannel
from odradek.env.clock import Clock
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.allocate_producer_ids_response import AllocateProducerIdsResponse

log = logging.getLogger("odradek.producer_ids")

PREFETCH_AT = 0.9
"""The next block is requested when this fraction of the current block is used."""
BACKOFF_MS = 50
"""Delay before the next request after the controller has rejected a request."""
WAIT_S = 1.0
"""How long a producer may wait for the controller before the producer has to retry."""
PRODUCER_ID_MAX = 2**63 - 1


class ProducerIds:
    """The blocks of producer ids of this broker. Use it only on the event loop's thread."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        controller: ControllerChannel,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`broker_epoch` returns the epoch of this broker's registration."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._clock = clock
        self._loop = loop
        self._block = range(0)
        self._next = 0
        self._next_block: range | None = None
        self._request: asyncio.Task[None] | None = None
        self._not_before_ms = 0

    def take(self) -> int | None:
        """Return a new producer id; None if no id is available."""
        if self._next >= self._block.stop:
            if self._next_block is None:
                return None
            self._block, self._next_block = self._next_block, None
            self._next = self._block.start
        producer_id = self._next
        self._next += 1
        if producer_id - self._block.start >= int(len(self._block) * PREFETCH_AT):
            self._prefetch()
        return producer_id

    @property
    def is_available(self) -> bool:
        """Whether `take` would return an id."""
        return self._next < self._block.stop or self._next_block is not None

    def take_now(self) -> int:
        """Return a new producer id without waiting. If no id is available, request a block.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS: no id is available now. The client retries;
                older clients would treat other errors as fatal.
        """
        producer_id = self.take()
        if producer_id is None:
            self._prefetch()
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "waiting for a block of producer ids"
            )
        return producer_id

    async def wait(self) -> None:
        """Wait at most `WAIT_S` for a block from the controller, unless an id is available."""
        if not self.is_available:
            self._prefetch()
            if self._request is not None:
                await asyncio.wait((self._request,), timeout=WAIT_S)

    async def allocate(self) -> int:
        """Return a new producer id; wait for the controller if necessary.

        Raises:
            ApiError: see `take_now`.
        """
        await self.wait()
        return self.take_now()

    def _prefetch(self) -> None:
        """Request the next block, unless it is available or requested, or was just rejected."""
        if self._next_block is not None or self._request is not None:
            return
        if self._clock.monotonic_ms() >= self._not_before_ms:
            self._request = self._loop.create_task(self._fetch_block())

    async def _fetch_block(self) -> None:
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        try:
            response: AllocateProducerIdsResponse = await self._controller.submit(None, request)
            if response.error_code != ErrorCode.NONE:
                raise ApiError(ErrorCode(response.error_code))  # type: ignore[call-arg]
            self._next_block = self._checked(response)
        except ApiError as error:
            log.warning("the controller has not allocated a block of producer ids: %s", error)
            self._not_before_ms = self._clock.monotonic_ms() + BACKOFF_MS
        finally:
            self._request = None

    def _checked(self, response: AllocateProducerIdsResponse) -> range:
        start, length = response.producer_id_start, response.producer_id_len
        is_sane = 0 <= start <= PRODUCER_ID_MAX - max(length, 0) and length > 0
        if not is_sane or start < self._block.stop:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"a block of {length} from {start} cannot follow {self._block}",
            )
        return range(start, start + length)

    async def close(self) -> None:
        """Cancel the current request."""
        if self._request is not None:
            self._request.cancel()
            await asyncio.wait((self._request,))
