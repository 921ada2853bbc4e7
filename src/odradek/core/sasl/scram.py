"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84).

The exchange has four messages. `,` separates their fields:

    client first   n,,n=USER,r=CLIENT_NONCE
    server first   r=CLIENT_NONCE SERVER_NONCE,s=SALT,i=ITERATIONS
    client final   c=biws,r=CLIENT_NONCE SERVER_NONCE,p=PROOF
    server final   v=SIGNATURE

Both sides compute signatures of all messages before the proof. The client's proof is the XOR of its
client key and its signature. The server computes the client key from the proof and compares its
hash with the stored key. So the password is not sent, and the server does not know it. With the
server's signature the client verifies that the server has the credential.

The accepted messages are those of Kafka's ScramMessages: no channel binding (`n`), and an optional
authorization id that is equal to the user name. Unknown extensions are ignored. Unlike Kafka, a
mandatory extension (`m=`) is rejected, as the RFC requires.

With the extension `tokenauth=true` the client logs in with a delegation token (KIP-48). The user
name is the id of the token. The authenticated user is the owner of the token.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable

from odradek.core.metadata.image import ScramCredential
from odradek.core.sasl.delegation_tokens import TokenCredential
from odradek.core.sasl.mechanism import Rejected
from odradek.core.sasl.scram_keys import ITERATIONS_MIN, ScramMechanism, digest, signature

FindCredential = Callable[[str], ScramCredential | None]
"""Returns the credential of a user for the mechanism; None if there is none."""
FindToken = Callable[[str], TokenCredential | None]
"""Returns the credential of a delegation token by its id; None if there is no such token."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_BASE64 = r"[A-Za-z0-9/+]*={0,2}"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<id>{_NAME}))?,(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c={_BASE64},r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ScramServer:
    """The server's side of one authentication."""

    is_slow = False

    def __init__(
        self,
        mechanism: ScramMechanism,
        find_credential: FindCredential,
        nonce: str,
        find_token: FindToken = lambda token_id: None,
    ) -> None:
        """`nonce` is the server's part of the nonce: random printable characters, no comma."""
        self.name = mechanism.name
        self.user: str | None = None
        self.token_expires_ms: int | None = None
        self.is_by_delegation_token = False
        self._mechanism = mechanism
        self._find_credential = find_credential
        self._find_token = find_token
        self._nonce = nonce
        self._claimed_user = ""
        self._credential: ScramCredential | None = None
        """The credential of the claimed user; None until the first message has arrived."""
        self._first_messages = ""
        """The first message of the client without its header, and the first one of the server."""

    def evaluate(self, token: bytes) -> bytes:
        """Return the server's first or final message; see `Mechanism`."""
        # Bytes that are not UTF-8 become a character that no message may contain.
        message = token.decode("utf-8", "replace")
        if self._credential is None:
            return self._begin(message).encode()
        return self._finish(message, self._credential).encode()

    def _begin(self, message: str) -> str:
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise Rejected
        name = _unescape(found["user"])
        if _is_token(found["extensions"]):
            credential = self._begin_with_token(name)
        else:
            credential = self._find_credential(name)
            self._claimed_user = name
        if credential is None:
            raise Rejected
        if found["id"] is not None and found["id"] != name:
            raise Rejected(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        if credential.iterations < ITERATIONS_MIN:
            raise Rejected
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._credential = credential
        self._first_messages = f"{found['bare']},{answer}"
        return answer

    def _begin_with_token(self, token_id: str) -> ScramCredential | None:
        """Note the owner of a token, and return its credential; None if it does not exist."""
        token = self._find_token(token_id)
        if token is None:
            return None
        self._claimed_user, self.token_expires_ms = token.owner, token.expires_ms
        self.is_by_delegation_token = True
        return token.credential

    def _finish(self, message: str, credential: ScramCredential) -> str:
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None or found["nonce"] != self._nonce:
            raise Rejected
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except binascii.Error:
            raise Rejected from None
        signed = f"{self._first_messages},{found['bare']}".encode()
        client_signature = signature(self._mechanism, credential.stored_key, signed)
        if len(proof) != len(client_signature):
            raise Rejected
        client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
        if not hmac.compare_digest(digest(self._mechanism, client_key), credential.stored_key):
            raise Rejected
        self.user = self._claimed_user
        server_signature = signature(self._mechanism, credential.server_key, signed)
        return f"v={base64.b64encode(server_signature).decode()}"


def _is_token(extensions: str) -> bool:
    """Return whether the extensions say that the user name is the id of a token."""
    values = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return values.get("tokenauth", "").lower() == "true"


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
