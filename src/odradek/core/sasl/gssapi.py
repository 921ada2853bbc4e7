"""The mechanism GSSAPI (RFC 4752): the client proves its identity with a ticket of Kerberos.

First both sides exchange the tokens of a security context, which the Kerberos library makes and checks.
The side that does not get a token any more sends an empty one. Then they agree on what protects the
connection:

    server   1 byte with the kinds of protection that it offers, 3 bytes with a size; with a checksum
    client   1 byte with one of them, 3 bytes with a size, the authorization id; with a checksum
    server   an empty token

The only kind offered is 1, no protection: Kafka's requests are protected by TLS or not at all. The size is
that of protected messages, so it is 0. As in Kafka (SaslServerCallbackHandler), the authorization id
has no effect: the user is always the one of the ticket. Rules map its name to that of a user
(`odradek.config.kerberos_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum

from odradek.config.kerberos import GSSAPI
from odradek.core.sasl.mechanism import Rejected, TryAgain
from odradek.env.kerberos import KerberosError, SecurityContext
from odradek.model.principal import NoUser

NO_PROTECTION = 1
_SIZE = bytes(3)
_OFFER = bytes((NO_PROTECTION,)) + _SIZE
_LENGTH_MIN = len(_OFFER)


class _Step(Enum):
    """What the client sends next."""

    CONTEXT = "a token of the security context"
    NOTHING = "an empty token, after the last one of the server's context"
    PROTECTION = "the kind of protection"


class GssapiServer:
    """The server's side of one authentication."""

    name = GSSAPI
    token_expires_ms: int | None = None
    is_by_delegation_token = False
    is_slow = True

    def __init__(
        self, accept: Callable[[], SecurityContext], user_of: Callable[[str], str]
    ) -> None:
        """`accept` creates the security context, and `user_of` returns the user of a client's name.

        They may raise KerberosError and NoUser.
        """
        self._accept = accept
        self._user_of = user_of
        self._context: SecurityContext | None = None
        self._step = _Step.CONTEXT
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Process a token; see `Mechanism`."""
        try:
            return self._evaluate(token)
        except KerberosError as error:
            if error.may_succeed_later:
                raise TryAgain(str(error)) from error
            raise Rejected(None, f"Kerberos: {error}") from error
        except NoUser as error:
            raise Rejected(None, str(error)) from error

    def _evaluate(self, token: bytes) -> bytes:
        if self._context is None:
            self._context = self._accept()
        context = self._context
        match self._step:
            case _Step.CONTEXT:
                answer = context.step(token)
                if not context.is_complete:
                    return answer
                if answer:
                    self._step = _Step.NOTHING
                    return answer
                return self._offer(context)
            case _Step.NOTHING:
                if token:
                    raise Rejected(None, "an empty token was expected")
                return self._offer(context)
            case _Step.PROTECTION:
                chosen = context.unwrap(token)
                if len(chosen) < _LENGTH_MIN or chosen[0] != NO_PROTECTION:
                    raise Rejected(None, "the client chose a protection that was not offered")
                self.user = self._user_of(context.peer)
                return b""

    def _offer(self, context: SecurityContext) -> bytes:
        self._step = _Step.PROTECTION
        return context.wrap(_OFFER)


def client_tokens(initiate: Callable[[], SecurityContext]) -> Generator[bytes, bytes, None]:
    """Yield the client's tokens, and get the server's tokens. `initiate` creates the security context.

    Raises:
        KerberosError: there is no ticket, the server is not authentic, or it demands a protection.
    """
    context = initiate()
    token = context.step(b"")
    while True:
        answer = yield token
        if context.is_complete:
            break
        token = context.step(answer)
    offered = context.unwrap(answer)
    if len(offered) < _LENGTH_MIN or not offered[0] & NO_PROTECTION:
        raise KerberosError("the server demands that messages are signed or encrypted")
    yield context.wrap(_OFFER)
