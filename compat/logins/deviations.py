"""What clients say to Odradek, where it is not what they say to Apache Kafka.

The alerts of TLS come from the libraries: OpenSSL's alert about a certificate of a client is more precise
than Java's.

If no rule applies to a name of Kerberos, Apache Kafka accepts the login, and closes the connection at the
next request. Odradek refuses the login.
"""

from __future__ import annotations

from collections.abc import Mapping

_MUTUAL = "SSL, certificate of the client"
_JAVA = "SslAuthenticationException: Failed to process post-handshake messages"
_LIBRDKAFKA = "_TRANSPORT: ssl://HOST:PORT/bootstrap: Receive failed: error:{} (after N ms in state APIVERSION_QUERY)"
_OWN = "SecurityError: HOST:PORT does not accept this client's certificate, or needs one"
_ALERTS = {
    "no certificate": (
        "certificate_required",
        "0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert number 116",
        "certificate required",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    ),
    "certificate of another authority": (
        "unknown_ca",
        "0A000418:SSL routines::tlsv1 alert unknown ca: SSL alert number 48",
        "unknown certificate authority",
        "TLSV1_ALERT_UNKNOWN_CA",
    ),
    "expired certificate": (
        "certificate_expired",
        "0A000415:SSL routines::ssl/tls alert certificate expired: SSL alert number 45",
        "expired certificate",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    ),
}


def _alerts() -> dict[tuple[str, str, str], tuple[str, ...]]:
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for case, (java, librdkafka, go, own) in _ALERTS.items():
        alert = f"SSLHandshakeException: Received fatal alert: {java}"
        found[_MUTUAL, case, "java"] = (_JAVA, alert)
        found[_MUTUAL, case, "librdkafka"] = (_LIBRDKAFKA.format(librdkafka),)
        found[_MUTUAL, case, "franz-go"] = (f"remote error: tls: {go}",)
        for each in ("odradek", "odradek-aio"):
            found[_MUTUAL, case, each] = (f"{_OWN} ({own})",)
    return found


_KERBEROS = "SASL_PLAINTEXT, GSSAPI", "no rule applies to the name"
_REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "GSSAPI"
)

DEVIATIONS: Mapping[tuple[str, str, str], tuple[str, ...]] = {
    **_alerts(),
    (*_KERBEROS, "java"): (f"SaslAuthenticationException: {_REFUSED}",),
    (*_KERBEROS, "librdkafka"): (
        "_AUTHENTICATION: sasl_plaintext://HOST:PORT/bootstrap: SASL authentication error: "
        f"{_REFUSED} (after N ms in state AUTH_REQ)",
    ),
    (*_KERBEROS, "franz-go"): (
        f"SASL_AUTHENTICATION_FAILED: SASL Authentication failed.: {_REFUSED}",
    ),
    (*_KERBEROS, "aiokafka"): (
        "KafkaConnectionError: KafkaConnectionError: Unable to bootstrap from "
        "[('HOST:PORT, <AddressFamily.AF_UNSPEC: 0>)]",
        f'Unable connect to "HOST:PORT": [Error 58] SaslAuthenticationFailed: {_REFUSED}',
    ),
}
"""By row, case and client."""
