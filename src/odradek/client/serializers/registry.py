"""A client of schema registries: the REST API of Confluent's registry, which others serve too.

Schemas never change, so those that were found by id are kept in the process; several threads that need
the same one wait for one request. Errors that may pass (no connection, too many requests, failures of the
registry) are retried until the time of the settings has passed. Certificates are checked against those
of the settings of TLS; without them, against those of the system, or of `SSL_CERT_FILE`.

Schemas with rules are refused: nothing here can perform them, and what a rule has encrypted must not be taken
for data.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from odradek.client.deadline import Backoff, Deadline, monotonic_ms
from odradek.client.errors import ClientError
from odradek.client.serializers.settings import RegistrySettings
from odradek.client.suggestion import nearest

if TYPE_CHECKING:
    import urllib.error

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
ATTEMPT_TIMEOUT_MS = 10_000
BACKOFF_MS, BACKOFF_MS_MAX = 100, 2_000
NOT_FOUND, UNAUTHORIZED, FORBIDDEN, CONFLICT, TOO_MANY = 404, 401, 403, 409, 429
SERVER_ERRORS = 500
UNKNOWN_FOR_MS = 60_000
"""How long an id without a schema is not asked for again."""
UNKNOWN_MAX = 10_000
RESPONSE_SIZE_MAX = 16 << 20
AVRO_TYPE, PROTOBUF_TYPE, JSON_TYPE = "AVRO", "PROTOBUF", "JSON"
CACHED_MAX = 1000
_RULES = ("domainRules", "encodingRules", "migrationRules")
Reference = tuple[str, str]
"""The name by which a schema refers to another one, and the text of the other one."""


class SchemaReference(NamedTuple):
    """Another schema that a schema uses by `name`: a version of a subject."""

    name: str
    subject: str
    version: int


class RegistryError(ClientError):
    """The registry cannot be reached, or returned an error."""


class UnreachableRegistryError(RegistryError):
    """No address of the registry responded in time, or each had a failure."""


class NotRegisteredError(RegistryError):
    """The registry does not have the schema or the subject."""


@dataclass(frozen=True)
class Registered:
    """A schema in a registry."""

    schema_id: int
    kind: str
    """The registry's name of the format."""
    text: str
    references: tuple[Reference, ...] = ()
    """The schemas that this one uses, each after those that it uses itself."""

    def require(self, kind: str) -> None:
        """Check the format.

        Raises:
            ValueError: it is another one.
        """
        if self.kind != kind:
            raise ValueError(f"the schema is of type {self.kind}, not {kind}")


