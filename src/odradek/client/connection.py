"""One connection to a broker: sends requests and receives their responses in the same order.

A new connection requests the broker's versions with ApiVersions. Each later request uses the
highest version that both sides support. `send` does not wait for the response, so several requests
may be in flight. `receive` waits for one response and keeps the responses that arrive before it.

With TLS the connection begins with a TLS handshake, and with SASL it is authenticated after
ApiVersions. If the session of SASL has a lifetime (KIP-368), the connection is authenticated again
before a request that is sent in the last part of the lifetime. `secure_socket` explains what has
failed.
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import odradek
from odradek.client.address import Address, Expected
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import (
    ClientError,
    ClosedAtOnceError,
    DisconnectedError,
    MalformedResponseError,
    MisroutedError,
    RequestTimeoutError,
    SecurityError,
    UnreachableError,
    check,
)
from odradek.client.frames import VERSION_CAPS, Pending, encode_request, usable_version
from odradek.client.sasl_advice import sasl_advice
from odradek.client.security import PLAINTEXT, Security
from odradek.config.kerberos import GSSAPI
from odradek.core.sasl.client import (
    CredentialRefused,
    SaslFailure,
    SaslRequest,
    SaslResponse,
    Steps,
    authenticate,
    authenticate_by,
    kerberos_exchange,
)
from odradek.env import kerberos
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY, Api
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersionsResponse
from odradek.wire.generated.sasl_authenticate_response import SaslAuthenticateResponse
from odradek.wire.generated.sasl_handshake_request import SaslHandshakeRequest
from odradek.wire.generated.sasl_handshake_response import SaslHandshakeResponse
from odradek.wire.primitives import Message

RESPONSE_BYTES_MAX = 1 << 30
"""The maximum frame length in bytes. A longer frame means that the other end is no Kafka broker."""

NONCE_BYTES = 18
SESSION_USED = 0.85
"""The part of a session after which the client authenticates again, as in Kafka's clients."""
TLS_ALERT = b"\x15\x03"
"""The first bytes of the response of a server that expects TLS and received something else."""

_LENGTH = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")
ResponseT = TypeVar("ResponseT", bound=Message)


