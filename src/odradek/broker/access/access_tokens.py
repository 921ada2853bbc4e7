"""Validates the access tokens of OAUTHBEARER, with the newest keys of their issuers.

A token is validated on the event loop with the keys that are in memory. This takes about 0.1 ms.
The keys are fetched on a thread of the executor, at times that `odradek.core.sasl.key_refresh`
decides. The keys of a file are read again within a second after the file has changed. If keys
cannot be fetched, the old ones remain, and an error is logged. At the start of a node, a file must
have keys. If a URL has none yet, the node starts, and accepts no tokens until they are there.

Listeners with the same address share its keys.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.config.broker_config import BrokerConfig
from odradek.config.oauth import (
    KeyLocation,
    SignedTokenSettings,
    TokenSettings,
    UnsecuredTokenSettings,
)
from odradek.env.clock import Clock
from odradek.env.executor import Executor

# What validates tokens is imported when a listener needs it, because few nodes do.
if TYPE_CHECKING:
    from odradek.broker.access.issuer_keys import IssuerKeys
    from odradek.core.sasl.tokens import AccessToken

log = logging.getLogger("odradek.security")


class AccessTokens:
    """The validators of all listeners of a node. Use it only on the event loop's thread."""

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._sources: dict[KeyLocation, IssuerKeys] = {}
        self._warned: set[str] = set()
        """The listeners that accept tokens without signatures."""

    async def start(self, config: BrokerConfig) -> None:
        """Fetch the keys that the listeners need for the first time.

        Raises:
            ConfigurationError: a file has no keys.
        """
        self.use(config)
        for keys in list(self._sources.values()):
            await keys.start()

    def use(self, config: BrokerConfig) -> None:
        """Apply changed settings: fetch the keys that the listeners need, and no others."""
        for name, each in config.sasl_by_listener.items():
            if isinstance(each.tokens, UnsecuredTokenSettings) and name not in self._warned:
                self._warned.add(name)
                log.warning(
                    "listener %s accepts access tokens without signatures: everybody can be any "
                    "user",
                    name,
                )
        wanted = {
            each.tokens.keys
            for each in config.sasl_by_listener.values()
            if isinstance(each.tokens, SignedTokenSettings)
        }
        for location in self._sources.keys() - wanted:
            self._sources.pop(location).close()
        for location in wanted - self._sources.keys():
            from odradek.broker.access.issuer_keys import IssuerKeys

            self._sources[location] = IssuerKeys(location, self._executor, self._clock)

    def validate(self, settings: TokenSettings, token: str) -> AccessToken:
        """Validate a token of a listener. The time of the result is monotonic.

        Raises:
            InvalidToken: the token is not accepted.
        """
        now_ms = self._clock.now_ms()
        if isinstance(settings, UnsecuredTokenSettings):
            from odradek.core.sasl.unsecured_jwt import UnsecuredTokens

            accepted = UnsecuredTokens(settings).validate(token, now_ms)
        else:
            from odradek.core.sasl.jwt import SignedTokens

            accepted = SignedTokens(settings, self._source(settings.keys)).validate(token, now_ms)
        left_ms = accepted.expires_ms - now_ms
        return accepted._replace(expires_ms=self._clock.monotonic_ms() + left_ms)

    def _source(self, location: KeyLocation) -> IssuerKeys:
        """Return the keys from an address.

        Raises:
            InvalidToken: no listener needs them any more.
        """
        source = self._sources.get(location)
        if source is None:
            from odradek.core.sasl.tokens import InvalidToken

            raise InvalidToken("the settings of the listener have changed")
        return source

    def close(self) -> None:
        """Fetch no more keys."""
        for keys in self._sources.values():
            keys.close()
        self._sources.clear()