class Registry:
    """The registry of some settings."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings

    def by_id(self, schema_id: int | UUID) -> Registered:
        """Return a schema by its id or its GUID.

        Raises:
            NotRegisteredError: there is none.
            RegistryError: the registry does not respond, or refuses the request.
        """
        key = (self._settings.urls, schema_id)
        asked_at_ms = _unknown.get(key)
        if asked_at_ms is not None and monotonic_ms() - asked_at_ms < UNKNOWN_FOR_MS:
            raise NotRegisteredError(f"the schema registry has no schema {schema_id}")
        try:
            return _cache.get(self._settings, schema_id)
        except NotRegisteredError:
            if len(_unknown) >= UNKNOWN_MAX:
                _unknown.clear()
            _unknown[key] = monotonic_ms()
            raise

    def has(self, schema_id: int | UUID) -> bool:
        """Whether `by_id` would return at once."""
        return _cache.has(self._settings, schema_id)

    def fetch(self, schema_id: int | UUID) -> Registered:
        """Return a schema by its id or its GUID. It is not kept."""
        is_guid = isinstance(schema_id, UUID)
        try:
            found = self._request("GET", f"/schemas/{'guids' if is_guid else 'ids'}/{schema_id}")
        except NotRegisteredError as error:
            raise NotRegisteredError(f"the schema registry has no schema {schema_id}") from error
        number = int(found.get("id", -1)) if isinstance(schema_id, UUID) else schema_id
        return self.complete(number, found)

    def latest(self, subject: str) -> Registered:
        """Return the latest version of a subject.

        Raises:
            NotRegisteredError: there is no such subject. The advice names a similar one.
            RegistryError: the registry does not respond, or refuses the request.
        """
        try:
            return self._version(subject, "latest")
        except NotRegisteredError:
            known = [each for each in self._request("GET", "/subjects") if isinstance(each, str)]
            raise NotRegisteredError(
                f"the schema registry has no subject {subject}",
                nearest(subject, known).removeprefix(". "),
            ) from None

    def register(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[SchemaReference] = (),
        *,
        normalizes: bool = False,
    ) -> int:
        """Register a schema, unless it is a version of the subject already. Return its id.

        Raises:
            RegistryError: the schema is not compatible with earlier versions, or the registry does
                not respond, or refuses the request.
        """
        path = f"/subjects/{_quoted(subject)}/versions{_query(normalizes)}"
        return self._id(subject, path, kind, text, references)

    def registered(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[SchemaReference] = (),
        *,
        normalizes: bool = False,
    ) -> int:
        """Return the id of a schema in a subject.

        Raises:
            NotRegisteredError: it is no version of the subject.
            RegistryError: the registry does not respond, or refuses the request.
        """
        try:
            path = f"/subjects/{_quoted(subject)}{_query(normalizes)}"
            return self._id(subject, path, kind, text, references)
        except NotRegisteredError:
            raise NotRegisteredError(
                f"the schema is no version of the subject {subject} in the schema registry",
                f"Register it, or omit {self._settings.names.no_registration}.",
            ) from None

    def version_of(
        self, subject: str, kind: str, text: str, references: Sequence[SchemaReference] = ()
    ) -> int:
        """Return the version of a schema in a subject, for references to it."""
        body = _body(kind, text, references)
        return int(_field(self._request("POST", f"/subjects/{_quoted(subject)}", body), "version"))

    def texts_of(self, references: Sequence[SchemaReference]) -> tuple[Reference, ...]:
        """Return the schemas that references name, each after those that it uses itself.

        Raises:
            RegistryError: the registry does not have one, or does not respond.
        """
        return tuple(
            dict.fromkeys(self._used({"references": [each._asdict() for each in references]}))
        )

    def _id(
        self, subject: str, path: str, kind: str, text: str, references: Sequence[SchemaReference]
    ) -> int:
        body = _body(kind, text, references)
        try:
            return int(_field(self._request("POST", path, body), "id"))
        except NotRegisteredError:
            raise
        except RegistryError as error:
            raise type(error)(f"subject {subject}: {error}", error.advice) from None

    def _version(self, subject: str, version: str) -> Registered:
        found = self._request("GET", f"/subjects/{_quoted(subject)}/versions/{version}")
        return self.complete(int(_field(found, "id")), found)

    def complete(self, schema_id: int, found: Any) -> Registered:
        """Return the schema of a response, with those that it uses.

        Raises:
            RegistryError: it has rules.
        """
        rules = found.get("ruleSet") or {}
        if any(rules.get(each) for each in _RULES):
            raise RegistryError(
                f"schema {schema_id} has rules, which this client does not perform",
                "Rules may encrypt or change fields. Use a client that performs them.",
            )
        return Registered(
            schema_id,
            found.get("schemaType") or AVRO_TYPE,
            str(_field(found, "schema")),
            tuple(dict.fromkeys(self._used(found))),
        )

    def _used(self, found: Any) -> list[Reference]:
        texts: list[Reference] = []
        for each in found.get("references") or ():
            path = f"/subjects/{_quoted(each['subject'])}/versions/{each['version']}"
            used = self._request("GET", path)
            texts += [*self._used(used), (str(each["name"]), str(_field(used, "schema")))]
        return texts

    # -- requests ---------------------------------------------------------------------------

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of a response. Try each address of the registry in turn.

        Raises:
            NotRegisteredError: the registry does not have what was asked for.
            RegistryError: no address responds in time, or the request is refused.
        """
        import http.client  # imports ssl, which takes some time
        import urllib.error

        deadline = Deadline(self._settings.timeout_ms)
        backoff = Backoff(BACKOFF_MS, BACKOFF_MS_MAX)
        while True:
            reason = ""
            for url in self._settings.urls:
                try:
                    return self._attempt(url, method, path, body, deadline)
                except urllib.error.HTTPError as error:
                    with error:
                        reason = f"it returned {error.code}{_said(error)}"
                        if error.code != TOO_MANY and error.code < SERVER_ERRORS:
                            raise self._refused(error.code, method, path, reason) from None
                except (OSError, http.client.HTTPException) as error:
                    reason = str(getattr(error, "reason", error)) or type(error).__name__
            if not backoff.pause(deadline):
                addresses = ", ".join(self._settings.urls)
                raise UnreachableRegistryError(
                    f"the schema registry at {addresses} does not respond: {reason}",
                    f"Check {self._settings.names.url}.",
                )

    def _attempt(self, url: str, method: str, path: str, body: Any, deadline: Deadline) -> Any:
        import urllib.request  # imports http.client

        request = urllib.request.Request(  # noqa: S310  (`settings` allows only HTTP)
            url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": f"{MEDIA_TYPE}, application/json", "Content-Type": MEDIA_TYPE},
        )
        if self._settings.user:
            text = f"{self._settings.user}:{self._settings.password}".encode()
            # Not passed on to another server, if this one redirects the request.
            request.add_unredirected_header(
                "Authorization", f"Basic {base64.b64encode(text).decode()}"
            )
        elif self._settings.token:
            request.add_unredirected_header("Authorization", f"Bearer {self._settings.token}")
        timeout_s = max(1, min(ATTEMPT_TIMEOUT_MS, deadline.remaining_ms)) / 1000
        context = None
        if self._settings.tls is not None:
            from odradek.env.tls_context import make_client_context

            context = make_client_context(self._settings.tls)
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=timeout_s, context=context
        ) as response:
            content = response.read(RESPONSE_SIZE_MAX)
        try:
            return json.loads(content)
        except ValueError:
            raise RegistryError(
                f"{url} is no schema registry: its response is not JSON",
                f"Check {self._settings.names.url}.",
            ) from None

    def _refused(self, code: int, method: str, path: str, reason: str) -> RegistryError:
        if code in {UNAUTHORIZED, FORBIDDEN}:
            return RegistryError(
                f"the schema registry refuses the request: {reason}",
                f"Check {self._settings.names.login}.",
            )
        if code == NOT_FOUND:
            return NotRegisteredError(f"the schema registry has no {path}: {reason}")
        if code == CONFLICT:
            return RegistryError(f"the schema is not compatible with the latest version: {reason}")
        return RegistryError(f"the schema registry refuses {method} {path}: {reason}")


