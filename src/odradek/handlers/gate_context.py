"""What the gates of connections use of a broker or a controller."""

from __future__ import annotations

import asyncio
from typing import Protocol

from odradek.broker.access.access_tokens import AccessTokens
from odradek.broker.access.delegation_tokens import DelegationTokens
from odradek.broker.metadata.cache import MetadataCache
from odradek.config.broker_config import BrokerConfig
from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.env.randomness import RandomBytes


class GateContext(Protocol):
    """The parts of a `Broker` or of a controller that authenticate clients."""

    @property
    def config(self) -> BrokerConfig:
        """The newest configuration."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock for the lifetimes of sessions."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that serves the connections."""
        ...

    @property
    def executor(self) -> Executor:
        """Runs the steps of logins that read files."""
        ...

    @property
    def random_bytes(self) -> RandomBytes:
        """The source of nonces."""
        ...

    @property
    def metadata(self) -> MetadataCache:
        """The metadata with the credentials of SCRAM."""
        ...

    @property
    def tokens(self) -> DelegationTokens:
        """The delegation tokens with which clients log in."""
        ...

    @property
    def access_tokens(self) -> AccessTokens:
        """Validates the tokens of OAUTHBEARER."""
        ...
