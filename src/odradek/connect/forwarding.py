"""Requests from one worker to another."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from odradek.connect.listeners import client_context
from odradek.core.connect.config_log import SessionKey
from odradek.core.connect.errors import ConfigError, RestError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.signature import signed

TIMEOUT_SECONDS = 90.0
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """What another worker has answered."""

    status: int
    body: bytes


class Forwarder:
    """Sends requests of one worker. The files for HTTPS are read for each of them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """`given` are the settings of the worker."""
        self._given = given

    def send(
        self,
        url: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, Sequence[str]] | None = None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request to the worker at `url`. `path` is encoded as in a request.

        Raises:
            RestError: the worker does not answer (500).
        """
        address = urlsplit(url)
        target = address.path.rstrip("/") + path
        if query:
            target += "?" + urlencode(query, doseq=True)
        wanted = {"Accept": _JSON, "User-Agent": "kafka-connect", **(headers or {})}
        if body:
            wanted["Content-Type"] = _JSON
        connection = self._connection(address.scheme, address.hostname or "", address.port)
        try:
            connection.request(method, target, body or None, wanted)
            answer = connection.getresponse()
            return Response(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise RestError(500, f"IO Error trying to forward REST request: {error}") from error
        finally:
            connection.close()

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        try:
            context = client_context(self._given)
        except ConfigError as error:
            raise RestError(500, f"Failed to start RestClient: {error}") from error
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)

    def send_signed(
        self, url: str, method: str, path: str, given: Any, key: SessionKey | None, algorithm: str
    ) -> None:
        """Send a request between workers. `given` is sent as JSON; None is no body.

        Raises:
            RestError: the other worker refuses, or does not answer.
        """
        body = b"" if given is None else json_bytes(given)
        headers = {} if key is None else signed(body, key, algorithm)
        answer = self.send(url, method, path, body=body, headers=headers)
        if answer.status >= 400:
            raise RestError(answer.status, _message(answer.body))


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


def connector_path(name: str, *parts: str) -> str:
    """Return the path of something of a connector."""
    return "/".join(["/connectors", quote(name, safe=""), *parts])
