"""A worker: a process with a herder, what it runs, and the REST API."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping

from odradek.connect.clients import Clients
from odradek.connect.herder import Herder
from odradek.connect.rest_api import Request, RestApi, error_bytes
from odradek.connect.variables import resolved
from odradek.core.connect.errors import ConfigError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.worker_config import WorkerConfig
from odradek.rest import Listener, Reply, Server
from odradek.rest import Request as HttpRequest

log = logging.getLogger(__name__)

_WITHOUT_EFFECT = (
    "admin.listeners",
    "plugin.discovery",
    "plugin.path",
    "rest.advertised.listener",
    "worker.unsync.backoff.ms",
)
"""Settings of Java's worker that files have, and that mean nothing here."""
_BETWEEN_WORKERS = re.compile(r"POST /connectors/[^/]+/tasks/?|PUT /connectors/[^/]+/fence/?")
"""What needs no password: these requests are signed, unless `connect.protocol` is older than `sessioned`."""
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
        listener = parse_listener(self.config.words("listeners"))
        self._server = Server(
            listener,
            self._handle,
            users=parse_users(self.config.text("rest.basic.auth.users")),
            realm="Connect",
            unauthorized=error_bytes(401, "User cannot access the resource."),
            free=_BETWEEN_WORKERS if is_distributed else None,
        )
        own = socket.gethostname() if listener.host in _ANY_ADDRESS else listener.host
        host = self.config.parsed["rest.advertised.host.name"] or own
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        port = self.config.parsed["rest.advertised.port"] or self._server.port
        self.worker_id = f"{host}:{port}"
        try:
            self.herder = self._make_herder(plugins)
        except BaseException:
            self._server.stop()
            raise
        self._api = RestApi(self.herder, self.config, self.clients)

    def _make_herder(self, plugins: Plugins) -> Herder:
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port of the REST API."""
        return self._server.port

    def start(self) -> None:
        """Start the herder and the REST API."""
        self.herder.start()
        self._server.start()

    def stop(self) -> None:
        """Stop the REST API, then all connectors and tasks."""
        self._server.stop()
        self.herder.stop()

    def _handle(self, request: HttpRequest) -> Reply:
        answer = self._api.answer(
            Request(
                request.method,
                request.path.rstrip("/"),
                request.query,
                request.body,
                request.headers,
                request.base,
            )
        )
        body = answer.body if isinstance(answer.body, bytes) else b""
        if answer.body is not None and not body:
            body = json_bytes(answer.body)
        return Reply(answer.status, body, answer.headers)


def parse_listener(listeners: list[str]) -> Listener:
    """Return where the REST API listens: the first of `listeners`.

    Raises:
        ConfigError: it is malformed, or HTTPS.
    """
    if len(listeners) != 1:
        raise ConfigError("listeners must have one address, such as http://localhost:8083")
    scheme, _, address = listeners[0].partition("://")
    host, _, port = address.rpartition(":")
    if scheme.lower() != "http" or not port.isdecimal():
        raise ConfigError.of(
            "listeners", listeners[0], "write http://HOST:PORT; HTTPS is not supported yet"
        )
    return Listener(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104 - Kafka's default


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
