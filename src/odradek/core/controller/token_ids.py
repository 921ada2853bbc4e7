"""The ids of delegation tokens by their HMACs, so that the controller finds a token without a scan.

Requests to renew and to expire a token name it by its HMAC. Like `PartitionIndex`, the index is
built once, and each change of the metadata updates it.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.checks import Secret
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import DelegationToken
from odradek.core.sasl.delegation_tokens import token_hmac


class TokenIds:
    """The ids of the tokens of an image. Without a secret key the index is empty."""

    def __init__(self, secret: Secret | None, tokens: Mapping[str, DelegationToken]) -> None:
        """Begin with the tokens of an image.

        `secret` is `delegation.token.secret.key`. Without it, delegation tokens are disabled.
        """
        self._secret = secret
        self._by_hmac: dict[bytes, str] = {}
        if secret:
            self._by_hmac = {token_hmac(secret, token_id): token_id for token_id in tokens}

    @property
    def is_enabled(self) -> bool:
        """Whether there is a secret key."""
        return bool(self._secret)

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        assert self._secret, "tokens are enabled"
        return token_hmac(self._secret, token_id)

    def of(self, hmac: bytes) -> str | None:
        """Return the id of the token with this HMAC; None if there is none."""
        return self._by_hmac.get(hmac)

    def update(self, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        if not self.is_enabled:
            return
        for token_id, token in delta.delegation_tokens.changed.items():
            if token is None:
                self._by_hmac.pop(self.hmac(token_id), None)
            elif token_id not in delta.delegation_tokens.before:
                self._by_hmac[self.hmac(token_id)] = token_id
