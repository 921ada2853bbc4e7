"""What the gates of connections use of a broker or a controller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.metadata.cache import MetadataCache
from odradek.config.broker_config import BrokerConfig
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes


@dataclass(slots=True)
class GateContext:
    """The parts that authenticate clients."""

    config: BrokerConfig
    """The newest configuration."""
    clock: Clock
    """The clock for the lifetimes of sessions."""
    loop: asyncio.AbstractEventLoop
    """The event loop that serves the connections."""
    executor: Executor
    """Runs the steps of logins that read files."""
    random_bytes: RandomBytes
    """The source of nonces."""
    metadata: MetadataCache
    """The metadata with the credentials of SCRAM."""
    tokens: DelegationTokens
    """The delegation tokens with which clients log in."""
    access_tokens: AccessTokens
    """Validates the tokens of OAUTHBEARER."""

    def update_config(self, config: BrokerConfig) -> None:
        """Use changed dynamic settings, and the keys of issuers that they name."""
        self.config = config
        self.access_tokens.use(config)
