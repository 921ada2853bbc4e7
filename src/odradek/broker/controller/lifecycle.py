"""Registers, unfences and shuts down this node's broker (Kafka's BrokerLifecycleManager).

A broker is fenced when it registers. An unfenced broker appears in metadata responses and serves
clients. Each start of the node registers a new incarnation. From then on the broker sends a
heartbeat every `broker.heartbeat.interval.ms`. If the controller gets none for
`broker.session.timeout.ms`, it fences the broker. The next heartbeat unfences it again. Each
heartbeat contains the log directories that have failed (KIP-858). If one fails, a heartbeat is sent
immediately, because the controller must elect other leaders for the partitions in this directory.
If no heartbeat with this directory succeeds for `log.dir.failure.timeout.ms`, the broker stops.
Then its session expires, and the controller fences it.

A clean shutdown normally fences the broker first: by the controlled shutdown, or by a heartbeat if
this node is the only voter. Then the node stores the broker epoch in the log directories. At the
next start this epoch proves to the controller that no records were lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from odradek.broker.controller.channel import ControllerChannel
from odradek.core.metadata.registrations import Endpoint
from odradek.core.metadata.versions import SUPPORTED_FEATURES
from odradek.env.randomness import RandomBytes
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import make, to_text
from odradek.telemetry.reminders import Reminders
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_heartbeat_response import BrokerHeartbeatResponse
from odradek.wire.generated.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

log = logging.getLogger("odradek.broker")

NOT_REGISTERED = -1
RETRY_SECONDS = 0.05
"""Pause before a registration or a heartbeat is repeated while the broker starts or stops."""
PATIENCE_SECONDS = 5.0
"""After this time, a start that waits for the controller is worth a warning."""
TRANSIENT = frozenset((ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT))
"""Temporary errors of a registration. DUPLICATE_BROKER_REGISTRATION ends when the session of the
previous incarnation expires; REQUEST_TIMED_OUT ends when a controller becomes active."""


class JoinError(Exception):
    """The broker cannot join the cluster. The message says why."""


class BrokerLifecycle:
    """The broker's registration. `epoch` is the broker epoch, -1 until the broker is registered."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        cluster_id: str,
        random_bytes: RandomBytes,
        supported_features: Mapping[str, tuple[int, int]],
        offline_directories: Callable[[], Sequence[bytes]] = tuple,
    ) -> None:
        """`offline_directories` returns the ids of the log directories that have failed."""
        self._channel = channel
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._features = supported_features
        self._offline_directories = offline_directories
        self.incarnation_id = make(random_bytes(16))
        self.epoch = NOT_REGISTERED
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._interval: tuple[int, Callable[[], int]] | None = None
        """The arguments of `start_heartbeats`."""
        self._is_stopped = False
        self._stays_fenced = False
        """Whether all heartbeats request that the broker is fenced."""
        self._unreported: dict[bytes, asyncio.TimerHandle] = {}
        """The failed log directories that the controller has not been told of."""
        self._last_error: ErrorCode | None = None
        """The error of the last heartbeat. An error is logged once, not with each heartbeat."""

    async def register(
        self,
        endpoints: Iterable[Endpoint],
        directories: Sequence[bytes],
        rack: str | None,
        previous_epoch: int,
    ) -> int:
        """Register this incarnation as a fenced broker; return its broker epoch.

        `directories` are the ids of the online log directories. `previous_epoch` is the broker
        epoch of the last clean shutdown. It is -1 if the last shutdown was not clean.

        Raises:
            ApiError: the controller rejects the request.
        """
        request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[Listener(**each._asdict()) for each in endpoints],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in self._features.items()
            ],
            rack=rack,
            log_dirs=list(directories),
            previous_broker_epoch=previous_epoch,
        )
        response = await self._channel.submit(None, request)
        self.epoch = response.broker_epoch
        return self.epoch

    async def join(
        self,
        endpoints: Sequence[Endpoint],
        directories: Sequence[bytes],
        rack: str | None,
        previous_epoch: int,
        metadata_offset: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        """Register the broker with a controller in another process, and wait until it is unfenced.

        `metadata_offset` returns the offset up to which the broker has applied the metadata. See
        `register` for the other arguments. `timeout_ms` is the time for the registration.

        Raises:
            JoinError: the controller rejects the broker, or no controller was active in time.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        reminders = Reminders(loop.time)
        try:
            while True:
                try:
                    await self.register(endpoints, directories, rack, previous_epoch)
                    break
                except ApiError as error:
                    waited = loop.time() - start
                    if error.code not in TRANSIENT or waited >= timeout_ms / 1000:
                        raise
                    level = logging.INFO if waited < PATIENCE_SECONDS else logging.WARNING
                    if reminders.is_due((error.code, level)):
                        log.log(level, "the broker is not registered yet: %s", error.message)
                await asyncio.sleep(RETRY_SECONDS)
            start = loop.time()
            while not await self._is_unfenced(metadata_offset()):
                waited = loop.time() - start
                if waited >= PATIENCE_SECONDS and reminders.is_due("fenced"):
                    log.warning(
                        "the controller keeps this broker fenced, so that it serves no clients: it "
                        "must first read the metadata up to its registration, and has offset %d",
                        metadata_offset(),
                    )
                await asyncio.sleep(RETRY_SECONDS)
        except ApiError as error:
            raise JoinError(f"this broker cannot join the cluster: {_reason(error)}") from error

    async def leave(self, metadata_offset: Callable[[], int]) -> None:
        """Move the leaders of this broker's partitions to other brokers (controlled shutdown).

        The broker must go on to apply the metadata. No periodic heartbeat is sent any more.

        Raises:
            ApiError: the controller rejects the request.
        """
        self.stop_heartbeats()
        while True:
            response = await self._heartbeat(metadata_offset(), want_shut_down=True)
            if response.should_shut_down:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _is_unfenced(self, metadata_offset: int) -> bool:
        """Send a heartbeat; return whether the broker is unfenced after it."""
        try:
            return not (await self._heartbeat(metadata_offset)).is_fenced
        except ApiError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                raise
            log.warning("the controller has not answered a heartbeat: %s", error.message)
            return False

    async def unfence(self, metadata_offset: int) -> None:
        """Request to be unfenced. The broker has applied the metadata up to `metadata_offset`.

        Raises:
            ApiError: the controller rejects the request.
        """
        self._stays_fenced = False
        response = await self._heartbeat(metadata_offset)
        if response.is_fenced:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, "the controller has not unfenced this broker"
            )

    async def fence(self, metadata_offset: int) -> None:
        """Request to be fenced, now and with all heartbeats until `unfence`.

        Raises:
            ApiError: the controller rejects the request.
        """
        self._stays_fenced = True
        response = await self._heartbeat(metadata_offset)
        if not response.is_fenced:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, "the controller has not fenced this broker"
            )

    async def shut_down(self, metadata_offset: int) -> None:
        """Request to stop at once. The broker is fenced when this method returns.

        No heartbeat is sent after this one.

        Raises:
            ApiError: the controller rejects the request.
        """
        self.stop_heartbeats()
        response = await self._heartbeat(metadata_offset, want_fence=True, want_shut_down=True)
        if not response.is_fenced:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, "the controller has not fenced this broker"
            )

    async def _heartbeat(
        self, metadata_offset: int, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=metadata_offset,
            want_fence=want_fence or self._stays_fenced,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._offline_directories()),
        )
        response: BrokerHeartbeatResponse = await self._channel.submit(None, request)
        for directory_id in request.offline_log_dirs:
            timer = self._unreported.pop(directory_id, None)
            if timer is not None:
                timer.cancel()
        return response

    # -- failed log directories -------------------------------------------------------------------

    def report_failed_directory(
        self, directory_id: bytes, timeout_ms: int, on_unreported: Callable[[], None]
    ) -> None:
        """Send a heartbeat now, because a log directory has failed.

        `offline_directories` already returns the directory. Call `on_unreported` if no heartbeat
        with this directory succeeds within `timeout_ms`, unless the broker stops before.
        """

        def expired() -> None:
            del self._unreported[directory_id]
            log.error(
                "the controller was not told within %d ms that the log directory %s has failed",
                timeout_ms,
                to_text(directory_id),
            )
            on_unreported()

        if self._is_stopped:
            return
        loop = asyncio.get_running_loop()
        self._unreported[directory_id] = loop.call_later(timeout_ms / 1000, expired)
        self.send_soon()

    # -- periodic heartbeats ----------------------------------------------------------------------

    def start_heartbeats(self, interval_ms: int, metadata_offset: Callable[[], int]) -> None:
        """Send a heartbeat every `interval_ms` milliseconds.

        `metadata_offset` returns the offset up to which the broker has applied the metadata.
        """
        assert not self._is_stopped
        self._interval = interval_ms, metadata_offset
        self._timer = asyncio.get_running_loop().call_later(
            interval_ms / 1000, self._send, interval_ms, metadata_offset
        )

    def send_soon(self) -> None:
        """Send the next periodic heartbeat now."""
        if self._timer is not None and self._interval is not None:
            self._timer.cancel()
            self._send(*self._interval)

    def stop_heartbeats(self) -> None:
        """Send no more periodic heartbeats."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for timer in self._unreported.values():
            timer.cancel()
        self._unreported.clear()

    def _send(self, interval_ms: int, metadata_offset: Callable[[], int]) -> None:
        self.start_heartbeats(interval_ms, metadata_offset)
        if self._sending is None:  # else the last one waits for the controller
            self._sending = asyncio.get_running_loop().create_task(
                self._send_heartbeat(metadata_offset())
            )

    async def _send_heartbeat(self, metadata_offset: int) -> None:
        error: ErrorCode | None = None
        try:
            await self._heartbeat(metadata_offset)
        except ApiError as problem:
            error = problem.code
            if error is not self._last_error and not self._is_stopped:
                log.warning("the controller rejects the heartbeats: %s", problem.message)
        finally:
            self._last_error = error
            self._sending = None


def _reason(error: ApiError) -> str:
    if error.code is not ErrorCode.UNSUPPORTED_VERSION:
        return str(error.message)
    supported = ", ".join(f"{name} {most}" for name, (_, most) in SUPPORTED_FEATURES.items())
    return (
        "the cluster uses a feature level that this broker does not support. It supports at most "
        f"{supported}, and no other feature. `kafka-features.sh describe` shows the levels of the "
        "cluster, and `kafka-features.sh downgrade --feature share.version=0 --feature "
        "streams.version=0` lowers them"
    )
