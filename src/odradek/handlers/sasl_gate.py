"""Authenticates the connections of a listener with SASL before their requests are dispatched.

Each connection has a `SaslGate` as its owner (see `odradek.network.connection`). It gets the
requests instead of the dispatcher until the client is authenticated. The state machine
`odradek.core.sasl.authenticator` decides. Before authentication only ApiVersions, SaslHandshake and
SaslAuthenticate are processed, and a request is at most sasl.server.max.receive.size long. Only
ApiVersions reaches a handler. All other requests end the connection.

- After authentication the connection calls the dispatcher directly. If the session has a lifetime
  (KIP-368), each request still passes through the gate. The gate closes the connection if the
  session has expired.
- A response to a failed authentication is sent after connection.failed.authentication.delay.ms.
  Then the connection is closed. Until then no other request of the connection is processed. This
  slows down password guessing.
- A token whose mechanism reads files is evaluated on a thread of the executor. Until then no other
  request of the connection is processed.
- A request that does not fit the state, or that is malformed, closes the connection at once.
- If another request arrives instead of a token, it gets the error ILLEGAL_SASL_STATE, as a failed
  authentication.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from functools import partial

from odradek.config.kerberos import GSSAPI, KerberosSettings
from odradek.config.oauth import OAUTHBEARER
from odradek.config.sasl import PLAIN, SaslSettings
from odradek.core.sasl.authenticator import Authenticator, State, UnexpectedRequest
from odradek.core.sasl.mechanism import MakeMechanism, Mechanism, Rejected, TryAgain
from odradek.core.sasl.plain import PlainServer
from odradek.core.sasl.scram import ScramServer
from odradek.core.sasl.scram_keys import BY_NAME, ScramMechanism
from odradek.env import kerberos
from odradek.env.executor import Pool
from odradek.env.network import Transport
from odradek.handlers import k18_api_versions
from odradek.handlers.entry import Entry
from odradek.handlers.gate_context import GateContext
from odradek.handlers.registry import SERVED
from odradek.handlers.tls_gate import count_refused_handshake
from odradek.model import api_keys
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.authentications import Outcome
from odradek.network.connection import Connection
from odradek.network.receive_buffers import ReceiveBuffers
from odradek.network.responses import Part, Slot
from odradek.network.server import Server
from odradek.network.turns import Turns
from odradek.wire.api import BY_KEY
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.response_header import ResponseHeader
from odradek.wire.generated.sasl_authenticate_request import SaslAuthenticateRequest
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse
from odradek.wire.primitives import MalformedMessage, Message

log = logging.getLogger("odradek.request")

NONCE_BYTES = 20
_REQUESTS: dict[int, type[Message]] = {17: SaslHandshakeRequest, 36: SaslAuthenticateRequest}
_key_and_version = struct.Struct(">hh").unpack_from
_size = struct.Struct(">i").pack


class SaslGate:
    """The owner of one connection; see the module and `odradek.network.connection.Owner`."""

    __slots__ = (
        "_authenticator",
        "_context",
        "_entries",
        "_is_known",
        "_receive_bytes_max",
        "_server",
        "_transport",
    )

    def __init__(
        self,
        context: GateContext,
        listener: str,
        entries: Mapping[int, Entry],
        server: Server,
        transport: Transport,
    ) -> None:
        """`entries` has the APIs that the listener serves, by key."""
        settings = context.config.sasl_by_listener[listener]
        self._context = context
        self._entries = entries
        self._server = server
        self._transport = transport
        self._is_known = False
        """Whether the client has authenticated before."""
        self._receive_bytes_max = settings.receive_bytes_max
        self._authenticator = Authenticator(
            {name: _mechanism(context, settings, name) for name in settings.mechanisms},
            settings.session_lifetimes_ms,
        )

    # -- the owner of a connection --------------------------------------------------------------

    @property
    def request_bytes_max(self) -> int:
        """The longest request that the client may send now."""
        if self._authenticator.state is State.COMPLETE:
            return self._server.request_bytes_max
        return self._receive_bytes_max

    @property
    def dispatch(self) -> Callable[[Connection, memoryview], None]:
        """The dispatcher, if the client is authenticated for ever; else the gate."""
        machine = self._authenticator
        if machine.state is State.COMPLETE and machine.expires_ms is None:
            return self._server.dispatch
        return self._receive

    @property
    def buffers(self) -> ReceiveBuffers:
        """See `Owner`."""
        return self._server.buffers

    @property
    def turns(self) -> Turns:
        """See `Owner`."""
        return self._server.turns

    @property
    def knows_client(self) -> bool:
        """See `Owner`."""
        return self._authenticator.state is State.COMPLETE

    def refuse_size(self, connection: Connection, size: int) -> None:
        """Close a connection whose client announced a request of an invalid size."""
        if self._authenticator.state is State.COMPLETE:
            self._server.refuse_size(connection, size)
        else:
            allowed = self._receive_bytes_max
            self._server.refuse_longer(connection, size, allowed, "sasl.server.max.receive.size")

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has closed itself."""
        count_refused_handshake(self._server, connection, self._transport)
        self._server.forget(connection)

    # -- requests -------------------------------------------------------------------------------

    def _receive(self, connection: Connection, frame: memoryview) -> None:
        """Process a request, or a token without a request around it."""
        machine = self._authenticator
        now_ms = self._context.clock.monotonic_ms()
        try:
            if machine.state is State.AUTHENTICATE and machine.are_tokens_raw:
                self._evaluate(connection, None, bytes(frame))
            elif machine.state is State.COMPLETE:
                self._receive_in_session(connection, frame, now_ms)
            elif machine.state is not State.FAILED:
                self._receive_request(connection, frame, now_ms)
        except (UnexpectedRequest, MalformedMessage, struct.error, IndexError) as problem:
            self._report(connection, str(problem) or "the request is malformed")
            connection.refuse()
        except Exception as error:
            log.error("a login has failed", exc_info=error)
            connection.refuse()

    def _receive_in_session(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        """Dispatch a request of an authenticated client, unless its session has expired."""
        machine = self._authenticator
        key, _ = _key_and_version(frame)
        if key == api_keys.SASL_HANDSHAKE and machine.may_begin_again(now_ms):
            self._receive_request(connection, frame, now_ms)
        elif machine.is_expired(now_ms):
            self._server.authentications.count(connection.peer.listener, Outcome.EXPIRED)
            _log_failure(connection, "the session has expired")
            connection.refuse()
        else:
            self._server.dispatch(connection, frame)

    def _receive_request(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        machine = self._authenticator
        key, version = _key_and_version(frame)
        if machine.state is State.AUTHENTICATE and key != api_keys.SASL_AUTHENTICATE:
            self._refuse_instead_of_token(connection, frame)
            return
        if key == api_keys.API_VERSIONS:
            machine.request_versions()
            if not self._is_known:
                connection.peer.await_login()
            self._server.dispatch(connection, frame)
            if _is_versions_answered(connection, version):
                machine.versions_answered()
            return
        request_class = _REQUESTS.get(key)
        name = BY_KEY[key].name if key in BY_KEY else f"API {key}"
        if request_class is None:
            raise machine.refuse(name)
        if not request_class.VERSION_MIN <= version <= request_class.VERSION_MAX:
            raise machine.refuse(f"{name} version {version}")
        header_version = BY_KEY[key].request_header_version(version)
        header, position = RequestHeader.decode_prefix(frame, header_version)
        request, _ = request_class.decode_prefix(frame, version, position)
        if isinstance(request, SaslHandshakeRequest):
            self._handshake(connection, header, request, now_ms)
        elif isinstance(request, SaslAuthenticateRequest):
            self._evaluate(connection, header, bytes(request.auth_bytes))

    def _refuse_instead_of_token(self, connection: Connection, frame: memoryview) -> None:
        """Respond with an error to a request that is sent instead of a token.

        Raises:
            UnexpectedRequest: the request is not served, so there is no response.
        """
        key, version = _key_and_version(frame)
        entry = self._entries.get(key)
        problem = self._authenticator.refuse(f"API {key}" if entry is None else entry.name)
        if entry is None or not entry.version_min <= version <= entry.version_max:
            raise problem
        header_version = BY_KEY[key].request_header_version(version)
        header, position = RequestHeader.decode_prefix(frame, header_version)
        request, _ = entry.decoders[version](frame, position)
        error = ApiError(
            ErrorCode.ILLEGAL_SASL_STATE, f"{entry.name} was sent instead of a token of SASL"
        )
        self._report(connection, str(problem))
        self._fail(connection, _encoded(entry.rejection(request, version, error), header))

    def _handshake(
        self,
        connection: Connection,
        header: RequestHeader,
        request: SaslHandshakeRequest,
        now_ms: int,
    ) -> None:
        machine = self._authenticator
        error = machine.handshake(request.mechanism, header.request_api_version, now_ms)
        response = SaslHandshakeResponse(error_code=error, mechanisms=machine.mechanisms)
        if error:
            self._report(connection, "the mechanism is not enabled")
            self._fail(connection, _encoded(response, header))
        else:
            self._respond(connection, _encoded(response, header))

    def _evaluate(self, connection: Connection, header: RequestHeader | None, token: bytes) -> None:
        """Process a token. `header` is that of its request; None if there is no request around it."""
        try:
            mechanism = self._authenticator.begin_token()
        except Rejected as rejected:
            self._reject(connection, connection.defer(), header, rejected)
            return
        slot = connection.defer()
        evaluation = _Evaluation(mechanism, token)
        done = partial(self._finish, connection, slot, header, evaluation)
        if mechanism.is_slow:
            self._context.executor.submit(evaluation.run, done, Pool.LOGIN)
            return
        try:
            evaluation.run()
        except (Rejected, TryAgain) as error:
            done(error)
        else:
            done(None)

    def _finish(
        self,
        connection: Connection,
        slot: Slot,
        header: RequestHeader | None,
        evaluation: _Evaluation,
        error: BaseException | None,
    ) -> None:
        """Respond to a token that has been evaluated. `error` is what the evaluation raised."""
        if connection.closed:
            return
        machine = self._authenticator
        if error is not None:
            if isinstance(error, Rejected):
                self._reject(connection, slot, header, machine.rejection(error))
                return
            if isinstance(error, TryAgain):
                _log_failure(connection, str(error))
            else:
                log.error("the mechanism %s has failed", evaluation.mechanism.name, exc_info=error)
            connection.refuse()
            return
        try:
            answer = machine.accept(evaluation.answer, self._context.clock.monotonic_ms())
        except Rejected as rejected:
            self._reject(connection, slot, header, rejected)
            return
        self._note_user(connection)
        if header is None:
            parts: list[Part] = [_size(len(answer.token)) + answer.token]
        else:
            response = SaslAuthenticateResponse(
                auth_bytes=answer.token, session_lifetime_ms=answer.session_lifetime_ms
            )
            parts = _encoded(response, header)
        self._context.loop.call_soon(self._complete, connection, slot, parts)

    def _reject(
        self, connection: Connection, slot: Slot, header: RequestHeader | None, rejected: Rejected
    ) -> None:
        """Respond to a wrong token. If there is no request around it, there is no response."""
        parts: list[Part] = []
        if rejected.message is not None and header is not None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=rejected.message
            )
            parts = _encoded(response, header)
        self._report(connection, rejected.reason or "the mechanism may not be changed")
        self._complete_later(connection, slot, parts)

    def _note_user(self, connection: Connection) -> None:
        machine = self._authenticator
        if machine.state is State.COMPLETE:
            connection.peer.authenticate(f"User:{machine.user}", is_by_token=machine.is_by_token)
            outcome = Outcome.SUCCESSFUL_AGAIN if self._is_known else Outcome.SUCCESSFUL
            self._is_known = True
            self._server.authentications.count(connection.peer.listener, outcome)

    def _report(self, connection: Connection, problem: str) -> None:
        """Log and count a failed authentication."""
        outcome = Outcome.FAILED_AGAIN if self._is_known else Outcome.FAILED
        self._server.authentications.count(connection.peer.listener, outcome)
        _log_failure(connection, problem)

    # -- responses ------------------------------------------------------------------------------

    def _respond(self, connection: Connection, parts: list[Part]) -> None:
        """Send a response in the next iteration of the event loop.

        Requests that were received together with this one are processed after it. Then the limits
        of the new state apply to them.
        """
        slot = connection.defer()
        self._context.loop.call_soon(self._complete, connection, slot, parts)

    def _fail(self, connection: Connection, parts: list[Part]) -> None:
        """Send the response to a failed authentication after a delay, and close the connection."""
        self._complete_later(connection, connection.defer(), parts)

    def _complete_later(self, connection: Connection, slot: Slot, parts: list[Part]) -> None:
        delay_s = self._context.config.connection_failed_authentication_delay_ms / 1000
        self._context.loop.call_later(delay_s, self._complete_last, connection, slot, parts)

    def _complete(self, connection: Connection, slot: Slot, parts: list[Part]) -> None:
        if not connection.closed:
            slot.complete(parts)

    def _complete_last(self, connection: Connection, slot: Slot, parts: list[Part]) -> None:
        if not connection.closed:
            slot.complete(parts)
            connection.refuse()


class _Evaluation:
    """The evaluation of a token, which may run on another thread."""

    def __init__(self, mechanism: Mechanism, token: bytes) -> None:
        self.mechanism = mechanism
        self.answer = b""
        self._token = token

    def run(self) -> None:
        """Store the server's token, or raise what the mechanism raises."""
        self.answer = self.mechanism.evaluate(self._token)


def _log_failure(connection: Connection, problem: str) -> None:
    peer = connection.peer
    log.info(
        "failed authentication of %s:%d on %s: %s", peer.host, peer.port, peer.listener, problem
    )


def _is_versions_answered(connection: Connection, version: int) -> bool:
    """Return whether the response to ApiVersions had no error. Then the request is not repeated."""
    served = SERVED[api_keys.API_VERSIONS]
    if not served.version_min <= version <= served.version_max:
        return False
    is_named = connection.peer.software_name != ""
    return is_named or version < k18_api_versions.NAMED_SOFTWARE_VERSION


def _encoded(response: Message, header: RequestHeader) -> list[Part]:
    """Return a response with its size and its header."""
    version = header.request_api_version
    api = BY_KEY[header.request_api_key]
    head = ResponseHeader(correlation_id=header.correlation_id)
    data = bytes(head.encode(api.response_header_version(version)))
    data += bytes(response.encode(version))
    return [_size(len(data)) + data]


def _mechanism(context: GateContext, settings: SaslSettings, name: str) -> MakeMechanism:
    """Return the function that creates the server's side of a mechanism."""
    if name == PLAIN:
        return partial(PlainServer, settings.passwords)
    if name == OAUTHBEARER:
        from odradek.core.sasl.oauth_bearer import OAuthBearerServer  # few nodes need it

        assert settings.tokens is not None, "the mechanism is enabled"
        return partial(OAuthBearerServer, partial(context.access_tokens.validate, settings.tokens))
    if name == GSSAPI:
        from odradek.core.sasl.gssapi import GssapiServer  # few nodes need it

        assert settings.kerberos is not None, "the mechanism is enabled"
        return partial(
            GssapiServer,
            partial(kerberos.accept, settings.kerberos.principal, settings.kerberos.key_table),
            partial(_kerberos_user, settings.kerberos),
        )
    return partial(_scram, context, BY_NAME[name])


def _kerberos_user(settings: KerberosSettings, name: str) -> str:
    return settings.rules.user_of(name, kerberos.default_realm())


def _scram(context: GateContext, mechanism: ScramMechanism) -> ScramServer:
    """Return the server's side of SCRAM, with the credentials and tokens of the newest metadata."""
    return ScramServer(
        mechanism,
        lambda user: context.metadata.image.scram.get((mechanism.number, user)),
        context.random_bytes(NONCE_BYTES).hex(),
        partial(context.tokens.credential, mechanism),
    )
