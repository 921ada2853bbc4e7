"""An issuer of access tokens, independent of the code under test: keys, tokens, and an endpoint."""

import base64
import functools
import hashlib
import hmac
import http.server
import json
import threading

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HASHES = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
CURVES = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value):
    return encoded(value if isinstance(value, bytes) else json.dumps(value).encode())


def number(value, size=None):
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Key:
    """A private key. `jwk` is the public key, with further parameters."""

    def __init__(self, private, facts, extra):
        self.private = private
        self.jwk = {**facts, **extra}

    def sign(self, algorithm, data):
        size = algorithm[2:]
        if algorithm.startswith("HS"):
            return hmac.digest(self.private, data, f"sha{size}")
        if algorithm.startswith("RS"):
            return self.private.sign(data, padding.PKCS1v15(), HASHES[size]())
        if algorithm.startswith("PS"):
            length = HASHES[size]().digest_size
            pss = padding.PSS(padding.MGF1(HASHES[size]()), length)
            return self.private.sign(data, pss, HASHES[size]())
        if algorithm == "EdDSA":
            return self.private.sign(data)
        r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(HASHES[size]())))
        length = (self.private.curve.key_size + 7) // 8
        return r.to_bytes(length, "big") + s.to_bytes(length, "big")

    @property
    def pem(self):
        public = self.private.public_key()
        return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@functools.cache
def _rsa(bits, which):
    return rsa.generate_private_key(65537, bits)


def rsa_key(which="first", bits=2048, **extra):
    private = _rsa(bits, which)
    numbers = private.public_key().public_numbers()
    return Key(private, {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}, extra)


def ec_key(curve="P-256", **extra):
    private = ec.generate_private_key(CURVES[curve]())
    numbers = private.public_key().public_numbers()
    size = (private.curve.key_size + 7) // 8
    facts = {"kty": "EC", "crv": curve, "x": number(numbers.x, size), "y": number(numbers.y, size)}
    return Key(private, facts, extra)


def okp_key(**extra):
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return Key(private, {"kty": "OKP", "crv": "Ed25519", "x": encoded(raw)}, extra)


def secret_key(secret, **extra):
    return Key(secret, {"kty": "oct", "k": encoded(secret)}, extra)


def key_set(*keys):
    return json.dumps({"keys": [each if isinstance(each, dict) else each.jwk for each in keys]})


def signed(key, header, claims):
    """A token; the claims may be bytes."""
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{encoded(key.sign(header['alg'], text.encode()))}"


def unsecured(claims, header=None):
    return f"{part(header or {'alg': 'none'})}.{part(claims)}."


def thumbprint(data):
    return encoded(hashlib.sha256(data).digest())


class Endpoint:
    """An HTTP server that answers each path with a document, or with what a function returns.

    A function gets the headers and the body, and returns the status and the document.
    """

    def __init__(self):
        self.documents = {}
        self.requests = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self):
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                endpoint.requests.append((self.path, dict(self.headers), body))
                found = endpoint.documents.get(self.path)
                if callable(found):
                    found = found(self.headers, body)
                status, text = found if isinstance(found, tuple) else (200, found)
                if found is None:
                    status, text = 404, "{}"
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *words):
                pass

        return Handler
