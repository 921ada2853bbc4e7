"""The client of the share coordinators (Kafka's `DefaultStatePersister`, `PersisterStateManager`).

The coordinator of a share partition is the leader of its partition of `__share_group_state`. If
this broker is the leader, the operation is performed directly. Otherwise it is sent to the leader.
The operations of one API for one group are sent in one request, and one request is in flight to
each broker. Operations that arrive in the meantime are sent in the next request.

The operations of one share partition are performed one after the other, in the order of the calls,
even if one of them must be repeated. Operations are repeated if the coordinator moves, loads, or
cannot be reached. The pauses between the attempts grow from one second to 30 seconds. After
`ATTEMPTS_MAX` attempts the result has the last error.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, NamedTuple

from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.coordinator import share_apis
from odradek.broker.coordinator.share_apis import ShareStateApi
from odradek.broker.coordinator.share_coordinator import ShareCoordinator
from odradek.broker.peers.channels import BrokerChannels, BrokerUnreachable, UnsupportedByBroker
from odradek.core.coordinator.placement import partition_for
from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.env.randomness import RandomBytes
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import SHARE_STATE_TOPIC
from odradek.wire.generated.delete_share_group_state_request import DeleteShareGroupStateRequest
from odradek.wire.generated.delete_share_group_state_response import DeleteShareGroupStateResponse
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)
from odradek.wire.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
)
from odradek.wire.generated.read_share_group_state_request import ReadShareGroupStateRequest
from odradek.wire.generated.read_share_group_state_response import ReadShareGroupStateResponse
from odradek.wire.generated.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from odradek.wire.generated.read_share_group_state_summary_response import (
    ReadShareGroupStateSummaryResponse,
)
from odradek.wire.generated.write_share_group_state_request import PartitionData as WritePartition
from odradek.wire.generated.write_share_group_state_response import PartitionResult as WriteResult

log: Final = logging.getLogger("odradek.share")

ATTEMPTS_MAX: Final = 5
BACKOFF_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 30_000
BACKOFF_JITTER: Final = 0.2
CREATION_WAIT_MS: Final = 1_000

RETRIABLE: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)


class _Operation(NamedTuple):
    """An operation that waits for its request."""

    api: ShareStateApi
    key: SharePartitionKey
    data: Any
    result: asyncio.Future[Any]


class SharePersister:
    """Implements `Persister`. Use it only on the event loop's thread."""

    def __init__(
        self,
        node_id: int,
        shares: ShareCoordinator,
        channels: BrokerChannels,
        topic_creation: TopicCreation,
        random_bytes: RandomBytes,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`channels` must be used by no one else."""
        self._node_id = node_id
        self._shares = shares
        self._channels = channels
        self._topic_creation = topic_creation
        self._random_bytes = random_bytes
        self._loop = loop
        self._last: dict[SharePartitionKey, asyncio.Future[Any]] = {}
        """The last operation of each share partition that is not finished."""
        self._queues: dict[int, list[_Operation]] = {}
        """The operations that wait for the next request to each broker."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """The tasks that send, by broker. A task ends when no operation waits."""

    # -- methods of `Persister` -----------------------------------------------------------------

    async def initialize(
        self, request: InitializeShareGroupStateRequest, /
    ) -> InitializeShareGroupStateResponse:
        """See `Persister`."""
        response: InitializeShareGroupStateResponse = await self._perform(
            share_apis.INITIALIZE, request
        )
        return response

    async def read(self, request: ReadShareGroupStateRequest, /) -> ReadShareGroupStateResponse:
        """See `Persister`."""
        response: ReadShareGroupStateResponse = await self._perform(share_apis.READ, request)
        return response

    def write(
        self, key: SharePartitionKey, data: WritePartition, /
    ) -> WriteResult | asyncio.Future[WriteResult]:
        """See `Persister`."""
        result: WriteResult | asyncio.Future[WriteResult] = self._begin(share_apis.WRITE, key, data)
        return result

    async def delete(
        self, request: DeleteShareGroupStateRequest, /
    ) -> DeleteShareGroupStateResponse:
        """See `Persister`."""
        response: DeleteShareGroupStateResponse = await self._perform(share_apis.DELETE, request)
        return response

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest, /
    ) -> ReadShareGroupStateSummaryResponse:
        """See `Persister`."""
        response: ReadShareGroupStateSummaryResponse = await self._perform(
            share_apis.READ_SUMMARY, request
        )
        return response

    # -- one operation --------------------------------------------------------------------------

    async def _perform(self, api: ShareStateApi, request: Any) -> Any:
        begun = []
        for topic in request.topics:
            for data in topic.partitions:
                key = SharePartitionKey(request.group_id, topic.topic_id, data.partition)
                begun.append((key, self._begin(api, key, data)))
        # If the caller is cancelled, the operations continue: `wait` does not cancel them.
        waiting = [each for _, each in begun if isinstance(each, asyncio.Future)]
        if waiting:
            await asyncio.wait(waiting)
        results = {
            key: each.result() if isinstance(each, asyncio.Future) else each for key, each in begun
        }
        return api.respond(request, results)

    def _begin(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        """Begin an operation after the earlier operations of the same share partition.

        Return its result, or a future of the result.
        """
        earlier = self._last.get(key)
        first = None
        if earlier is None and self._leader(key) == self._node_id:
            first = self._perform_here(api, key, data)
            if not isinstance(first, asyncio.Future) and first.error_code not in RETRIABLE:
                return first
        task = self._loop.create_task(self._persist(api, key, data, earlier, first))
        self._last[key] = task

        def forget(done: asyncio.Future[Any]) -> None:
            if self._last.get(key) is done:
                del self._last[key]

        task.add_done_callback(forget)
        return task

    async def _persist(
        self,
        api: ShareStateApi,
        key: SharePartitionKey,
        data: Any,
        earlier: asyncio.Future[Any] | None,
        first: Any,
    ) -> Any:
        """Perform an operation, several times if necessary; return its result.

        `first` is the result of the first attempt, or a future of it, or None.
        """
        if earlier is not None:
            await asyncio.wait((earlier,))
        attempt = 0
        while True:
            attempt += 1
            if first is None:
                first = await self._attempt(api, key, data)
            result = await self._outcome(api, key, first)
            if result.error_code not in RETRIABLE or attempt == ATTEMPTS_MAX:
                return result
            log.debug("%s of share partition %s is repeated", api.operation, key.text)
            await asyncio.sleep(self._pause_ms(attempt) / 1000)
            first = None

    def _pause_ms(self, attempt: int) -> float:
        pause_ms = min(BACKOFF_MS << (attempt - 1), BACKOFF_MAX_MS)
        jitter = self._random_bytes(1)[0] / 127.5 - 1
        return pause_ms * (1 + BACKOFF_JITTER * jitter)

    async def _attempt(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        """Perform an operation once; return its result, or a future of it."""
        leader = self._leader(key)
        if leader is None:
            await self._topic_creation.create(SHARE_STATE_TOPIC, CREATION_WAIT_MS)
            leader = self._leader(key)
        if leader is None or not self._channels.image.cluster.is_alive(leader):
            return api.failure(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        if leader == self._node_id:
            return self._perform_here(api, key, data)
        return self._send(leader, api, key, data)

    def _leader(self, key: SharePartitionKey) -> int | None:
        """Return the broker that coordinates a share partition; None if the topic is missing."""
        topic = self._channels.image.topics.by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        return topic.partitions[partition_for(key.text, len(topic.partitions))].leader

    def _perform_here(self, api: ShareStateApi, key: SharePartitionKey, data: Any) -> Any:
        """Perform an operation that this broker coordinates."""
        try:
            return self._shares.perform(api, key, data)
        except ApiError as error:
            return api.failure(key, error.code, error.message)

    async def _outcome(self, api: ShareStateApi, key: SharePartitionKey, answer: Any) -> Any:
        if not isinstance(answer, asyncio.Future):
            return answer
        try:
            return await answer
        except ApiError as error:
            return api.failure(key, error.code, error.message)

    # -- other brokers --------------------------------------------------------------------------

    def _send(
        self, broker_id: int, api: ShareStateApi, key: SharePartitionKey, data: Any
    ) -> asyncio.Future[Any]:
        """Send an operation with the next request to a broker; return a future of its result."""
        result: asyncio.Future[Any] = self._loop.create_future()
        self._queues.setdefault(broker_id, []).append(_Operation(api, key, data, result))
        if broker_id not in self._tasks:
            # The task begins after the operations of this iteration of the event loop were added.
            self._tasks[broker_id] = self._loop.create_task(self._send_all(broker_id))
        return result

    async def _send_all(self, broker_id: int) -> None:
        """Send requests to a broker until no operation waits."""
        queue = self._queues[broker_id]
        try:
            while queue:
                first = queue[0]
                sent: list[_Operation] = []
                left: list[_Operation] = []
                for each in queue:
                    is_same = each.api is first.api and each.key.group_id == first.key.group_id
                    (sent if is_same else left).append(each)
                queue[:] = left
                await self._send_together(broker_id, sent)
        finally:
            del self._tasks[broker_id], self._queues[broker_id]
            for each in queue:  # only after an unexpected error
                each.result.cancel()

    async def _send_together(self, broker_id: int, sent: list[_Operation]) -> None:
        """Send operations of one API and one group, and complete their futures."""
        api, group_id = sent[0].api, sent[0].key.group_id
        request = api.ask(group_id, {each.key: each.data for each in sent})
        results: dict[SharePartitionKey, Any] = {}
        code = ErrorCode.UNKNOWN_SERVER_ERROR  # the response has no result of a partition
        try:
            response = await self._channels.ask(broker_id, request, request.VERSION_MIN)
            results = api.results(group_id, response)
        except BrokerUnreachable as error:
            log.info("broker %d has not responded to %s: %s", broker_id, api.operation, error)
            code = ErrorCode.NETWORK_EXCEPTION
        except UnsupportedByBroker as error:
            log.warning("broker %d does not coordinate share groups: %s", broker_id, error)
            code = ErrorCode.UNSUPPORTED_VERSION
        finally:
            for each in sent:
                if not each.result.done():
                    result = results.get(each.key) or api.failure(each.key, code, None)
                    each.result.set_result(result)

    async def close(self) -> None:
        """End all operations. Call this after the channels and the share coordinator are closed."""
        tasks = [*self._last.values(), *self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
