"""What a user can do if SASL fails."""

from __future__ import annotations

from odradek.core.sasl.client import (
    CredentialRefused,
    KerberosFailed,
    MechanismNotEnabled,
    SaslFailure,
    SaslNotExpected,
    ServerNotAuthentic,
)


def sasl_advice(failure: SaslFailure) -> str:
    """Return what the user can do, or nothing."""
    match failure:
        case CredentialRefused():
            return "Check the user, the password (or the access token), and sasl.mechanism."
        case MechanismNotEnabled():
            return "Set sasl.mechanism to an enabled mechanism."
        case SaslNotExpected():
            return "Set security.protocol to PLAINTEXT or SSL, or use the port of another listener."
        case ServerNotAuthentic():
            return "Check the password. The server may also be another one than you expect."
        case KerberosFailed():
            return (
                "Check the key table or the ticket cache (klist), sasl.kerberos.service.name, and "
                "krb5.conf."
            )
        case _:
            return ""
