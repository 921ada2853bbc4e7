"""One API of a dispatcher: calls the handler, encodes the responses, and counts them.

The handler is imported when the first request of the API arrives.

The response is sent at once, or when the future or the coroutine of the handler completes. Another
thread encodes a large response (`RequestContext.is_large`).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.broker.clients.quotas import Charge
from odradek.broker.clients.request_context import RequestContext
from odradek.env.executor import Executor, Pool, call
from odradek.env.file_range import FileRange
from odradek.handlers.error_answers import error_answer
from odradek.handlers.first_use import DecodersAtFirstUse
from odradek.handlers.handler import Handler
from odradek.handlers.measured_steps import measured
from odradek.handlers.pieces import in_pieces
from odradek.handlers.response_errors import error_codes
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.connection import Connection
from odradek.network.peer import Peer
from odradek.network.responses import Part, Slot
from odradek.telemetry.request_metrics import RequestMetrics
from odradek.wire.api import BY_KEY
from odradek.wire.primitives import Decoder, Message

log = logging.getLogger("odradek.request")

QuickFunction = Callable[[Peer, memoryview, int, int, int], bytes | asyncio.Future[bytes] | None]


class Bound(NamedTuple):
    """A handler and its functions, bound to the broker or controller that serves."""

    handler: Handler
    handle: Callable[[RequestContext, Any], Any]
    quick: QuickFunction | None = None


class Binding(NamedTuple):
    """An API that a dispatcher serves. `load` imports its handler."""

    version_min: int
    version_max: int
    load: Callable[[], Bound]


_FIXED_HEADER_BYTES: Final = 8
"""A request header without the client id and tags."""
_PRODUCE_KEY: Final = 0
_FETCH_KEY: Final = 1
_response_header: Final = struct.Struct(">ii")
_response_header_tagged: Final = struct.Struct(">iix")


class Entry:
    """One served API: calls the handler, encodes the responses and counts them."""

    __slots__ = (
        "_executor",
        "_load",
        "_now_ns",
        "_tasks",
        "charge",
        "decoders",
        "error_response",
        "flexible_min",
        "follower_metrics",
        "handle",
        "key",
        "metrics",
        "name",
        "overlap",
        "quick",
        "tagged_header_min",
        "version_max",
        "version_min",
        "waiting",
    )

    def __init__(
        self,
        key: int,
        binding: Binding,
        now_ns: Callable[[], int],
        tasks: set[asyncio.Task[None]],
        executor: Executor | None,
    ) -> None:
        """`tasks` is a set to which the running tasks of coroutine handlers are added. Without an
        executor, large responses are encoded on this thread."""
        api = BY_KEY[key]
        self.key = key
        self.name = api.name
        self.version_min = binding.version_min
        self.version_max = binding.version_max
        self._load = binding.load
        self.flexible_min = api.flexible_min
        self.tagged_header_min = 32767 if key == api_keys.API_VERSIONS else api.flexible_min
        self.decoders: dict[int, Decoder] = DecodersAtFirstUse(self.load)
        """By version."""
        self.handle: Callable[[RequestContext, Any], Any] = self._load_and_handle
        self.overlap = False
        self.quick: QuickFunction | None = None
        self.error_response: Callable[[Any, ApiError], Message] | None = None
        self.metrics = RequestMetrics()
        """A duration is the time from the dispatch of a request to its response."""
        self.follower_metrics: RequestMetrics | None = (
            RequestMetrics() if key == _FETCH_KEY else None
        )
        """The fetches of followers. `metrics` has those of consumers. None for other APIs."""
        self.waiting = 0
        """Number of requests that wait for something."""
        self.charge: Charge | None = None
        """Counts requests for quotas. None while no client has a limit."""
        self._now_ns = now_ns
        self._tasks = tasks
        self._executor = executor

    def load(self) -> dict[int, Decoder]:
        """Import the handler. Return the decoders of the requests."""
        handler, handle, self.quick = self._load()
        assert self.key == handler.request.API_KEY
        self.handle = (
            handle if handler.pieces is None else partial(in_pieces, handle, handler.pieces)
        )
        self.overlap = handler.overlap
        self.error_response = handler.error_response
        self.decoders = handler.request.DECODERS
        return self.decoders

    def _load_and_handle(self, context: RequestContext, request: Any) -> Any:
        self.load()
        return self.handle(context, request)

    def use_charge(self, charge: Charge | None) -> None:
        """Set the function that counts requests for quotas. None: they are not counted."""
        self.charge = charge

    def serve(
        self,
        connection: Connection,
        frame_bytes: int,
        context: RequestContext,
        request: Any,
        started: int,
        inject: Inject | None,
        slot: Slot | None = None,
    ) -> asyncio.Task[None] | None:
        """Call the handler; send its response now, or when the handler's future completes.

        Return the task of a handler that is a coroutine. `slot` is the place of the response if the
        request was deferred already.
        """
        began = started if slot is None else self._now_ns()
        try:
            answer = None
            if inject is not None:
                answer = inject(self, context, request)
            if answer is None:
                answer = self.handle(context, request)
        except Exception as error:  # noqa: BLE001  a request may fail, the node must not
            answer = self._error_answer(context, request, error)
        if slot is None:
            if answer is None or isinstance(answer, Message):
                self._answer(connection, None, frame_bytes, context, request, answer, started, -1)
                return None
            slot = connection.defer(self.overlap)
        cost_ns = self._now_ns() - began
        if answer is None or isinstance(answer, Message):
            cost_ns += context.worked_ns
            self._answer(connection, slot, frame_bytes, context, request, answer, started, cost_ns)
            return None
        task = None
        if not isinstance(answer, asyncio.Future):
            if self.charge is not None:
                answer = measured(answer, self._now_ns, context.add_work)
            answer = task = asyncio.ensure_future(answer)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.waiting += 1
        answer.add_done_callback(
            lambda done: self._on_done(
                connection, slot, frame_bytes, context, request, started, cost_ns, done
            )
        )
        return task

    def _on_done(
        self,
        connection: Connection,
        slot: Slot,
        frame_bytes: int,
        context: RequestContext,
        request: Any,
        started: int,
        cost_ns: int,
        done: asyncio.Future[Any],
    ) -> None:
        self.waiting -= 1
        if done.cancelled():
            connection.close()
            return
        # Also if the client has disconnected: asyncio logs a traceback for unread errors.
        error = done.exception()
        try:
            if error is None:
                answer = done.result()
            else:
                answer = self._error_answer(context, request, error)
            if not connection.closed:
                cost_ns += context.worked_ns
                self._answer(
                    connection, slot, frame_bytes, context, request, answer, started, cost_ns
                )
        except Exception:
            connection.close()  # otherwise the later requests would never be answered
            raise

    def _answer(
        self,
        connection: Connection,
        slot: Slot | None,
        frame_bytes: int,
        context: RequestContext,
        request: Any,
        answer: Message | None,
        started: int,
        cost_ns: int,
    ) -> None:
        """Encode a response and pass it to the connection.

        `cost_ns` is the computing time; -1 means that it is the time since the request was
        received.
        """
        duration_ns = self._now_ns() - started
        metrics = self.metrics
        if self.follower_metrics is not None and _is_follower(request):
            metrics = self.follower_metrics
        if self.charge is not None:
            used_ns = duration_ns if cost_ns < 0 else cost_ns
            self._throttle(self.charge, connection, frame_bytes, metrics, answer, used_ns)
        if answer is not None:
            self._count_errors(answer)
        if answer is None:
            self._record(metrics, duration_ns, cost_ns, frame_bytes, 0, context)
            if slot is not None:
                slot.complete([])
            return
        if slot is not None and context.is_large and self._executor is not None:
            encode = partial(self._encode_large, context, request, answer)
            encoding = call(self._executor, encode, Pool.CODEC)
            recorded = partial(self._record_encoded, started, cost_ns, frame_bytes, context)
            encoding.add_done_callback(partial(self._on_encoded, connection, slot, recorded))
            return
        parts, length = self._encode(context, answer)
        self._record(metrics, duration_ns, cost_ns, frame_bytes, length, context)
        if slot is None:
            connection.respond(parts, length)
        else:
            slot.complete(parts)

    def _encode(self, context: RequestContext, answer: Message) -> tuple[list[Part], int]:
        """Return the parts of a response with its header, and the length without the header."""
        parts: list[Part] = [b""]
        answer.ENCODERS[context.api_version](answer, parts.append)
        length = sum(map(len, parts))
        if context.api_version >= self.tagged_header_min:
            parts[0] = _response_header_tagged.pack(length + 5, context.correlation_id)
        else:
            parts[0] = _response_header.pack(length + 4, context.correlation_id)
        return parts, length

    def _encode_large(
        self, context: RequestContext, request: Any, answer: Message
    ) -> tuple[list[Part], int]:
        """Encode a response in another thread, and join its parts.

        The caller keeps no reference to `request` and `answer`. So their elements are freed in this
        thread, too.
        """
        parts, length = self._encode(context, answer)
        buffers = [part for part in parts if not isinstance(part, FileRange)]
        return [b"".join(buffers)] if len(buffers) == len(parts) else parts, length

    def _on_encoded(
        self,
        connection: Connection,
        slot: Slot,
        recorded: Callable[[int], None],
        encoding: asyncio.Future[tuple[list[Part], int]],
    ) -> None:
        if connection.closed:
            return
        try:
            parts, length = encoding.result()
        except BaseException:
            connection.close()  # otherwise the later requests would never be answered
            raise
        recorded(length)
        slot.complete(parts)

    def _record(
        self,
        metrics: RequestMetrics,
        duration_ns: int,
        local_ns: int,
        frame_bytes: int,
        length: int,
        context: RequestContext,
    ) -> None:
        """Count a request; `local_ns` is -1 if it was answered at once."""
        version = context.api_version
        body_bytes = frame_bytes - _FIXED_HEADER_BYTES - len(context.peer.client_id_on_wire)
        if version >= self.flexible_min:
            body_bytes -= 1  # no tags
        if local_ns < 0:
            metrics.record(duration_ns // 1000, body_bytes, length, version)
        else:
            metrics.record_deferred(
                duration_ns // 1000, local_ns // 1000, body_bytes, length, version
            )

    def _record_encoded(
        self, started: int, cost_ns: int, frame_bytes: int, context: RequestContext, length: int
    ) -> None:
        duration_ns = self._now_ns() - started
        self._record(self.metrics, duration_ns, cost_ns, frame_bytes, length, context)

    def _throttle(
        self,
        charge: Charge,
        connection: Connection,
        frame_bytes: int,
        metrics: RequestMetrics,
        answer: Any,
        cost_ns: int,
    ) -> None:
        """Count a request for the quotas of its client; throttle the connection if necessary."""
        peer = connection.peer
        told_ms = getattr(answer, "throttle_time_ms", None)
        throttle_ms = charge(
            self.key, peer, frame_bytes, cost_ns, told_ms or 0, silent=answer is None
        )
        if throttle_ms:
            if told_ms is not None:
                answer.throttle_time_ms = throttle_ms
            connection.mute(throttle_ms)
            metrics.record_throttled(throttle_ms)

    def answer_quickly(
        self,
        connection: Connection,
        frame_bytes: int,
        body_bytes: int,
        answer: bytes | asyncio.Future[bytes],
        version: int,
        started: int,
    ) -> None:
        """Send a response of the fast path, now or when the future completes, and count it."""
        now = self._now_ns()
        if isinstance(answer, bytes):
            if self.charge is not None:
                answer = self._charge_quick(
                    self.charge, connection, frame_bytes, answer, version, now - started
                )
            if answer:
                connection.respond([answer], len(answer))
            self.metrics.record((now - started) // 1000, body_bytes, len(answer), version)
            return
        slot = connection.defer(self.overlap)
        answer.add_done_callback(
            partial(
                self._on_quick_answer,
                connection,
                slot,
                frame_bytes,
                body_bytes,
                version,
                started,
                now - started,
            )
        )

    def _on_quick_answer(
        self,
        connection: Connection,
        slot: Slot,
        frame_bytes: int,
        body_bytes: int,
        version: int,
        started: int,
        cost_ns: int,
        done: asyncio.Future[bytes],
    ) -> None:
        if done.cancelled():
            connection.close()
            return
        error = done.exception()  # also if the client has left: asyncio logs unread errors
        if connection.closed:
            return
        if error is not None:  # a bug in Odradek: the node continues to run
            self.metrics.record_errors([ErrorCode.UNKNOWN_SERVER_ERROR])
            log.error("%s failed", self.name, exc_info=error)
            connection.close()
            return
        answer = done.result()
        if self.charge is not None:
            answer = self._charge_quick(
                self.charge, connection, frame_bytes, answer, version, cost_ns
            )
        duration_us = (self._now_ns() - started) // 1000
        size = len(answer)
        self.metrics.record_deferred(duration_us, cost_ns // 1000, body_bytes, size, version)
        slot.complete([answer])

    def _charge_quick(
        self,
        charge: Charge,
        connection: Connection,
        frame_bytes: int,
        answer: bytes,
        version: int,
        cost_ns: int,
    ) -> bytes:
        """Count a request of the fast path; return its response with the throttle time."""
        peer = connection.peer
        throttle_ms = charge(self.key, peer, frame_bytes, cost_ns, 0, silent=not answer)
        if not throttle_ms:
            return answer
        connection.mute(throttle_ms)
        self.metrics.record_throttled(throttle_ms)
        if not answer:
            return answer
        header_bytes = _response_header_tagged.size
        response: Any = BY_KEY[self.key].response_class().decode(answer, version, header_bytes)
        response.throttle_time_ms = throttle_ms
        return answer[:header_bytes] + bytes(response.encode(version))

    def _error_answer(self, context: RequestContext, request: Any, error: BaseException) -> Message:
        """Return the response to a request that failed as a whole."""
        if not isinstance(error, ApiError):  # a bug in Odradek: the node continues to run
            log.error("%s failed", self.name, exc_info=error)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return self.rejection(request, context.api_version, error)

    def _count_errors(self, answer: Message) -> None:
        """Count the errors in a response. Produce and Fetch count those of partitions themselves."""
        if self.key == _PRODUCE_KEY:
            return
        if self.key == _FETCH_KEY:
            code = answer.error_code  # type: ignore[attr-defined]
            codes = [code] if code else []
        else:
            codes = error_codes(answer)
        if codes:
            self.metrics.record_errors(codes)

    def rejection(self, request: Any, version: int, error: ApiError) -> Message:
        """Return the response that rejects a request with an error."""
        if self.error_response is not None:
            return self.error_response(request, error)
        return error_answer(request, version, error.code, error.message)


def _is_follower(request: Any) -> bool:
    """Whether a Fetch request is one of a follower."""
    if request is None:
        return False
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)


Inject = Callable[[Entry, RequestContext, Any], Any]
"""A function that tests use to inject faults. It is called before each handler. A result other than
None replaces the handler's response."""
