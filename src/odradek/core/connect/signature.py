"""Requests between workers are signed with the session key of the cluster (KIP-507)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from odradek.core.connect.config_log import SessionKey
from odradek.core.connect.errors import ConnectError, RestError, bad_request

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"
_HASHES = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
}
"""Java's names of the algorithms that sign."""


def signed(body: bytes, key: SessionKey, algorithm: str) -> dict[str, str]:
    """Return the headers that sign a request.

    Raises:
        ConnectError: the algorithm is unknown.
    """
    return {
        SIGNATURE: base64.b64encode(_sign(body, key.secret, algorithm)).decode(),
        ALGORITHM: algorithm,
    }


def _sign(body: bytes, secret: bytes, algorithm: str) -> bytes:
    name = _HASHES.get(algorithm)
    if name is None:
        raise ConnectError(f"Algorithm {algorithm} not available")
    return hmac.new(secret, body, getattr(hashlib, name)).digest()


def check_signature(
    headers: Mapping[str, str], body: bytes, key: SessionKey | None, accepted: Sequence[str]
) -> None:
    """Check the signature of a request. Names of `headers` are in lower case.

    Raises:
        RestError: it is missing or wrong, or this worker does not know the key yet.
    """
    algorithm, signature = headers.get(ALGORITHM.lower()), headers.get(SIGNATURE.lower())
    if algorithm is None or signature is None:
        raise bad_request("Internal request missing required signature")
    if algorithm not in _HASHES:
        raise bad_request(f"Algorithm {algorithm} not available")
    try:
        found = base64.b64decode(signature, validate=True)
    except (ValueError, binascii.Error):
        raise bad_request("Illegal base64 character in the signature") from None
    if algorithm not in accepted:
        raise bad_request(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(accepted)}]. Check that all workers' "
            "configuration files permit the same set of signature algorithms, and correct any "
            "misconfigured worker and restart it."
        )
    if key is None:
        raise RestError(
            503,
            "This worker is still starting up and has not been able to read a session key from the config "
            "topic yet",
        )
    if not hmac.compare_digest(found, _sign(body, key.secret, algorithm)):
        raise RestError(403, "Internal request contained invalid signature.")
