"""A standalone worker: a process with connectors, their tasks, the REST API, and offsets in a file."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.config.checks import ConfigurationError
from odradek.config.properties import parse_properties
from odradek.connect.clients import Clients
from odradek.connect.herder import Herder
from odradek.connect.rest_api import Request, RestApi, error_bytes
from odradek.connect.stores import FileOffsetStore
from odradek.connect.variables import resolved
from odradek.core.connect.config_log import TargetState
from odradek.core.connect.errors import ConfigError, ConnectError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.plugins import Plugins
from odradek.core.connect.worker_config import WorkerConfig
from odradek.rest import Listener, Reply, Server
from odradek.rest import Request as HttpRequest

log = logging.getLogger(__name__)

_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}

_WITHOUT_EFFECT = (
    "admin.listeners",
    "plugin.discovery",
    "plugin.path",
    "rest.advertised.listener",
)
"""Settings of Java's worker that files have, and that mean nothing here."""


class StandaloneWorker:
    """See the module."""

    def __init__(self, given: Mapping[str, str], plugins: Plugins) -> None:
        """Read the settings, listen, and read the offsets.

        Raises:
            ConnectError: a setting is missing or invalid, or the file of offsets cannot be used.
            OSError: the address of the REST API cannot be used.
        """
        given = resolved(given)
        self._config = WorkerConfig.of(given, is_distributed=False)
        for name, near in self._config.unknown.items():
            hint = "" if near is None else f"; do you mean {near}?"
            log.warning("the setting %s is not known%s", name, hint)
        for name in _WITHOUT_EFFECT:
            if name in given:
                log.warning("the setting %s has no effect", name)
        clients = Clients(given)
        offsets = FileOffsetStore(Path(self._config.text("offset.storage.file.filename")))
        users = parse_users(self._config.text("rest.basic.auth.users"))
        self._server = Server(
            parse_listener(self._config.words("listeners")),
            self._handle,
            users=users,
            realm="Connect",
            unauthorized=error_bytes(401, "User cannot access the resource."),
        )
        host = self._config.parsed["rest.advertised.host.name"] or socket.gethostname()
        port = self._config.parsed["rest.advertised.port"] or self._server.port
        self._herder = Herder(self._config, plugins, clients, offsets, f"{host}:{port}")
        self._api = RestApi(self._herder, self._config, clients)

    @property
    def port(self) -> int:
        """The port of the REST API."""
        return self._server.port

    def start(self) -> None:
        """Start."""
        self._herder.start()
        self._server.start()
        log.info("the REST API listens at port %s", self.port)

    def create(self, name: str, config: Mapping[str, str | None], state: str | None) -> None:
        """Create a connector, and wait until it runs.

        Raises:
            ConnectError: its configuration is invalid, or it does not start.
        """
        initial = None if state is None else _STATES[state]
        self._herder.put_connector(name, config, initial, may_replace=True).result()

    def stop(self) -> None:
        """Stop the REST API, then all connectors and tasks."""
        self._server.stop()
        self._herder.stop()

    def _handle(self, request: HttpRequest) -> Reply:
        answer = self._api.answer(
            Request(
                request.method,
                request.path.rstrip("/"),
                request.query,
                request.body,
                request.headers.get("content-type", ""),
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


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings in a file of Java's properties.

    Raises:
        ConnectError: it cannot be read.
    """
    try:
        return parse_properties(path.read_bytes())
    except (OSError, ConfigurationError) as error:
        raise ConnectError(f"{path} cannot be read: {error}") from error


def read_connector(path: Path) -> tuple[str, dict[str, str | None], str | None]:
    """Return name, configuration and initial state of a connector in a file: properties or JSON.

    Raises:
        ConnectError: it cannot be read.
    """
    if path.suffix != ".json":
        config: dict[str, str | None] = dict(read_properties(path))
        return config.get("name") or "", config, None
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConnectError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConnectError(f"{path} has no JSON object")
    state = None
    if isinstance(found.get("config"), dict):
        state = found.get("initial_state")
        if state is not None and str(state).upper() not in _STATES:
            raise ConnectError(f"{path}: initial_state must be RUNNING, PAUSED or STOPPED")
        name = str(found.get("name") or "")
        config = {"name": name, **{k: _text(v) for k, v in found["config"].items()}}
    else:
        config = {k: _text(v) for k, v in found.items()}
        name = config.get("name") or ""
    return name, config, None if state is None else str(state).upper()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_bytes(value).decode()
