"""The keys of an issuer of access tokens, from one address (see `odradek.broker.access.access_tokens`)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from odradek.config.checks import ConfigurationError
from odradek.config.oauth import JWKS_URL, KeyLocation, Trust
from odradek.core.sasl.jwks import KeySet, MalformedKeys, parse_keys
from odradek.core.sasl.key_refresh import KeyRefresh
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.env.http import FetchError, Limits, Request, fetch, path_of, read_limited
from odradek.env.tls_files import ClientTls

log = logging.getLogger("odradek.security")

FILE_REFRESH_MS = 1000
LIMITS = Limits()
OK = 200


class IssuerKeys:
    """The keys from one address, which are fetched again and again."""

    def __init__(self, location: KeyLocation, executor: Executor, clock: Clock) -> None:
        self.keys = KeySet()
        self._url = location.url
        self._path = path_of(location.url)
        self._executor = executor
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._request = Request(location.url, tls=client_tls(location.trust), limits=LIMITS)
        self._problem = ""
        """The last logged problem; empty after a success."""
        self._read = b""
        """The last document, which need not be parsed again."""
        self._refresh = KeyRefresh(
            location.refresh_ms if self._path is None else FILE_REFRESH_MS,
            location.retry_backoff_ms if self._path is None else FILE_REFRESH_MS,
            location.retry_backoff_max_ms if self._path is None else FILE_REFRESH_MS,
            clock.monotonic_ms(),
        )
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._set_timer()

    async def start(self) -> None:
        """Wait for the first fetch.

        Raises:
            ConfigurationError: the keys are in a file, and it cannot be used.
        """
        self._begin()
        assert self._task is not None
        await self._task
        if self._problem and self._path is not None:
            raise ConfigurationError.of(JWKS_URL, self._url, self._problem)

    def miss(self, key_id: str) -> None:
        """Fetch the keys soon, if a token whose key is missing is a reason to do so."""
        if self._path is None and self._refresh.miss(key_id, self._clock.monotonic_ms()):
            self._set_timer()

    def close(self) -> None:
        """Fetch no more keys."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_ms = self._refresh.next_ms
        if next_ms is not None and not self._is_closed:
            delay_ms = max(0, next_ms - self._clock.monotonic_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._begin)

    def _begin(self) -> None:
        if self._refresh.next_ms is None or self._is_closed:
            return
        self._refresh.begin(self._clock.monotonic_ms())
        self._set_timer()
        self._task = self._loop.create_task(self._fetch())

    async def _fetch(self) -> None:
        function = partial(_document_and_keys, self._request, self._path, self._read)
        try:
            self._read, keys = await call(self._executor, function, Pool.HTTP)
        except (FetchError, MalformedKeys) as error:
            self._refresh.fail(self._clock.monotonic_ms())
            self._report(str(error))
        else:
            if keys is not None:
                self.keys = keys
                log.info("%d keys for tokens from %s", len(keys), self._url)
            self._problem = ""
            self._refresh.succeed(self._clock.monotonic_ms(), self.keys.ids)
        self._set_timer()

    def _report(self, problem: str) -> None:
        """Log a problem once, because each attempt may have the same one."""
        if problem != self._problem:
            self._problem = problem
            log.error("the keys of %s are not read: %s", self._url, problem)


def client_tls(trust: Trust) -> ClientTls:
    """Return what a node trusts when it fetches over HTTPS."""
    return ClientTls(
        trust_file=trust.file or None,
        trust_type=trust.type,
        trust_password=trust.password.value,
    )


def _document_and_keys(
    request: Request, path: str | None, read: bytes
) -> tuple[bytes, KeySet | None]:
    """Return the document, and its keys if it differs from the one that was read before.

    Raises:
        FetchError, MalformedKeys: there are no keys.
    """
    if path is not None:
        document = read_limited(path, request.limits.bytes_max)
    else:
        response = fetch(request)
        if response.status != OK:
            raise FetchError(f"the status of HTTP is {response.status}")
        document = response.body
    return document, None if document == read and read else parse_keys(document)
