"""The mechanism OAUTHBEARER (RFC 7628, KIP-255, KIP-768): the client sends an access token.

The separator of the client's message is %x01, here `^`:

    client   n,a=AUTHORIZATION_ID,^auth=Bearer TOKEN^NAME=VALUE^^
    server   nothing, or {"status":"invalid_token"}
    client   %x01, after an error

The authorization id is optional, and must be the name of the token's user. The pairs NAME=VALUE are
extensions (KIP-342). They have no effect. The rules and messages are those of Kafka's
OAuthBearerSaslServer. So an invalid token gets a response without an error code whose token is the
JSON object. The authentication fails with this object as its message when the client has sent the
last message. The client may also send another token instead, but only once, unlike in Kafka: so the
delay of failed authentications limits how often tokens are tried.

The token is validated by `jwt`, or without signatures by `unsecured_jwt`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from odradek.config.oauth import OAUTHBEARER
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.tokens import AccessToken, InvalidToken

SEPARATOR = "\x01"
AFTER_ERROR = SEPARATOR.encode()
"""The client's message after an error."""

Validate = Callable[[str], AccessToken]
"""Validates a token. The time of the returned token is monotonic. It may raise InvalidToken."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_CLIENT_MESSAGE = re.compile(rf"n,(?:a=(?P<id>{_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_AUTH = "auth"


class OAuthBearerServer:
    """The server's side of one authentication."""

    name = OAUTHBEARER
    is_by_delegation_token = False
    is_slow = False

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._error = ""
        """The error that the client has received; empty without one."""
        self._reason = ""
        self.user: str | None = None
        self.token_expires_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Validate the access token in the client's message; see `Mechanism`."""
        if token == AFTER_ERROR and self._error:
            raise Rejected(self._error, self._reason)
        found = _CLIENT_MESSAGE.fullmatch(token.decode("utf-8", "replace"))
        if found is None:
            raise Rejected
        pairs = dict(each.split("=", 1) for each in found["pairs"].split(SEPARATOR) if each)
        bearer = _BEARER.fullmatch(pairs.get(_AUTH, ""))
        if bearer is None:
            raise Rejected
        try:
            accepted = self._validate(bearer["token"])
        except InvalidToken as problem:
            if self._error:
                raise Rejected(_error(problem), problem.reason) from problem
            self._error, self._reason = _error(problem), problem.reason
            return self._error.encode()
        if found["id"] not in (None, accepted.user):
            raise Rejected(
                f"Authentication failed: Client requested an authorization id ({found['id']}) that "
                f"is different from the token's principal name ({accepted.user})",
                "the authorization id is not the user of the token",
            )
        self.user, self.token_expires_ms = accepted.user, accepted.expires_ms
        return b""


def _error(problem: InvalidToken) -> str:
    if problem.missing_scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{problem.missing_scope}"}}'


def client_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's first message."""
    pairs = {_AUTH: f"Bearer {token}", **extensions}
    text = "".join(f"{name}={value}{SEPARATOR}" for name, value in pairs.items())
    return f"n,,{SEPARATOR}{text}{SEPARATOR}".encode()


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Check the names and values of extensions.

    Raises:
        ValueError: an extension cannot be sent.
    """
    for name, value in extensions.items():
        if name == _AUTH or not _EXTENSION_NAME.fullmatch(name):
            raise ValueError(f"the extension name {name} is invalid")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(f"the value of the extension {name} is invalid")
