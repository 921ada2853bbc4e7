"""A worker: a process with a herder, what it runs, and the REST API."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping
from functools import partial

from odradek.connect.clients import Clients
from odradek.connect.herder import Herder
from odradek.connect.http_headers import HeaderFilter
from odradek.connect.listeners import (
    ADMIN,
    MAIN,
    advertised_scheme,
    listeners_of,
    parse_address,
)
from odradek.connect.rest_api import Request, RestApi, error_bytes
from odradek.connect.variables import resolved
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.worker_config import WorkerConfig
from odradek.rest import Reply, Server
from odradek.rest import Request as HttpRequest

log = logging.getLogger(__name__)

_WITHOUT_EFFECT = (
    "plugin.discovery",
    "plugin.path",
    "rest.extension.classes",
    "worker.unsync.backoff.ms",
)
"""Settings of Java's worker that files have, and that mean nothing here."""
_BETWEEN_WORKERS = r"POST /connectors/[^/]+/tasks/?|PUT /connectors/[^/]+/fence/?"
"""These requests are signed, unless `connect.protocol` is older than `sessioned`."""
_QUESTIONS = r"OPTIONS .*"
"""Browsers send these without a password."""
_ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - these are compared with, not listened at


class RunningWorker:
    """What standalone and distributed workers have in common."""

    def __init__(self, given: Mapping[str, str], plugins: Plugins, *, is_distributed: bool) -> None:
        """Read the settings, listen, and make the herder.

        Raises:
            ConnectError: a setting is missing or invalid.
            OSError: the address of the REST API cannot be used.
        """
        given = resolved(given)
        self.config = WorkerConfig.of(given, is_distributed=is_distributed)
        for name, near in self.config.unknown.items():
            hint = "" if near is None else f"; do you mean {near}?"
            log.warning("the setting %s is not known%s", name, hint)
        for name in _WITHOUT_EFFECT:
            if name in given:
                log.warning("the setting %s has no effect", name)
        self.clients = Clients(given)
        addresses = [parse_address(each) for each in self.config.words("listeners")]
        if not addresses:
            raise ConfigError(
                "Invalid value for listeners, at least one URL is expected, ex: "
                "http://localhost:8080,https://localhost:8443."
            )
        self.scheme = advertised_scheme(addresses, self.config.text("rest.advertised.listener"))
        admin = [parse_address(each) for each in self.config.words("admin.listeners")]
        users = parse_users(self.config.text("rest.basic.auth.users"))
        refusal = error_bytes(401, "User cannot access the resource.")
        free = f"{_BETWEEN_WORKERS}|{_QUESTIONS}" if is_distributed else _QUESTIONS
        finish = HeaderFilter(
            self.config.text("response.http.headers.config"),
            self.config.text("access.control.allow.origin"),
            self.config.text("access.control.allow.methods"),
        )
        self._server = Server(
            listeners_of(addresses, given, MAIN),
            self._handle,
            users=users,
            realm="Connect",
            unauthorized=refusal,
            free=re.compile(free),
            finish=finish,
        )
        self._addresses = addresses
        self.worker_id = self._own_address()
        try:
            self._admin = Server(
                listeners_of(admin, given, ADMIN),
                partial(self._handle, is_admin=True),
                users=users,
                realm="Connect",
                unauthorized=refusal,
            )
        except BaseException:
            self._server.stop()
            raise
        try:
            self.herder = self._make_herder(plugins)
        except BaseException:
            self._stop_servers()
            raise
        self._api = RestApi(self.herder, self.config, self.clients)

    def _own_address(self) -> str:
        """Return the host and port that other workers are told."""
        places = list(zip(self._addresses, self._server.ports, strict=True))
        listens, own_port = next(each for each in places if each[0].scheme == self.scheme)
        own = socket.gethostname() if listens.host in _ANY_ADDRESS else listens.host
        host = self.config.parsed["rest.advertised.host.name"] or own
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        return f"{host}:{self.config.parsed['rest.advertised.port'] or own_port}"

    def _make_herder(self, plugins: Plugins) -> Herder:
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port of the REST API."""
        return self._server.ports[0]

    @property
    def ports(self) -> list[int]:
        """The ports of `listeners`."""
        return self._server.ports

    @property
    def admin_ports(self) -> list[int]:
        """The ports of `admin.listeners`."""
        return self._admin.ports

    @property
    def local_url(self) -> str:
        """The REST API, from this machine."""
        return f"{self._addresses[0].scheme}://localhost:{self.port}"

    def start(self) -> None:
        """Start the herder and the REST API."""
        self.herder.start()
        self._server.start()
        self._admin.start()

    def stop(self) -> None:
        """Stop the REST API, then all connectors and tasks."""
        self._stop_servers()
        self.herder.stop()

    def _stop_servers(self) -> None:
        for each in (self._server, self._admin):
            each.stop()

    def _handle(self, request: HttpRequest, *, is_admin: bool = False) -> Reply:
        answer = self._api.answer(
            Request(
                request.method,
                request.path.rstrip("/"),
                request.query,
                request.body,
                request.headers,
                request.base,
                is_admin,
            )
        )
        body = answer.body if isinstance(answer.body, bytes) else b""
        if answer.body is not None and not body:
            body = json_bytes(answer.body)
        return Reply(answer.status, body, answer.headers)


def parse_users(text: str) -> dict[str, str]:
    """Return names and passwords of `NAME:PASSWORD,…`.

    Raises:
        ConfigError: it is something else.
    """
    found: dict[str, str] = {}
    for each in filter(None, text.split(",")):
        name, colon, password = each.strip().partition(":")
        if not colon or not name:
            raise ConfigError("rest.basic.auth.users must be NAME:PASSWORD,…")
        found[name] = password
    return found
