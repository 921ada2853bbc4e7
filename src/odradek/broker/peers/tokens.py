"""The access tokens with which a node connects to other nodes.

A token is fetched on a thread of the executor, and kept until it is due
(`odradek.core.sasl.login`). Connections that need a token at the same time wait for the same fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from odradek.config.oauth_login import LoginSettings, UnsecuredLogin
from odradek.core.sasl.client import Credential
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.env.randomness import RandomBytes

# What gets tokens is imported when it is needed, because few nodes do.
if TYPE_CHECKING:
    from odradek.core.sasl.login import HeldToken

ResultT = TypeVar("ResultT")

_CHANCE_BYTES = 2
_CHANCES = 256**_CHANCE_BYTES


class NoToken(Exception):
    """There is no access token. The message has no secrets."""


class PeerTokens:
    """The newest token of each login. Use it only on the event loop's thread."""

    def __init__(self, executor: Executor, clock: Clock, random_bytes: RandomBytes) -> None:
        self._executor = executor
        self._clock = clock
        self._random_bytes = random_bytes
        self._held: dict[LoginSettings, HeldToken] = {}
        self._fetches: dict[LoginSettings, asyncio.Task[HeldToken]] = {}
        """The fetches that are running."""

    async def credential(self, settings: LoginSettings) -> Credential:
        """Return a token that has not expired.

        Raises:
            NoToken: there is none.
        """
        held = self._held.get(settings)
        if held is not None and self._clock.now_ms() < held.replace_ms:
            return held.credential
        fetch = self._fetches.get(settings)
        if fetch is None:
            fetch = asyncio.get_running_loop().create_task(self._fetch(settings))
            self._fetches[settings] = fetch
            fetch.add_done_callback(partial(self._forget, settings))
        try:
            # The caller may be cancelled, when it has waited too long; the others go on waiting.
            return (await asyncio.shield(fetch)).credential
        except NoToken:
            if held is None or held.expires_ms <= self._clock.now_ms():
                raise
            return held.credential  # the next connection tries again

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run work that waits for a server of credentials on a thread; return its result."""
        return await call(self._executor, work, Pool.HTTP)

    def _forget(self, settings: LoginSettings, fetch: asyncio.Task[HeldToken]) -> None:
        del self._fetches[settings]
        if not fetch.cancelled():
            fetch.exception()  # the callers may have been cancelled

    async def _fetch(self, settings: LoginSettings) -> HeldToken:
        from odradek.core.sasl.login import LoginFailed, held_token
        from odradek.env.http import FetchError

        chance = int.from_bytes(self._random_bytes(_CHANCE_BYTES), "big") / _CHANCES
        try:
            text = await self._new_token(settings)
            held = held_token(settings, text, self._clock.now_ms(), chance)
        except (FetchError, LoginFailed) as error:
            raise NoToken(str(error)) from error
        self._keep(settings, held)
        return held

    def _keep(self, settings: LoginSettings, held: HeldToken) -> None:
        """Keep a token. Those of former settings are removed when they have expired."""
        now_ms = self._clock.now_ms()
        live = {each: token for each, token in self._held.items() if token.expires_ms > now_ms}
        self._held = {**live, settings: held}

    async def _new_token(self, settings: LoginSettings) -> str:
        from odradek.core.sasl.login import token_in, unsecured_token
        from odradek.env.access_token import read_token, request_token

        source = settings.source
        if isinstance(source, UnsecuredLogin):
            return unsecured_token(source, self._clock.now_ms())
        in_file = await call(self._executor, partial(read_token, source.url), Pool.HTTP)
        if in_file is not None:
            return in_file
        response = await call(self._executor, partial(request_token, source), Pool.HTTP)
        return token_in(response.status, response.body)
