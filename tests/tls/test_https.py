"""Documents are fetched over HTTPS, if the server is trusted."""

import ssl

import pytest
from tests.env.test_http import OK, serving

from odradek.env.http import FetchError, Request, fetch
from odradek.env.tls_files import ClientTls


def test_https(pki):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.server)

    def answer(connected, request):
        connected.sendall(OK + b"Content-Length: 2\r\n\r\n{}")

    trusted = ClientTls(trust_file=str(pki.ca))
    with serving(answer, context) as port:
        assert fetch(Request(f"https://127.0.0.1:{port}/", tls=trusted)).body == b"{}"
    with (
        serving(answer, context) as port,
        pytest.raises(FetchError, match=r"certificate verify failed|CERTIFICATE"),
    ):
        fetch(Request(f"https://127.0.0.1:{port}/"))
    with (
        serving(answer) as port,
        pytest.raises(FetchError, match="cannot be fetched"),
    ):
        fetch(Request(f"https://127.0.0.1:{port}/", tls=trusted))
    missing = ClientTls(trust_file="/no/such")
    with (
        serving(answer) as port,
        pytest.raises(FetchError, match="cannot use the certificates in /no/such"),
    ):
        fetch(Request(f"https://127.0.0.1:{port}/", tls=missing))
