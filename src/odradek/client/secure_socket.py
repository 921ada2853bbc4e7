"""TLS on the client's sockets, and errors that say what is wrong and what to do."""

from __future__ import annotations

import errno
import socket
import ssl

from odradek.client.address import Address
from odradek.client.errors import (
    ClientError,
    ClosedAtOnceError,
    SecurityError,
    UnreachableError,
)
from odradek.env.tls_context import make_client_context
from odradek.env.tls_files import ClientTls, TlsError

NOT_NOW = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The errors of a socket that has no complete record of TLS to receive."""

_OTHER_HOST = (62, 64)
"""OpenSSL's codes for a certificate that is valid, but not for this host name or address."""
_NOT_VALID_NOW = {9: "is not valid yet", 10: "has expired"}
_CERTIFICATE_ALERTS = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REQUIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_HANDSHAKE_FAILURE",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)
_NO_TLS = ("BAD_RECORD_TYPE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "WRONG_VERSION_NUMBER")
"""OpenSSL's reasons if the bytes of the other end are not TLS."""
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
"""The errors of a connection that the other end has closed or reset."""


def make_context(tls: ClientTls) -> ssl.SSLContext:
    """Return the context of a connection. The files are read for each connection.

    Raises:
        SecurityError: a file cannot be used.
    """
    try:
        return make_client_context(tls)
    except TlsError as error:
        raise SecurityError(
            str(error), "Check the files and ssl.key.password in the client's settings."
        ) from error


def secured(
    context: ssl.SSLContext, connected: socket.socket, address: Address, timeout_ms: int
) -> ssl.SSLSocket:
    """Return the socket after a TLS handshake.

    Raises:
        SecurityError: one side does not accept the other.
        ClosedAtOnceError: the server closes the connection.
        UnreachableError: the server does not respond in time.
    """
    try:
        return _after_handshake(context, connected, address.host, timeout_ms)
    except TimeoutError as error:
        raise UnreachableError(
            f"{address} did not answer the TLS handshake",
            "The listener may not use TLS (check security.protocol and the port), or new connections "
            "wait because of max.connections.",
        ) from error
    except OSError as error:
        raise (refusal(error, address) or _failure(error, address)) from error


def _after_handshake(
    context: ssl.SSLContext, connected: socket.socket, host: str, timeout_ms: int
) -> ssl.SSLSocket:
    # This fails if the connection is reset already. `wrap_socket` also does, but leaves a socket open.
    connected.getpeername()
    made = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    try:
        made.settimeout(max(1, timeout_ms) / 1000)
        made.do_handshake()
    except OSError:
        made.close()
        raise
    return made


def has_decrypted(connected: socket.socket) -> bool:
    """Return whether there are decrypted bytes in memory."""
    return isinstance(connected, ssl.SSLSocket) and connected.pending() > 0


def refusal(error: OSError, address: Address) -> ClientError | None:
    """Return an explained error if one side does not accept the other; None for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error, address)
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if any(each in reason for each in _CERTIFICATE_ALERTS):
        return SecurityError(
            f"{address} does not accept this client's certificate, or needs one ({reason})",
            "Set ssl.keystore.location to a file with a key and a certificate of an issuer "
            "that the broker trusts.",
        )
    if "ALERT_PROTOCOL_VERSION" in reason or reason == "UNSUPPORTED_PROTOCOL":
        return SecurityError(
            f"{address} supports no version of TLS that this client uses",
            "Check ssl.enabled.protocols on both sides.",
        )
    return None


def _failure(error: OSError, address: Address) -> ClientError:
    """Return the error of a TLS handshake that failed for another reason than a refusal."""
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason in _NO_TLS:
        return SecurityError(
            f"the TLS handshake with {address} failed: the listener does not seem to use TLS",
            "Use the port of an SSL or SASL_SSL listener, or set security.protocol to PLAINTEXT or "
            "SASL_PLAINTEXT.",
        )
    if isinstance(error, _CLOSED) or error.errno == errno.ENOTCONN:
        return ClosedAtOnceError(
            f"{address} closed the connection during the TLS handshake",
            "The listener may not use TLS (then set security.protocol to PLAINTEXT or "
            "SASL_PLAINTEXT, or use another port). It may require another version of TLS "
            "(ssl.enabled.protocols). Or it has refused the connection because of a limit "
            "(max.connections, max.connections.per.ip). The node's log has the reason.",
        )
    return SecurityError(
        f"the TLS handshake with {address} failed: {reason or error}",
        "The node's log has the reason.",
    )


def _distrust(error: ssl.SSLCertVerificationError, address: Address) -> SecurityError:
    code = error.verify_code
    if code in _OTHER_HOST:
        return SecurityError(
            f"the certificate of {address} is for another host: {error.verify_message}",
            "Use a host name that is in the certificate. To accept any name, set "
            "ssl.endpoint.identification.algorithm to nothing.",
        )
    if code in _NOT_VALID_NOW:
        return SecurityError(
            f"the certificate of {address} {_NOT_VALID_NOW[code]}",
            "The broker needs a new certificate, or a clock is wrong.",
        )
    return SecurityError(
        f"the certificate of {address} is not trusted: {error.verify_message}",
        "Set ssl.truststore.location (or ssl.ca.location) to a file with the certificate of "
        "its issuer.",
    )
