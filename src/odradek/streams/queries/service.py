"""Answers queries over HTTP, and sends on those for keys that other processes have.

| request | answer |
|---|---|
| `GET /stores` | the stores, their kinds, and the partitions that are here |
| `GET /stores/NAME?key=K` | the value of a key, or 404 |
| `GET /stores/NAME?key=K&from=T&to=T` | the windows of a key that begin between two times |
| `GET /stores/NAME?first=K&last=K` | keys and values in a range, by default all, of all processes |
| `GET /hosts/NAME?key=K` | which process has a key |
| `GET /status` | the tasks of this process, and how far they are restored |

`partition=N` is for topics with another partitioner; with a key, `stale=true` also reads standby tasks. While tasks move,
a query waits, for about `timeout` seconds (5), and then the answer is 503 with what to do. `local=true`, which processes
send to one another, is never sent on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.core.streams_member import Endpoint
from odradek.core.streams.stores.definition import Kind
from odradek.rest import Listener, Reply, Request, Server
from odradek.streams.queries.client import HttpAnswer, ask
from odradek.streams.queries.errors import (
    NoSuchStoreError,
    QueryError,
    StoreMovesError,
    StoreNotHereError,
)
from odradek.streams.queries.json_forms import json_of, key_from
from odradek.streams.queries.local import (
    WAIT_SECONDS,
    Queries,
    entries_of,
    everything,
    one_value,
    windows_of,
)

_PAUSE_SECONDS = 0.05
_FORWARD_SECONDS = 10.0
_TIMEOUT_SECONDS_MAX = 60.0
_UNAVAILABLE = 503
_RETRY = (("Retry-After", "1"),)
_WINDOWED = (Kind.WINDOW, Kind.SESSION)

Parameters = Mapping[str, str]


class QueryService:
    """The HTTP server of a process. `start` begins, `stop` ends."""

    def __init__(
        self, queries: Queries, endpoint: Endpoint, status: Callable[[], dict[str, Any]]
    ) -> None:
        """Listen at `endpoint`. `status` returns the tasks of the process.

        Raises:
            OSError: the address is in use, or not one of this machine.
        """
        self._queries = queries
        self._endpoint = endpoint
        self._status = status
        self._server = Server([Listener(endpoint.host, endpoint.port)], self._handle)

    def start(self) -> None:
        """Answer requests."""
        self._server.start()

    def stop(self) -> None:
        """Let the requests end, and close."""
        self._server.stop()

    def _handle(self, request: Request) -> Reply:
        parameters = {name: values[-1] for name, values in request.query.items()}
        if request.method != "GET":
            return _reply(405, {"error": "only GET is possible"})
        try:
            return self._answer(request.path.strip("/").split("/"), parameters)
        except NoSuchStoreError as error:
            return _reply(404, {"error": str(error)})
        except (StoreMovesError, StoreNotHereError) as error:
            return _reply(_UNAVAILABLE, {"error": str(error)}, _RETRY)
        except QueryError as error:
            return _reply(400, {"error": str(error)})

    def _answer(self, parts: list[str], parameters: Parameters) -> Reply:
        match parts:
            case ["status"]:
                return _reply(200, self._status())
            case ["stores"]:
                return _reply(
                    200, {"stores": [self._described(each) for each in self._queries.names]}
                )
            case ["stores", name] if "key" in parameters:
                return self._key(name, parameters)
            case ["stores", name]:
                return self._entries(name, parameters)
            case ["hosts", name] if "key" in parameters:
                key = key_from(parameters["key"], self._queries.definition(name).key)
                found = self._queries.metadata(name, key, _number(parameters, "partition"))
                return _reply(200, found._asdict())
        return _reply(
            404, {"error": "there are /stores, /stores/NAME, /hosts/NAME?key=K and /status"}
        )

    def _described(self, name: str) -> dict[str, Any]:
        queries = self._queries
        return {
            "name": name,
            "kind": queries.definition(name).kind.value,
            "partitions": queries.partitions(name),
            "here": queries.held(name),
            "global": queries.is_global(name),
        }

    # -- one key --------------------------------------------------------------------------------

    def _key(self, name: str, parameters: Parameters) -> Reply:
        queries = self._queries
        definition = queries.definition(name)
        key = key_from(parameters["key"], definition.key)
        partition = _number(parameters, "partition")
        if partition is None:
            partition = queries.partition_of(name, key)
        first, last = _number(parameters, "from"), _number(parameters, "to")
        is_windowed = definition.kind in _WINDOWED

        def read(store: Any) -> Any:
            return windows_of(store, key, first, last) if is_windowed else one_value(store, key)

        def here(timeout: float) -> Reply:
            found = queries.read(
                name, partition, read, stale=_flag(parameters, "stale"), timeout=timeout
            )
            known = {"key": json_of(key), "partition": partition, "host": str(self._endpoint)}
            if is_windowed:
                windows = [
                    {"start": window.start, "end": window.end, "value": json_of(value)}
                    for window, value in found
                ]
                return _reply(200, {**known, "windows": windows})
            if found is None:
                return _reply(404, {**known, "error": f"store {name!r} has no such key"})
            value = {"value": json_of(found.value), "timestamp": found.timestamp}
            return _reply(200, {**known, **value})

        return self._here_or_there(name, partition, parameters, here)

    def _here_or_there(
        self, name: str, partition: int, parameters: Parameters, here: Callable[[float], Reply]
    ) -> Reply:
        """Answer here, or let the process answer that has the partition. Try again while it moves."""
        deadline = time.monotonic() + _timeout(parameters)
        if _flag(parameters, "local"):
            return here(0.0)
        while True:
            try:
                return here(0.0)
            except (StoreMovesError, StoreNotHereError) as error:
                problem: QueryError = error
            active, _ = self._queries.hosts_of(name, partition)
            if active is not None and active != self._endpoint:
                try:
                    answer = self._ask(active, f"/stores/{name}", parameters)
                except QueryError as error:
                    problem = StoreMovesError(f"{error}; try again when its tasks have moved")
                else:
                    if answer.status != _UNAVAILABLE:
                        return _reply(answer.status, answer.body)
                    problem = StoreMovesError(_error_of(answer))
            if time.monotonic() >= deadline:
                raise problem
            time.sleep(_PAUSE_SECONDS)

    def _ask(self, host: Endpoint, path: str, parameters: Parameters) -> HttpAnswer:
        return ask(str(host), path, {**parameters, "local": "true"}, _FORWARD_SECONDS)

    # -- many keys ------------------------------------------------------------------------------

    def _entries(self, name: str, parameters: Parameters) -> Reply:
        queries = self._queries
        definition = queries.definition(name)
        if _flag(parameters, "local") or queries.is_global(name):
            found = self._entries_here(name, parameters)
            return _reply(
                200,
                {
                    "entries": [each for rows in found.values() for each in rows],
                    "partitions": sorted(found),
                },
            )
        wanted = set(range(queries.partitions(name)))
        deadline = time.monotonic() + _timeout(parameters)
        while True:
            entries, missing = self._gathered(name, parameters, wanted)
            if not missing:
                return _reply(200, {"entries": entries})
            if time.monotonic() >= deadline:
                some = ", ".join(map(str, sorted(missing)))
                raise StoreMovesError(
                    f"no process has answered for partitions {some} of store {definition.name!r}: their "
                    "tasks move. Try again"
                )
            time.sleep(_PAUSE_SECONDS)

    def _gathered(
        self, name: str, parameters: Parameters, wanted: set[int]
    ) -> tuple[list[Any], set[int]]:
        """Return what all processes have, and the partitions that nobody has answered for."""
        found = self._entries_here(name, parameters)
        entries = [each for rows in found.values() for each in rows]
        missing = wanted - found.keys()
        hosts = {self._queries.hosts_of(name, each)[0] for each in missing}
        for host in hosts - {None, self._endpoint}:
            assert host is not None
            try:
                answer = self._ask(host, f"/stores/{name}", parameters)
            except QueryError:
                continue  # its partitions stay missing
            theirs = set(answer.body.get("partitions", ())) if answer.status == 200 else set()
            if theirs and theirs <= missing:
                entries += answer.body["entries"]
                missing -= theirs
        return entries, missing

    def _entries_here(self, name: str, parameters: Parameters) -> dict[int, list[Any]]:
        queries = self._queries
        definition = queries.definition(name)
        first, last = (
            key_from(parameters[each], definition.key) if each in parameters else None
            for each in ("first", "last")
        )

        if definition.kind in _WINDOWED and (first is not None or last is not None):
            raise QueryError(f"store {name!r} has windows, which have no range: ask with a key")

        def read(store: Any) -> list[tuple[Any, Any]]:
            if definition.kind in _WINDOWED:
                return everything(store)
            return entries_of(store, first, last)

        found: dict[int, list[Any]] = {}
        for partition in queries.held(name):
            try:
                rows = queries.read(name, partition, read, timeout=0.0)
            except (StoreMovesError, StoreNotHereError):
                continue  # its task has just left: the partition is missing, as if it had not been here
            found[partition] = [
                {"key": json_of(key), "value": json_of(value)} for key, value in rows
            ]
        return found


def _reply(status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status, json.dumps(body, ensure_ascii=False).encode(), headers)


def _error_of(answer: HttpAnswer) -> str:
    body = answer.body
    return str(body.get("error", body)) if isinstance(body, dict) else str(body)


def _flag(parameters: Parameters, name: str) -> bool:
    return parameters.get(name, "false").lower() == "true"


def _number(parameters: Parameters, name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise QueryError(f"{name} is {text!r}; it must be a whole number") from error


def _timeout(parameters: Parameters) -> float:
    text = parameters.get("timeout", str(WAIT_SECONDS))
    try:
        timeout = float(text)
    except ValueError as error:
        raise QueryError(f"timeout is {text!r}; it must be a number of seconds") from error
    if not 0 <= timeout <= _TIMEOUT_SECONDS_MAX:
        raise QueryError(f"timeout is {text!r}; it must be between 0 and {_TIMEOUT_SECONDS_MAX:g}")
    return timeout
