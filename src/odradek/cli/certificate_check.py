"""Checks the certificate of a listener with TLS handshakes in memory, like a client that connects to it.

The client of these handshakes trusts only the certificate that the listener presents. So they fail
only because of the certificate itself: its names, and the time until which it is valid.
"""

from __future__ import annotations

import contextlib
import ssl
import time

from odradek.broker.access.listener_keys import server_tls
from odradek.config.tls import TlsSettings
from odradek.env.tls_context import make_context
from odradek.env.tls_files import TlsError
from odradek.operations.listener_health import CertificateFacts

DAY_SECONDS = 86_400
FLIGHTS_MAX = 10
"""A handshake needs less messages in each direction."""


def check(tls: TlsSettings, host: str) -> CertificateFacts:
    """Return what a client would say about the certificate of a listener.

    The client connects to `host`. If it is empty, the host is not compared with the certificate.
    """
    try:
        server = make_context(server_tls(tls))
        server.verify_mode = ssl.CERT_NONE  # the client of this test has no certificate
        certificate = _presented(server)
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(certificate))
        trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    except (OSError, TlsError) as error:
        return CertificateFacts(key_problem=str(error))
    trusted.check_hostname = False
    try:
        client = _handshake(server, trusted, "localhost")
    except ssl.SSLCertVerificationError as error:
        if "expired" in error.verify_message:
            return CertificateFacts(days_left=-1)
        return CertificateFacts(key_problem=error.verify_message)
    ends = ssl.cert_time_to_seconds(str((client.getpeercert() or {})["notAfter"]))
    days_left = int((ends - time.time()) // DAY_SECONDS)
    if host:
        trusted.check_hostname = True
        try:
            _handshake(server, trusted, host)
        except ssl.SSLCertVerificationError as error:
            return CertificateFacts(days_left, name_problem=error.verify_message)
    return CertificateFacts(days_left)


def _presented(server: ssl.SSLContext) -> bytes:
    """Return the certificate that a listener presents, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate = _handshake(server, context, "localhost").getpeercert(binary_form=True)
    assert certificate is not None, "a server has a certificate"
    return certificate


def _handshake(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, host: str
) -> ssl.SSLObject:
    """Return the client's end of a connection in memory, after its handshake.

    Raises:
        ssl.SSLError: an end does not accept the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(FLIGHTS_MAX):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
        else:
            return client
    raise ssl.SSLError("the TLS handshake did not end")
