"""Creates the controller of a node, and serves its listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.authorizer import Authorizer
from odradek.broker.clients.quotas import QuotaManagers, charge_on_controller
from odradek.broker.controller.controller import Controller
from odradek.broker.controller.member_channel import MemberControllerChannel
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.controller.registration import ControllerRegistration
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.raft.quorum_requests import QuorumRequests
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.broker_config import BrokerConfig
from odradek.core.metadata.registrations import Endpoint as AdvertisedEndpoint
from odradek.core.metadata.versions import SUPPORTED_FEATURES
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.network import Network
from odradek.env.randomness import RandomBytes
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.gate_context import GateContext
from odradek.network.listeners import Endpoint
from odradek.node.channels import controller_channel
from odradek.node.format import Identity
from odradek.node.listeners import Service
from odradek.node.metadata import NodeMetadata
from odradek.node.metrics.elections import Elections
from odradek.node.serving import controller_table, controller_versions


class ControllerRole:
    """The controller and its listeners. Use it only on the event loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        identity: Identity,
        clock: Clock,
        executor: Executor,
        random_bytes: RandomBytes,
        metadata: NodeMetadata,
        network: Network,
        endpoints: Sequence[AdvertisedEndpoint],
        access_tokens: AccessTokens,
        authorizer: Authorizer | None,
        quotas: QuotaManagers,
    ) -> None:
        """Create the controller and register it with `metadata`, which must not be started yet."""
        self._config = config
        self._clock = clock
        loop, cache, tokens = asyncio.get_running_loop(), metadata.cache, metadata.tokens
        self._gate_context = GateContext(
            config, clock, loop, executor, random_bytes, cache, tokens, access_tokens
        )
        self.service: Service | None = None
        self.elections = Elections()
        self.controller = QuorumController(
            config=config,
            cluster_id=identity.cluster_id,
            raft=metadata.raft,
            loader=metadata.loader,
            bootstrap=identity.bootstrap,
            clock=clock,
            random_bytes=random_bytes,
            supported_features=SUPPORTED_FEATURES,
            authorizer=authorizer,
            quotas=quotas,
        )
        self._quotas = quotas
        metadata.raft.register(self.controller)
        self._parts = Controller(
            decisions=self.controller,
            quorum=QuorumRequests(metadata.raft, identity.cluster_id),
            metadata=metadata.cache,
            tokens=metadata.tokens,
            dynamic=DynamicConfig(config),
            versions=metadata.supported_versions(controller_versions()),
            authorizer=authorizer,
        )
        self._channel: MemberControllerChannel | None = None
        self._registration: ControllerRegistration | None = None
        if not config.is_alone:
            self._channel = controller_channel(
                config, metadata.raft, network, random_bytes, self.controller
            )
            self._registration = ControllerRegistration(
                self._channel,
                node_id=config.node_id,
                endpoints=endpoints,
                supported_features=SUPPORTED_FEATURES,
                random_bytes=random_bytes,
            )

    def serve(self, endpoints: Sequence[Endpoint]) -> None:
        """Accept connections on the controller's listeners, if there are any.

        Raises:
            ListenError: another process listens on one of the addresses.
        """
        if endpoints:
            dispatcher = Dispatcher(
                controller_table(self._parts), self._clock, executor=self._gate_context.executor
            )
            self._quotas.listen(
                lambda quotas: dispatcher.use_charge(
                    None if quotas is None else charge_on_controller
                )
            )
            self.service = Service(self._config, dispatcher, endpoints, self._gate_context)
            self._quotas.limit_connections(self.service.rates)
            self.service.start()

    def register(self, loader: MetadataLoader) -> None:
        """Register the controller with the active controller, if other nodes can reach it.

        The metadata must be loaded. Count elections from now on.
        """
        loader.install(self.elections)
        if self._registration is not None:
            loader.install(self._registration)

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed dynamic settings."""
        if self.service is not None:
            self.service.update_config(config)

    async def drain(self) -> None:
        """Stop accepting connections, and wait until the responses to open requests are sent."""
        if self._registration is not None and self._channel is not None:
            await self._registration.close()
            self._channel.close()
        if self.service is not None:
            await self.service.drain()
