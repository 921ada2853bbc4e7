"""Asks a process of an application over HTTP."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.streams.queries.errors import QueryError


class HttpAnswer(NamedTuple):
    """A status, and the JSON of the body."""

    status: int
    body: Any


def ask(host: str, path: str, parameters: Mapping[str, str], timeout: float = 10.0) -> HttpAnswer:
    """Send a GET request to HOST:PORT and return the answer.

    Raises:
        QueryError: the process cannot be reached within `timeout` seconds, or does not answer in JSON.
    """
    query = urllib.parse.urlencode(parameters)
    url = f"http://{host}{urllib.parse.quote(path)}{'?' if query else ''}{query}"
    try:
        with _OPENER.open(url, timeout=timeout) as response:
            return HttpAnswer(response.status, json.loads(response.read()))
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(error.code, _json(error.read(), host))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise QueryError(f"{host} does not answer: {error}") from error


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Processes of an application are asked directly, not by a proxy."""


def _json(body: bytes, host: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise QueryError(f"{host} is no process of an application: {body[:80]!r}") from error
