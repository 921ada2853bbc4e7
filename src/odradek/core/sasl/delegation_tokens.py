"""Delegation tokens as passwords of SCRAM (KIP-48; Kafka's DelegationTokenManager).

A token has an id and an HMAC. The HMAC is computed from the id with `delegation.token.secret.key`,
which all nodes of the cluster share. So the metadata log has the id, but not the HMAC. A client
logs in with the id as the user name and the HMAC in base64 as the password.
"""

from __future__ import annotations

import base64
import hmac
from typing import NamedTuple

from odradek.config.checks import Secret
from odradek.core.metadata.image import ScramCredential
from odradek.core.sasl.scram_keys import ITERATIONS_MIN, ScramMechanism, keys_of, salted_password

SALT_BYTES = 20


class TokenCredential(NamedTuple):
    """The credential of a token, and what the server notes about a client that logs in with it."""

    credential: ScramCredential
    owner: str
    """The name of the token's owner, which becomes the user."""
    expires_ms: int
    """When the token expires, as monotonic time."""


def token_hmac(secret: Secret, token_id: str) -> bytes:
    """Return the HMAC of a token (HMAC-SHA-512)."""
    return hmac.digest(secret.value.encode(), token_id.encode(), "sha512")


def token_password(mac: bytes) -> str:
    """Return the password that belongs to the HMAC of a token."""
    return base64.b64encode(mac).decode()


def token_credential(mechanism: ScramMechanism, mac: bytes, salt: bytes) -> ScramCredential:
    """Return the credential of a token for a mechanism. This takes some milliseconds."""
    salted = salted_password(mechanism, token_password(mac), salt, ITERATIONS_MIN)
    return ScramCredential(salt, *keys_of(mechanism, salted), ITERATIONS_MIN)