class Connection:
    """An open connection. `versions` has the broker's lowest and highest version by API key."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        timeout_ms: int,
        security: Security = PLAINTEXT,
        expected: Expected | None = None,
    ) -> None:
        """Connect, negotiate versions, and authenticate.

        Raises:
            UnreachableError: the connection is not accepted.
            MisroutedError: the other end is not the node that is expected.
            SecurityError: TLS or SASL failed.
            ClientError: the other end does not respond as a broker does.
        """
        self.address = address
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        self._timeout_ms = timeout_ms
        self._security = security
        self._again_ms: int | None = None
        """When to authenticate again; None if the session does not expire."""
        self._responses = 0
        """The number of responses to requests other than those of SASL."""
        self._not_now: tuple[type[OSError], ...] = (TimeoutError, BlockingIOError)
        """The errors of a socket that has no bytes to receive."""
        self.features: ApiVersionsResponse
        self._pending: deque[Pending[Message]] = deque()
        self._correlation_id = 0
        self._frame: bytearray | None = None
        self._filled = 0
        self._is_patient = False
        self._outbox: deque[memoryview] = deque()
        """What a patient connection has not written."""
        deadline = Deadline(timeout_ms)
        secure: Callable[[socket.socket, Address, int], socket.socket] | None = None
        if security.tls is not None:
            from odradek.client import secure_socket  # imports ssl, which takes some time

            secure = partial(secure_socket.secured, secure_socket.make_context(security.tls))
            self._not_now += secure_socket.NOT_NOW
        try:
            self._socket = socket.create_connection(address, timeout_ms / 1000)
        except OSError as error:
            raise UnreachableError(f"cannot connect to {address}: {_reason(error)}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if secure is not None:
                self._socket = secure(self._socket, address, deadline.remaining_ms)
            self._negotiate(deadline, expected)
            self._authenticate(deadline)
        except BaseException:
            self.close()
            raise

    def _negotiate(self, deadline: Deadline, expected: Expected | None) -> None:
        request = ApiVersionsRequest(
            client_software_name="odradek", client_software_version=odradek.__version__
        )
        if expected is not None:
            request.cluster_id, request.node_id = expected
        version = VERSION_CAPS[18]
        if expected is None:
            version -= 1  # which brokers of Apache Kafka 4.3 serve, too
        response = self._ask_versions(request, version, deadline)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = {k.api_key: k.max_version for k in response.api_keys}.get(
                api_keys.API_VERSIONS, 0
            )
            response = self._ask_versions(request, min(version, offered), deadline)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and expected is not None:
            raise MisroutedError(
                f"{self.address} is not node {expected.node_id} of cluster {expected.cluster_id}"
            )
        check(response.error_code, subject=f"broker at {self.address}")
        self.features = response
        self.versions = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}

    def _ask_versions(
        self, request: ApiVersionsRequest, version: int, deadline: Deadline
    ) -> ApiVersionsResponse:
        pending = self._write(request, version, ApiVersionsResponse)
        return self.receive(pending, deadline.remaining_ms)

    # -- authentication ---------------------------------------------------------------------

    def _authenticate(self, deadline: Deadline) -> None:
        """Authenticate with SASL, if the security protocol needs it."""
        credential = self._security.credential
        if self._security.kerberos is not None:
            login = self._security.kerberos
            initiate = partial(kerberos.initiate, login, self.address.host)
            steps = authenticate_by(GSSAPI, kerberos_exchange(initiate))
            self._run_steps(steps, login.principal or "the user of the ticket cache", deadline)
            return
        if self._security.login is not None:
            from odradek.client.oauth import credential_of  # imports what is rarely needed

            credential = credential_of(self._security.login)
        if credential is None:
            return
        steps = authenticate(credential, secrets.token_hex(NONCE_BYTES))
        self._run_steps(steps, credential.user, deadline)

    def _run_steps(self, steps: Steps, user: str, deadline: Deadline) -> None:
        self._again_ms = None
        began_ms = monotonic_ms()
        try:
            request = next(steps)
            while True:
                request = steps.send(self._ask_sasl(request, deadline))
        except StopIteration as done:
            if done.value:
                self._again_ms = began_ms + int(done.value * SESSION_USED)
        except SaslFailure as failure:
            is_refusal = isinstance(failure, CredentialRefused)
            raise SecurityError(
                f"the broker at {self.address} does not let {user} in: {failure}"
                if is_refusal
                else f"SASL with {self.address} failed: {failure}",
                sasl_advice(failure),
                is_refusal=is_refusal,
            ) from failure
        except DisconnectedError as error:
            raise SecurityError(
                f"the broker at {self.address} closed the connection during the authentication of "
                f"{user}",
                "Check the user, the password, and sasl.mechanism. The broker's log has the reason.",
            ) from error

    def _ask_sasl(self, request: SaslRequest, deadline: Deadline) -> SaslResponse:
        assert request.API_KEY is not None
        version = self.version_of(BY_KEY[request.API_KEY])
        response_class: type[SaslResponse] = (
            SaslHandshakeResponse
            if isinstance(request, SaslHandshakeRequest)
            else SaslAuthenticateResponse
        )
        pending = self._write(request, version, response_class)
        response = self.receive(pending, deadline.remaining_ms)
        self._responses -= 1
        return response

    # -- requests ---------------------------------------------------------------------------

    def version_of(self, api: Api, version_max: int = 32767) -> int:
        """Return the version of an API that requests to this broker use, at most `version_max`.

        Raises:
            UnsupportedVersionError: no version is supported by both sides.
        """
        return usable_version(api, self.versions.get(api.key), self.address, version_max)

    def send(
        self, request: Message, response_class: type[ResponseT], version_max: int = 32767
    ) -> Pending[ResponseT]:
        """Write a request in a version of at most `version_max`; `receive` returns its response.

        Raises:
            UnsupportedVersionError: the broker does not support the request.
            DisconnectedError: the connection is broken.
        """
        assert request.API_KEY is not None
        version = self.version_of(BY_KEY[request.API_KEY], version_max)
        if self.must_authenticate:
            self.authenticate_again()
        return self._write(request, version, response_class)

    @property
    def must_authenticate(self) -> bool:
        """Whether the session of SASL ends soon."""
        return self._again_ms is not None and monotonic_ms() >= self._again_ms

    def authenticate_again(self) -> None:
        """Authenticate in the same connection, which has no requests in flight. This waits.

        Raises:
            ClientError: the broker refuses, or does not respond.
        """
        is_patient, self._is_patient = self._is_patient, False
        try:
            while self._outbox:
                self._write_all(self._outbox.popleft())
            self._authenticate(Deadline(self._timeout_ms))
            if is_patient:
                self.become_patient()
        except ClientError:
            self.close()
            raise

    def become_patient(self) -> None:
        """From now on, `send` does not wait until the broker takes the bytes.

        The owner calls `write_waiting` when the connection is writable, and `poll` instead of
        `receive`.
        """
        self._is_patient = True
        self._socket.setblocking(False)

    @property
    def has_waiting(self) -> bool:
        """Whether bytes wait for being written."""
        return bool(self._outbox)

    def write_waiting(self) -> None:
        """Write what a patient connection can write now.

        Raises:
            DisconnectedError: the connection is broken.
        """
        outbox = self._outbox
        while outbox:
            try:
                count = self._socket.send(outbox[0])
            except self._not_now:
                return
            except OSError as error:
                broken = self._broken(self._earlier_error(error))
                self.close()
                raise broken from error
            if count == len(outbox[0]):
                outbox.popleft()
            else:
                outbox[0] = outbox[0][count:]

    def send_unanswered(self, request: Message, version_max: int = 32767) -> None:
        """Write a request that has no response: Produce with acks=0.

        Raises:
            UnsupportedVersionError, DisconnectedError: as `send`.
        """
        self.send(request, Message, version_max)
        self._pending.pop()

    def request(
        self, request: Message, response_class: type[ResponseT], timeout_ms: int
    ) -> ResponseT:
        """Write a request and wait for its response.

        Ctrl-C closes the connection, because it may have interrupted a read or write.

        Raises:
            ClientError: as `send` and `receive`.
        """
        try:
            return self.receive(self.send(request, response_class), timeout_ms)
        except KeyboardInterrupt:
            self.close()
            raise

    def _write(
        self, request: Message, version: int, response_class: type[ResponseT]
    ) -> Pending[ResponseT]:
        assert request.API_KEY is not None
        api = BY_KEY[request.API_KEY]
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        data = encode_request(request, version, self._correlation_id, self.client_id, self.address)
        if self._is_patient:
            self._outbox.append(memoryview(data))
            self.write_waiting()
        else:
            self._write_all(data)
        pending = Pending(api, version, self._correlation_id, response_class)
        self._pending.append(pending)  # type: ignore[arg-type]
        return pending

    def _write_all(self, data: bytes | memoryview) -> None:
        try:
            self._socket.settimeout(self._timeout_ms / 1000)
            self._socket.sendall(data)
        except OSError as error:
            broken = self._broken(self._earlier_error(error))
            self.close()
            raise broken from error

    # -- responses --------------------------------------------------------------------------

    def receive(self, pending: Pending[ResponseT], timeout_ms: int) -> ResponseT:
        """Wait for a response. Responses that arrive before it are stored in their own `Pending`.

        Raises:
            RequestTimeoutError: no response within `timeout_ms`. The connection is closed, because
                the response may still arrive.
            DisconnectedError: the connection ended.
            MalformedResponseError: the response is malformed.
        """
        deadline = Deadline(timeout_ms)
        while pending.response is None:
            try:
                arrived = self._read(deadline.remaining_ms)
            except ClientError:
                self.close()
                raise
            if not arrived and deadline.expired:
                self.close()
                raise RequestTimeoutError(
                    f"{self.address} did not answer {pending.api.name} within {timeout_ms} ms"
                )
        return pending.response

    def poll(self, pending: Pending[ResponseT]) -> ResponseT | None:
        """Return the response if it has arrived, without waiting.

        Raises:
            DisconnectedError, MalformedResponseError: as `receive`.
        """
        try:
            while pending.response is None and self._read(0):
                pass
        except ClientError:
            self.close()
            raise
        return pending.response

    def check_idle(self) -> None:
        """Receive on a connection without requests, which is readable because it has ended.

        Raises:
            ClientError: it has ended, or sends what nobody has asked for.
        """
        try:
            self._read(0)
        except ClientError:
            self.close()
            raise

    def _read(self, timeout_ms: int) -> bool:
        """Read available bytes of the next frame. Return whether any bytes arrived in time."""
        if self._frame is None:
            self._frame, self._filled = bytearray(4), 0
        view = memoryview(self._frame)
        try:
            if not self._is_patient:
                self._socket.settimeout(timeout_ms / 1000)
            count = self._socket.recv_into(view[self._filled :])
        except self._not_now:
            return False
        except OSError as error:
            raise self._broken(error) from error
        if not count:
            raise self._lost(f"the broker at {self.address} closed the connection")
        self._filled += count
        if self._filled < len(view):
            return True
        if len(view) > 4:
            self._frame = None
            self._complete(view[4:])
            return True
        if not self._responses and self._security.tls is None and self._frame[:2] == TLS_ALERT:
            raise SecurityError(
                f"the listener at {self.address} uses TLS, but this client does not",
                "Set security.protocol to SSL or SASL_SSL.",
            )
        (size,) = _LENGTH.unpack(view)
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            raise MalformedResponseError(f"{self.address} does not answer as a Kafka broker does")
        self._frame = bytearray(4 + size)
        return True

    def _complete(self, frame: memoryview) -> None:
        """Decode a frame as the response to the oldest request."""
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            raise MalformedResponseError(
                f"{self.address} responded to request {correlation_id} out of order"
            )
        self._responses += 1
        self._pending.popleft().complete(frame, self.address)

    def _broken(self, error: OSError) -> ClientError:
        """Return the error of a connection that has failed."""
        if self._security.tls is not None:
            from odradek.client import secure_socket

            refusal = secure_socket.refusal(error, self.address)
            if refusal is not None:
                return refusal
        return self._lost(f"the connection to {self.address} broke: {_reason(error)}")

    def _earlier_error(self, error: OSError) -> OSError:
        """Return the reason for which the server of TLS has ended the connection, if it sent one.

        With TLS 1.3, the server refuses the client's certificate after the client's handshake.
        """
        if self._security.tls is not None and not self._responses:
            try:
                self._socket.recv(1)
            except OSError as reason:
                return reason
        return error

    def _lost(self, what: str) -> DisconnectedError:
        """Return the error of a connection that has ended.

        A listener with SASL responds to ApiVersions, and closes the connection when it gets another
        request before the authentication.
        """
        if self._responses > 1:
            return DisconnectedError(what)
        security = self._security
        advice = "The broker's log has the reason."
        if not security.is_authenticated:
            advice = (
                f"The listener may need another security.protocol than {security.protocol}, "
                f"for example SASL_SSL. {advice}"
            )
        tls = security.tls
        has_key = tls is None or tls.key_file is not None or bool(tls.key_text)
        if not has_key and not self._responses:
            advice = f"It may need a certificate: set ssl.keystore.location. {advice}"
        return ClosedAtOnceError(f"{what} before it answered a request", advice)

    # -- the end ----------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the socket's descriptor, for `select`, or -1 if the connection is closed.

        Before `select`, check `has_decrypted`.
        """
        return self._socket.fileno()

    @property
    def has_decrypted(self) -> bool:
        """Whether there are bytes that TLS has decrypted, which `select` does not know of."""
        if self._security.tls is None or self.closed:
            return False
        from odradek.client import secure_socket

        return secure_socket.has_decrypted(self._socket)

    @property
    def closed(self) -> bool:
        """Whether the connection has been closed, by `close` or by a failure."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Close the socket. Requests in flight get no response."""
        self._socket.close()
        self._pending.clear()
        self._outbox.clear()


def _reason(error: OSError) -> str:
    """Return a short reason of a socket error, for the message."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    return (error.strerror or str(error)).lower()
