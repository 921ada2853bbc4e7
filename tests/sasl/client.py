"""The client's side of SASL, independent of the code under test."""

import base64
import hashlib
import hmac


def plain(user, password, authorization_id=""):
    return f"{authorization_id}\0{user}\0{password}".encode()


class ScramClient:
    """The client's messages of one SCRAM exchange. `verify` checks the server's last message."""

    def __init__(self, hash_name, user, password, nonce="abcdefgh", header="n,,", extensions=""):
        self.hash_name = hash_name
        self.password = password
        self.header = header
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extensions}"
        self.signed = b""
        self.salted = b""

    def first(self):
        return f"{self.header}{self.bare}".encode()

    def final(self, server_first):
        fields = dict(each.split("=", 1) for each in server_first.decode().split(","))
        self.salted = hashlib.pbkdf2_hmac(
            self.hash_name,
            self.password.encode(),
            base64.b64decode(fields["s"]),
            int(fields["i"]),
        )
        channel = base64.b64encode(self.header.encode()).decode()
        without_proof = f"c={channel},r={fields['r']}"
        self.signed = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        client_key = self._hmac(self.salted, b"Client Key")
        stored_key = hashlib.new(self.hash_name, client_key).digest()
        signature = self._hmac(stored_key, self.signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final):
        server_key = self._hmac(self.salted, b"Server Key")
        expected = base64.b64encode(self._hmac(server_key, self.signed))
        assert server_final == b"v=" + expected

    def _hmac(self, key, message):
        return hmac.new(key, message, self.hash_name).digest()
