"""Kafka Connect's REST API: from a request to an answer, without HTTP.

Paths, bodies, codes and texts are those of Apache Kafka's worker.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

import odradek
from odradek.client.admin.cluster import describe_cluster
from odradek.client.errors import ClientError
from odradek.connect import forwarding
from odradek.connect.clients import Clients
from odradek.connect.distributed_herder import DistributedHerder
from odradek.connect.herder import Herder
from odradek.connect.loggers import is_level
from odradek.connect.metrics import metrics_text
from odradek.core.connect import answers
from odradek.core.connect.config_log import (
    INITIAL_STATES,
    RestartRequest,
    TargetState,
    TaskId,
)
from odradek.core.connect.errors import ConnectError, RestError, bad_request, not_found
from odradek.core.connect.herder_messages import Redirect
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.plugins import Plugin, PluginKind
from odradek.core.connect.validation import plugin_config
from odradek.core.connect.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_FORWARDED = (
    "authorization",
    "x-connect-authorization",
    "x-connect-request-signature-algorithm",
)
"""The headers that go along with a forwarded request."""
REQUEST_SECONDS, HEALTH_SECONDS = 90.0, 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `query` has the values of each parameter, `base` is the address of the server.

    Names of headers are in lower case.
    """

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    is_admin: bool = False
    """Whether it came to a listener of `admin.listeners`."""

    def flag(self, name: str, default: bool) -> bool:
        """Return a parameter that is true or false."""
        found = self.query.get(name)
        return default if not found else found[0].lower() == "true"

    @property
    def content_type(self) -> str:
        """The type of the body."""
        return self.headers.get("content-type", "")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. A body of None is empty, a body of bytes is sent as it is."""

    status: int = 200
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[..., Answer]


class RestApi:
    """See the module."""

    def __init__(self, herder: Herder, config: WorkerConfig, clients: Clients) -> None:
        self._herder = herder
        self._config = config
        self._clients = clients
        self._loggers = herder.loggers
        self._cluster_id: str | None = None
        self._forwarder = forwarding.Forwarder(config.given)
        self._admin_routes = _compiled(self._listed_loggers())
        self._routes = _compiled(self._listed())
        if config.parsed["admin.listeners"] is None:
            self._routes += self._admin_routes

    def _listed(self) -> Iterable[tuple[str, dict[str, Handler]]]:
        """Return what there is: a pattern of paths, and the methods."""
        herder = self._herder
        name = r"/connectors/(?P<name>[^/]+)"
        tasks: dict[str, Handler] = {"GET": self._tasks}
        fence: list[tuple[str, dict[str, Handler]]] = []
        if isinstance(herder, DistributedHerder):
            tasks["POST"] = partial(self._put_tasks, herder)
            fence = [(name + "/fence", {"PUT": partial(self._fence, herder)})]
        return (
            ("", {"GET": self._root}),
            ("/health", {"GET": self._health}),
            ("/metrics", {"GET": self._metrics}),
            ("/connectors", {"GET": self._list, "POST": self._create}),
            (name, {"GET": self._get, "DELETE": self._delete}),
            (
                name + "/config",
                {"GET": self._get_config, "PUT": self._put_config, "PATCH": self._patch_config},
            ),
            (name + "/status", {"GET": self._status}),
            (name + "/pause", {"PUT": self._pause}),
            (name + "/resume", {"PUT": self._resume}),
            (name + "/stop", {"PUT": self._stop}),
            (name + "/restart", {"POST": self._restart}),
            (name + "/tasks", tasks),
            *fence,
            (name + r"/tasks/(?P<task>[^/]+)/status", {"GET": self._task_status}),
            (name + r"/tasks/(?P<task>[^/]+)/restart", {"POST": self._restart_task}),
            (name + "/topics", {"GET": self._topics}),
            (name + "/topics/reset", {"PUT": self._reset_topics}),
            (
                name + "/offsets",
                {
                    "GET": self._get_offsets,
                    "PATCH": self._patch_offsets,
                    "DELETE": self._reset_offsets,
                },
            ),
            ("/connector-plugins", {"GET": self._plugins}),
            (r"/connector-plugins/(?P<plugin>[^/]+)/config", {"GET": self._plugin_config}),
            (
                r"/connector-plugins/(?P<plugin>[^/]+)/config/validate",
                {"PUT": self._validate},
            ),
        )

    def _listed_loggers(self) -> Iterable[tuple[str, dict[str, Handler]]]:
        return (
            ("/admin/loggers", {"GET": self._list_loggers}),
            (
                r"/admin/loggers/(?P<logger>[^/]+)",
                {"GET": self._get_logger, "PUT": self._set_logger},
            ),
        )

    def answer(self, request: Request) -> Answer:
        """Answer a request. Errors are answers, too."""
        try:
            return self._answer(request)
        except Redirect as error:
            return self._forward(request, error)
        except RestError as error:
            return _error(error.status, error.message)
        except ConnectError as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            return _error(500, str(error))
        except TimeoutError:
            return _error(500, self._timed_out())
        except Exception as error:
            log.exception("%s %s has failed", request.method, request.path)
            return _error(500, str(error))

    def _answer(self, request: Request) -> Answer:
        for pattern, methods in self._admin_routes if request.is_admin else self._routes:
            match = pattern.fullmatch(request.path)
            if match is None:
                continue
            if request.method == "OPTIONS":
                return _allowed(methods)
            handler = methods.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                raise RestError(405, "HTTP 405 Method Not Allowed")
            has_body = request.method in ("POST", "PUT", "PATCH") and bool(request.body)
            if has_body and request.content_type.partition(";")[0].strip() != "application/json":
                raise RestError(415, "HTTP 415 Unsupported Media Type")
            return handler(request, **match.groupdict())
        raise not_found("HTTP 404 Not Found")

    def _forward(self, request: Request, redirect: Redirect) -> Answer:
        """Let another worker answer. Each request goes through two hops at most."""
        hops = request.query.get("forward")
        if hops is not None and hops[0].lower() != "true":
            return _error(
                409,
                "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
            )
        if redirect.url is None:
            return _error(
                409,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                "was underway.",
            )
        query = {**request.query, "forward": ["true" if hops is None else "false"]}
        headers = {n: v for n, v in request.headers.items() if n in _FORWARDED}
        try:
            found = self._forwarder.send(
                redirect.url,
                request.method,
                quote(request.path),
                query=query,
                body=request.body,
                headers=headers,
            )
        except RestError as error:
            return _error(error.status, error.message)
        location: tuple[tuple[str, str], ...] = ()
        if found.status == 201:
            name = request.path.removeprefix("/connectors").strip("/").split("/")[0]
            name = name or str(json.loads(found.body)["name"])
            location = (("Location", f"{request.base}/connectors/{name}"),)
        return Answer(found.status, found.body or None, location)

    def _timed_out(self) -> str:
        what, since = self._herder.stage
        moment = datetime.datetime.fromtimestamp(since, datetime.UTC)
        shown = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"Request timed out. The worker is currently {what}, which began at {shown}"

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the herder, and wait for its answer."""
        return self._herder.submit(function, *arguments).result(REQUEST_SECONDS)

    # -- the worker -----------------------------------------------------------------------------

    def _root(self, _: Request) -> Answer:
        if self._cluster_id is None:
            try:
                with self._clients.cluster("connect-cluster-id") as cluster:
                    self._cluster_id = describe_cluster(cluster).cluster_id
            except ClientError as error:
                raise RestError(500, f"the cluster does not respond: {error}") from error
        version = odradek.__version__
        return Answer(
            body={
                "version": version,
                "commit": "odradek",
                "kafka_cluster_id": self._cluster_id,
            }
        )

    def _health(self, _: Request) -> Answer:
        if not self._herder.is_ready:
            body = {"status": "starting", "message": "Worker is still starting up."}
            return Answer(503, body)
        try:
            self._herder.submit(bool).result(HEALTH_SECONDS)
        except TimeoutError:
            message = (
                "Worker was unable to handle this request and may be unable to handle other requests. "
                + self._timed_out().removeprefix("Request timed out. ")
            )
            return Answer(500, {"status": "unhealthy", "message": message})
        message = "Worker has completed startup and is ready to handle requests."
        return Answer(body={"status": "healthy", "message": message})

    def _metrics(self, _: Request) -> Answer:
        kind = ("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        return Answer(body=metrics_text(self._herder), headers=(kind,))

    # -- connectors -----------------------------------------------------------------------------

    def _list(self, request: Request) -> Answer:
        names = self._herder.connectors()
        if "expand" not in request.query:
            return Answer(body=names)
        found: dict[str, Any] = {}
        for name in names:
            shown: dict[str, Any] = {}
            try:
                for what in request.query["expand"]:
                    if what == "status":
                        shown["status"] = self._herder.status(name)
                    elif what == "info":
                        shown["info"] = self._herder.info(name)
            except RestError:
                continue
            found[name] = shown
        return Answer(body=found)

    def _create(self, request: Request) -> Answer:
        body = _object(request)
        for each in body:
            if each not in ("name", "config", "initial_state"):
                raise RestError(500, f'Unrecognized field "{each}"')
        name = str(body.get("name") or "").strip()
        config = _config(body.get("config"))
        state = body.get("initial_state")
        if state is not None and str(state).upper() not in INITIAL_STATES:
            raise RestError(500, f"No enum constant for initial_state: {state}")
        initial = None if state is None else INITIAL_STATES[str(state).upper()]
        config = _named(name, config)
        _, info = self._put(name, config, initial, may_replace=False)
        return Answer(201, info, (("Location", f"{request.base}/connectors/{name}"),))

    def _put(
        self, name: str, config: Any, state: TargetState | None, *, may_replace: bool
    ) -> tuple[bool, Any]:
        future: Future[tuple[bool, Any]] = self._herder.put_connector(
            name, config, state, may_replace=may_replace
        )
        return future.result(REQUEST_SECONDS)

    def _get(self, _: Request, name: str) -> Answer:
        return Answer(body=self._info(name))

    def _info(self, name: str) -> Any:
        return self._ask(self._herder.settled, self._herder.info, name)

    def _get_config(self, _: Request, name: str) -> Answer:
        return Answer(body=self._info(name)["config"])

    def _put_config(self, request: Request, name: str) -> Answer:
        config = _named(name, _config(_object(request)))
        is_new, info = self._put(name, config, None, may_replace=True)
        if is_new:
            return Answer(201, info, (("Location", f"{request.base}/connectors/{name}"),))
        return Answer(body=info)

    def _patch_config(self, request: Request, name: str) -> Answer:
        patch = _config(_object(request))
        return Answer(body=self._ask(self._herder.patch_connector, name, patch)[1])

    def _delete(self, _: Request, name: str) -> Answer:
        self._ask(self._herder.delete_connector, name)
        return Answer(204)

    def _status(self, _: Request, name: str) -> Answer:
        return Answer(body=self._herder.status(name))

    def _pause(self, _: Request, name: str) -> Answer:
        self._ask(self._herder.set_state, name, TargetState.PAUSED)
        return Answer(202)

    def _resume(self, _: Request, name: str) -> Answer:
        self._ask(self._herder.set_state, name, TargetState.STARTED)
        return Answer(202)

    def _stop(self, _: Request, name: str) -> Answer:
        self._ask(self._herder.set_state, name, TargetState.STOPPED)
        return Answer(204)

    def _restart(self, request: Request, name: str) -> Answer:
        wanted = RestartRequest(
            name,
            request.flag("onlyFailed", default=False),
            request.flag("includeTasks", default=False),
        )
        if wanted.is_plain:
            self._ask(self._herder.restart_connector, name)
            return Answer(204)
        return Answer(202, self._ask(self._herder.restart, wanted))

    # -- tasks and topics -----------------------------------------------------------------------

    def _tasks(self, _: Request, name: str) -> Answer:
        found = self._ask(self._herder.settled, answers.task_infos, self._herder.log, name)
        return Answer(body=found)

    def _put_tasks(self, herder: DistributedHerder, request: Request, name: str) -> Answer:
        try:
            configs = json.loads(request.body)
        except ValueError as error:
            raise RestError(500, f"the body is not JSON: {error}") from None
        if not isinstance(configs, list):
            raise RestError(500, "the body must be a JSON array")
        given = [_config(each) for each in configs]
        herder.put_tasks(name, given, request.headers, request.body).result(REQUEST_SECONDS)
        return Answer(204)

    def _fence(self, herder: DistributedHerder, request: Request, name: str) -> Answer:
        herder.fence(name, request.headers, request.body).result(REQUEST_SECONDS)
        return Answer(204)

    def _task_status(self, _: Request, name: str, task: str) -> Answer:
        found = answers.task_status(self._herder.statuses.log, _task_id(name, task))
        return Answer(body=found)

    def _restart_task(self, _: Request, name: str, task: str) -> Answer:
        self._ask(self._herder.restart_task, _task_id(name, task))
        return Answer(204)

    def _check_tracking(self) -> None:
        if not self._config.flag("topic.tracking.enable"):
            raise RestError(403, "Topic tracking is disabled.")

    def _topics(self, _: Request, name: str) -> Answer:
        self._check_tracking()
        topics = [each.topic for each in self._herder.statuses.log.topics(name)]
        return Answer(body={name: {"topics": topics}})

    def _reset_topics(self, _: Request, name: str) -> Answer:
        self._check_tracking()
        if not self._config.flag("topic.tracking.allow.reset"):
            raise RestError(403, "Topic tracking reset is disabled.")
        self._herder.statuses.forget_topics(name)
        return Answer(202)

    # -- offsets --------------------------------------------------------------------------------

    def _get_offsets(self, _: Request, name: str) -> Answer:
        return Answer(body=self._herder.offsets(name))

    def _patch_offsets(self, request: Request, name: str) -> Answer:
        wanted = answers.parse_offsets(_object(request))
        return Answer(body=self._ask(self._herder.change_offsets, name, wanted))

    def _reset_offsets(self, _: Request, name: str) -> Answer:
        return Answer(body=self._ask(self._herder.change_offsets, name, None))

    # -- plugins --------------------------------------------------------------------------------

    def _plugins(self, request: Request) -> Answer:
        kinds = [PluginKind.SINK, PluginKind.SOURCE]
        if not request.flag("connectorsOnly", default=True):
            kinds += [
                PluginKind.TRANSFORMATION,
                PluginKind.PREDICATE,
                PluginKind.CONVERTER,
                PluginKind.HEADER_CONVERTER,
            ]
        return Answer(body=[_plugin(each) for each in self._herder.plugins.of_kind(*kinds)])

    def _plugin_config(self, _: Request, plugin: str) -> Answer:
        return Answer(body=plugin_config(self._herder.plugins, plugin))

    def _validate(self, request: Request, plugin: str) -> Answer:
        config = _config(_object(request))
        included = config.get("connector.class")
        if included is not None and not _pruned(included).endswith(_pruned(plugin)):
            raise bad_request(
                f"Included connector type {included} does not match request type {plugin}"
            )
        return Answer(body=self._herder.validate(config).result(REQUEST_SECONDS))

    # -- loggers --------------------------------------------------------------------------------

    def _list_loggers(self, _: Request) -> Answer:
        return Answer(body=self._loggers.listed())

    def _get_logger(self, _: Request, logger: str) -> Answer:
        found = self._loggers.get(logger)
        if found is None:
            raise not_found(f"Logger {logger} not found.")
        return Answer(body=found)

    def _set_logger(self, request: Request, logger: str) -> Answer:
        level = _object(request).get("level")
        if level is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        scope = request.query.get("scope", ["worker"])[0].lower()
        if not is_level(str(level)):
            raise not_found(f"invalid log level '{level}'.")
        if scope == "cluster":
            self._ask(self._herder.set_cluster_logger, logger, str(level).upper())
            return Answer(204)
        touched = self._loggers.set(logger, str(level), round(time.time() * 1000))
        return Answer(body=touched)


def _compiled(
    listed: Iterable[tuple[str, dict[str, Handler]]],
) -> list[tuple[re.Pattern[str], dict[str, Handler]]]:
    return [(re.compile(pattern + "/?"), methods) for pattern, methods in listed]


def _allowed(methods: Iterable[str]) -> Answer:
    """Answer which methods a path has."""
    found = [*(["HEAD"] if "GET" in methods else []), *methods, "OPTIONS"]
    headers = (("Content-Type", "text/plain"), ("Allow", ",".join(found)))
    return Answer(body=", ".join(found).encode(), headers=headers)


def _error(status: int, message: str | None) -> Answer:
    return Answer(status, {"error_code": status, "message": message})


def error_bytes(status: int, message: str) -> bytes:
    """Return the body of an error."""
    return json_bytes({"error_code": status, "message": message})


def _plugin(plugin: Plugin) -> dict[str, str]:
    return {"class": plugin.name, "type": plugin.kind.value, "version": plugin.version}


def _pruned(name: str) -> str:
    return name.removesuffix("Connector") if name != "Connector" else name


def _object(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(request.body)
    except ValueError as error:
        raise RestError(500, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RestError(500, "the body must be a JSON object")
    return found


def _config(value: Any) -> dict[str, str | None]:
    """Return a configuration; scalars become texts, as Jackson makes them."""
    if not isinstance(value, dict):
        raise RestError(500, "the configuration must be a JSON object")
    found: dict[str, str | None] = {}
    for name, each in value.items():
        if isinstance(each, dict | list):
            raise RestError(500, f"the value of {name} must be a text")
        found[name] = each if each is None or isinstance(each, str) else json_bytes(each).decode()
    return found


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    included = config.get("name")
    if included is None:
        return {**config, "name": name}
    if included != name:
        raise bad_request(
            f"Connector name configuration ({included}) doesn't match connector name in the URL "
            f"({name})"
        )
    return config


def _task_id(name: str, task: str) -> TaskId:
    if not task.isdecimal():
        raise not_found("HTTP 404 Not Found")
    return TaskId(name, int(task))
