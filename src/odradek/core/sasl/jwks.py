"""The keys with which an issuer signs tokens: a JSON Web Key Set (RFC 7517).

A key is selected as jose4j's VerificationJwkSelector does. The type of the key must be the type of
the token's algorithm, so that the algorithm `none`, or HMAC with a public key as the secret, find
no key. If the token names a key id, the key must have it. The package joserfc verifies signatures.
It is imported when keys are parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.core.sasl.tokens import Claims, InvalidToken, decode_base64url, text_claim

if TYPE_CHECKING:
    from joserfc.jwk import Key

KEYS_MAX = 1000
KEY_ID_LENGTH_MAX = 1000
RSA_BITS_MIN = 2048

_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct"}
_SIZES = ("256", "384", "512")
ALGORITHMS: Mapping[str, str] = {
    **{prefix + size: kind for prefix, kind in _TYPES.items() for size in _SIZES},
    "EdDSA": "OKP",
}
"""The algorithms of tokens, and the types of their keys."""
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_PARAMETERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "oct": ("k",), "OKP": ("crv", "x")}
"""The parameters of public keys, by type."""


class NoSuchKey(InvalidToken):
    """There is no key for a token. `key_id` is the id that the token names; None if it names none."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("there is no key that verifies the token")
        self.key_id = key_id


class MalformedKeys(Exception):
    """A text that is not a set of keys."""


class VerificationKey:
    """One key. `facts` are the parameters of the key; `key` is None if it cannot be used."""

    def __init__(self, facts: Claims, key: Key | None) -> None:
        self.facts = facts
        self._key = key

    def verify(self, algorithm: str, signed: bytes, signature: bytes) -> None:
        """Verify a signature.

        Raises:
            InvalidToken: the signature is wrong.
        """
        from joserfc.errors import JoseError
        from joserfc.jws import JWSRegistry

        if self._key is None:
            raise InvalidToken("the key of the token cannot be used")
        if algorithm.startswith("HS") and len(self._raw()) * 8 < int(algorithm[2:]):
            raise InvalidToken("the key of the token is too short")
        try:
            model = JWSRegistry.algorithms[algorithm]
            model.check_key(self._key)
            is_right = model.verify(signed, signature, self._key)
        except (JoseError, ValueError) as error:
            raise InvalidToken("the key does not fit the algorithm of the token") from error
        if not is_right:
            raise InvalidToken("the signature is wrong")

    def _raw(self) -> bytes:
        raw = None if self._key is None else self._key.raw_value
        assert isinstance(raw, bytes), "the key of an HMAC is a text"
        return raw


class KeySet:
    """The keys of an issuer."""

    def __init__(self, keys: Iterable[VerificationKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def ids(self) -> list[str]:
        """The ids of the keys."""
        ids = (each.facts.get("kid") for each in self._keys)
        return [each for each in ids if isinstance(each, str)]

    def select(self, header: Claims) -> VerificationKey:
        """Return the key for a token with this header.

        Raises:
            InvalidToken: the algorithm is not supported.
            NoSuchKey: there is no such key.
        """
        algorithm, key_id = text_claim(header, "alg"), text_claim(header, "kid")
        if algorithm is None or algorithm not in ALGORITHMS:
            raise InvalidToken("the algorithm of the token is not supported")
        found = [each.facts for each in self._keys]
        found = [each for each in found if each.get("kty") == ALGORITHMS[algorithm]]
        if key_id is not None:
            found = [each for each in found if each.get("kid") == key_id]
        found = _with(found, "use", "sig")
        found = [each for each in found if _may_verify(each.get("key_ops"))]
        for name in ("x5t", "x5t#S256"):
            if header.get(name) is not None:
                found = _with(found, name, header[name])
        if len(found) > 1:
            found = _with(found, "alg", algorithm)
        if len(found) > 1 and algorithm in _CURVES:
            found = _with(found, "crv", _CURVES[algorithm])
        if not found:
            raise NoSuchKey(key_id)
        return next(each for each in self._keys if each.facts is found[0])


def _with(keys: list[Claims], name: str, value: object) -> list[Claims]:
    """Return the keys whose parameter has this value, or is missing."""
    return [each for each in keys if each.get(name) in (None, value)]


def _may_verify(operations: object) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


def parse_keys(text: bytes) -> KeySet:
    """Parse a JSON Web Key Set. Keys that are malformed or of an unknown type are left out.

    This imports joserfc and cryptography, which takes some time.

    Raises:
        MalformedKeys: the text is not a set of keys.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedKeys("it is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise MalformedKeys("it has no list of keys")
    if len(keys) > KEYS_MAX:
        raise MalformedKeys(f"it has {len(keys)} keys; at most {KEYS_MAX} are allowed")
    parsed = (_parsed(each) for each in keys if isinstance(each, dict))
    return KeySet(each for each in parsed if each is not None)


def _parsed(facts: Claims) -> VerificationKey | None:
    """Return the key; None if it is malformed. A key that is too short verifies nothing."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    kind = facts.get("kty")
    if not isinstance(kind, str) or kind not in _PARAMETERS:
        return None
    parameters: dict[str, str | list[str]] = {"kty": kind}
    for name in _PARAMETERS[kind]:
        value = facts.get(name)
        if not isinstance(value, str):
            return None
        parameters[name] = value
    if kind == "RSA" and _bits(str(parameters["n"])) < RSA_BITS_MIN:
        return VerificationKey(facts, None)
    try:
        return VerificationKey(facts, import_key(parameters))
    except (JoseError, ValueError, UnsupportedAlgorithm, KeyError):
        return None


def _bits(modulus: str) -> int:
    try:
        return int.from_bytes(decode_base64url(modulus, "modulus"), "big").bit_length()
    except InvalidToken:
        return 0
