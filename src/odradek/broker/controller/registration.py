"""Registers this node's controller with the active controller (KIP-919, Kafka's
ControllerRegistrationManager).

A registration contains the addresses of the controller and the levels of features that its software
supports. Clients find controllers by it (`bootstrap.controllers`), and an upgrade of a feature
checks it. Each start of the node registers a new incarnation.

The registration is a publisher: it compares the committed metadata with this incarnation, and sends
a request if they differ. After an error the request is repeated. The pause doubles with each error.
Below metadata.version 15 there is no record for a registration, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from odradek.broker.controller.channel import ControllerChannel
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.metadata.registrations import Endpoint
from odradek.core.metadata.versions import LEVEL_CONTROLLER_REGISTRATION
from odradek.env.randomness import RandomBytes
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import make
from odradek.wire.generated.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

log = logging.getLogger("odradek.controller")

PAUSE_SECONDS = 0.1
"""Pause after the first error."""
PAUSE_SECONDS_MAX = 120.0


class ControllerRegistration:
    """Keeps this controller registered; a `Publisher`. Use it only on the event loop's thread."""

    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        endpoints: Iterable[Endpoint],
        supported_features: Mapping[str, tuple[int, int]],
        random_bytes: RandomBytes,
    ) -> None:
        """`endpoints` are the advertised addresses of the controller's listeners."""
        self._channel = channel
        self._node_id = node_id
        self.incarnation_id = make(random_bytes(16))
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            listeners=[Listener(**each._asdict()) for each in endpoints],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in supported_features.items()
            ],
        )
        self._is_needed = False
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False
        self._last_error: ErrorCode | None = None
        """An error is logged once, not with each repetition."""

    def load(self, image: MetadataImage) -> None:
        """See `Publisher`."""
        self._compare(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Publisher`."""
        self._compare(image)

    def _compare(self, image: MetadataImage) -> None:
        known = image.cluster.controllers.get(self._node_id)
        is_registered = known is not None and known.incarnation_id == self.incarnation_id
        is_possible = image.features.metadata_version >= LEVEL_CONTROLLER_REGISTRATION
        self._is_needed = is_possible and not is_registered
        if self._is_needed and self._sending is None and not self._is_closed:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        """Send the registration until it is in the committed metadata."""
        pause = PAUSE_SECONDS
        while self._is_needed and not self._is_closed:
            try:
                await self._channel.submit(None, self._request)
                self._last_error = None
                pause = PAUSE_SECONDS
            except ApiError as error:
                if error.code is not self._last_error and not self._is_closed:
                    log.warning("this controller is not registered yet: %s", error.message)
                self._last_error = error.code
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            if self._is_needed:
                await asyncio.sleep(pause)
        self._sending = None

    async def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait((self._sending,))
            self._sending = None
