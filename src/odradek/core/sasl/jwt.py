"""Validates signed access tokens (Kafka's BrokerJwtValidator, with the rules of jose4j).

The signature must belong to a key of the issuer (see `jwks`). The claims `exp` and `iat` are
required. `nbf` is optional. The allowed difference between clocks is sasl.oauthbearer.clock.skew.seconds.
If sasl.oauthbearer.expected.issuer is set, `iss` must be equal to it. If
sasl.oauthbearer.expected.audience is set, `aud` must have one of the audiences; otherwise a token
with an audience is accepted only if the settings allow any audience. The user is the claim `sub`, or
the claim sasl.oauthbearer.sub.claim.name.
"""

from __future__ import annotations

from typing import Protocol

from odradek.config.oauth import SignedTokenSettings
from odradek.core.sasl.jwks import KeySet, NoSuchKey
from odradek.core.sasl.tokens import (
    AccessToken,
    Claims,
    InvalidToken,
    ParsedToken,
    number_claim,
    parse_token,
    text_claim,
)


class Keys(Protocol):
    """The keys of the issuer."""

    @property
    def keys(self) -> KeySet:
        """The newest keys."""
        ...

    def miss(self, key_id: str) -> None:
        """Note that a token names a key that is missing."""
        ...


_NESTED = frozenset(("jwt", "application/jwt"))


class SignedTokens:
    """Validates tokens for one listener."""

    def __init__(self, settings: SignedTokenSettings, issuer: Keys) -> None:
        self._settings = settings
        self._issuer = issuer

    def validate(self, token: str, now_ms: int) -> AccessToken:
        """Validate a token at a time since 1970.

        Raises:
            InvalidToken: the token is not accepted.
        """
        parsed = parse_token(token)
        self._verify(parsed)
        claims = parsed.claims()
        expires_s = self._check_times(claims, now_ms // 1000)
        self._check_parties(claims)
        text_claim(claims, "jti")
        text_claim(claims, "sub")
        self._check_scopes(claims.get(self._settings.scope_claim))
        user = text_claim(claims, self._settings.subject_claim)
        return AccessToken(
            _not_blank(user, f"the claim {self._settings.subject_claim}"), expires_s * 1000
        )

    def _verify(self, parsed: ParsedToken) -> None:
        header = parsed.header
        if "crit" in header or "b64" in header:
            raise InvalidToken("the header has extensions that must be understood")
        if (text_claim(header, "cty") or "").lower() in _NESTED:
            raise InvalidToken("the token contains another token")
        try:
            key = self._issuer.keys.select(header)
        except NoSuchKey as missing:
            if missing.key_id is not None:
                self._issuer.miss(missing.key_id)
            raise
        key.verify(str(header["alg"]), parsed.signed, parsed.signature)

    def _check_times(self, claims: Claims, now_s: int) -> int:
        """Check the times, and return the expiration time in seconds."""
        expires_s, issued_s, begins_s = (_seconds(claims, each) for each in ("exp", "iat", "nbf"))
        if expires_s is None or issued_s is None:
            raise InvalidToken("one of the claims exp and iat is missing")
        skew_s = self._settings.clock_skew_seconds
        if expires_s < 0 or now_s - skew_s >= expires_s:
            raise InvalidToken("the token has expired")
        if issued_s < 0:
            raise InvalidToken("the claim iat is negative")
        if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
            raise InvalidToken("the token expires before it is valid")
        if begins_s is not None and now_s + skew_s < begins_s:
            raise InvalidToken("the token is not valid yet")
        return expires_s

    def _check_parties(self, claims: Claims) -> None:
        settings = self._settings
        issuer = text_claim(claims, "iss")
        if settings.issuer is not None and issuer != settings.issuer:
            raise InvalidToken("the issuer is not sasl.oauthbearer.expected.issuer")
        audience = claims.get("aud")
        if audience is None:
            if settings.audiences:
                raise InvalidToken("the audience is missing")
            return
        audiences = audience if isinstance(audience, list) else [audience]
        if not all(isinstance(each, str) for each in audiences):
            raise InvalidToken("the claim aud is not a text or a list of texts")
        is_any = settings.allows_any_audience and not settings.audiences
        if not is_any and settings.audiences.isdisjoint(audiences):
            raise InvalidToken("the audience is not in sasl.oauthbearer.expected.audience")

    def _check_scopes(self, value: object) -> None:
        """Check the form of the scopes, as Kafka does; they have no effect."""
        name = f"the claim {self._settings.scope_claim}"
        scopes = value if isinstance(value, list) else [value] if isinstance(value, str) else []
        texts = [_not_blank(each if isinstance(each, str) else None, name) for each in scopes]
        if len(set(texts)) != len(texts):
            raise InvalidToken(f"{name} has duplicates")


def _seconds(claims: Claims, name: str) -> int | None:
    """Return a time without its fraction."""
    value = number_claim(claims, name)
    return None if value is None else int(value)


def _not_blank(text: str | None, what: str) -> str:
    stripped = (text or "").strip()
    if not stripped:
        raise InvalidToken(f"{what} is missing or empty")
    return stripped