_unknown: dict[tuple[tuple[str, ...], int | UUID], int] = {}
"""When ids without a schema were asked for last."""


class _Cache:
    """Schemas by registry and id. Several threads that need one that is not kept share a request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[RegistrySettings, int | UUID], Future[Registered]] = {}

    def has(self, settings: RegistrySettings, schema_id: int | UUID) -> bool:
        found = self._found.get((settings, schema_id))
        return found is not None and found.done()

    def get(self, settings: RegistrySettings, schema_id: int | UUID) -> Registered:
        key = (settings, schema_id)
        with self._lock:
            found = self._found.get(key)
            is_first = found is None
            if found is None:
                if len(self._found) >= CACHED_MAX:
                    del self._found[next(iter(self._found))]
                found = self._found[key] = Future()
        if not is_first:
            return found.result()
        try:
            found.set_result(Registry(settings).fetch(schema_id))
        except BaseException as error:
            with self._lock:
                self._found.pop(key, None)
            found.set_exception(error)
            raise
        return found.result()


_cache = _Cache()


def _body(kind: str, text: str, references: Sequence[SchemaReference]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text}
    if kind != AVRO_TYPE:
        body["schemaType"] = kind
    if references:
        body["references"] = [each._asdict() for each in references]
    return body


def _query(normalizes: bool) -> str:
    return "?normalize=true" if normalizes else ""


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _field(found: Any, name: str) -> Any:
    if not isinstance(found, Mapping) or name not in found:
        raise RegistryError(
            f"a response of the schema registry has no {name}",
            "Is it the address of a schema registry?",
        )
    return found[name]


def _said(error: urllib.error.HTTPError) -> str:
    """Return the message in the body of an error."""
    try:
        message = json.loads(error.read(RESPONSE_SIZE_MAX))["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return f" {error.reason}"
    return f": {message}"
