"""The delegation tokens with which clients log in (Kafka's DelegationTokenCache).

The tokens are in the metadata image. The credential of a token is computed from its HMAC when a
client uses it for the first time, which takes some milliseconds, and is kept until the token is
removed. (Apache Kafka computes the credentials of all tokens when it learns of them.)
"""

from __future__ import annotations

from odradek.config.checks import Secret
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage, ScramCredential
from odradek.core.sasl.delegation_tokens import (
    SALT_BYTES,
    TokenCredential,
    token_credential,
    token_hmac,
)
from odradek.core.sasl.scram_keys import ScramMechanism
from odradek.env.clock import Clock
from odradek.env.randomness import RandomBytes
from odradek.model.principal import Principal


class DelegationTokens:
    """A `Publisher` that finds tokens. Use it only on the event loop's thread."""

    def __init__(self, secret: Secret | None, clock: Clock, random_bytes: RandomBytes) -> None:
        """`secret` is `delegation.token.secret.key`. Without it no client logs in with a token."""
        self._secret = secret
        self._clock = clock
        self._random_bytes = random_bytes
        self._tokens = EMPTY_IMAGE.delegation_tokens
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        """The credentials that have been used, by token id and mechanism."""

    @property
    def is_enabled(self) -> bool:
        """Whether there is a secret key."""
        return bool(self._secret)

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        assert self._secret, "tokens are enabled"
        return token_hmac(self._secret, token_id)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return what a client needs that logs in with a token; None if there is no such token."""
        token = self._tokens.get(token_id)
        if token is None or not self.is_enabled:
            return None
        known = self._credentials.setdefault(token_id, {})
        credential = known.get(mechanism.name)
        if credential is None:
            salt = self._random_bytes(SALT_BYTES)
            credential = token_credential(mechanism, self.hmac(token_id), salt)
            known[mechanism.name] = credential
        left_ms = token.expiration_timestamp - self._clock.now_ms()
        return TokenCredential(
            credential, Principal.parse(token.owner).name, self._clock.monotonic_ms() + left_ms
        )

    # -- the publisher --------------------------------------------------------------------------

    def load(self, image: MetadataImage) -> None:
        """See `Publisher`."""
        self._tokens = image.delegation_tokens

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `Publisher`."""
        self._tokens = image.delegation_tokens
        for token_id, token in delta.delegation_tokens.changed.items():
            if token is None:
                self._credentials.pop(token_id, None)
