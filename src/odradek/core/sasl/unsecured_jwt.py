"""Validates access tokens without signatures (Kafka's OAuthBearerUnsecuredValidatorCallbackHandler).

Everybody can make such a token for any user. So this is only for development. A token has the
algorithm `none` and an empty signature. Tokens with signatures are not accepted. `exp` and the
claim with the user are required. The options are those of OAuthBearerLoginModule in the listener's
sasl.jaas.config.
"""

from __future__ import annotations

from odradek.config.oauth import UnsecuredTokenSettings
from odradek.core.sasl.tokens import (
    AccessToken,
    Claims,
    InvalidToken,
    number_claim,
    parse_token,
    text_claim,
)


class UnsecuredTokens:
    """Validates tokens for one listener."""

    def __init__(self, settings: UnsecuredTokenSettings) -> None:
        self._settings = settings

    def validate(self, token: str, now_ms: int) -> AccessToken:
        """Validate a token at a time since 1970.

        Raises:
            InvalidToken: the token is not accepted.
        """
        settings = self._settings
        parsed = parse_token(token)
        if parsed.header.get("alg") != "none" or not token.endswith("."):
            raise InvalidToken("the token must have the algorithm none and no signature")
        claims = parsed.claims()
        user = text_claim(claims, settings.principal_claim)
        if user is None or not user.strip():
            raise InvalidToken(f"the claim {settings.principal_claim} is missing or empty")
        expires_s, issued_s = number_claim(claims, "exp"), number_claim(claims, "iat")
        if expires_s is None:
            raise InvalidToken("the claim exp is missing")
        if now_ms - settings.clock_skew_ms >= 1000 * expires_s:
            raise InvalidToken("the token has expired")
        if issued_s is not None:
            if 1000 * issued_s > now_ms + settings.clock_skew_ms:
                raise InvalidToken("the token is issued in the future")
            if expires_s <= issued_s:
                raise InvalidToken("the token expires before it is valid")
        scopes = _scopes(claims, settings.scope_claim)
        if not scopes.issuperset(settings.required_scopes):
            raise InvalidToken(
                "a required scope is missing", f"[{', '.join(settings.required_scopes)}]"
            )
        return AccessToken(user, round(1000 * expires_s))


def _scopes(claims: Claims, name: str) -> set[str]:
    value = claims.get(name)
    if value is None:
        return set()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise InvalidToken(f"the claim {name} is not a text or a list")
    return {str(each).strip() for each in value if str(each).strip()}
