"""Which certificates of clients a listener trusts."""

import ssl

import pytest

from odradek.env.tls_context import make_client_context, make_context
from odradek.env.tls_files import ClientAuth, ClientTls, ServerTls


def shake_hands(client_context, server_context):
    """Complete a handshake of TLS in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server, client, server]
    for side in waiting:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_each_certificate_in_the_trust_store_is_trusted_by_itself(pki):
    """As in Java: alice's certificate is trusted, although its issuer is not in the file."""
    mutual = ServerTls(pki.server, trust_file=pki.alice, client_auth=ClientAuth.REQUIRED)
    shake_hands(make_client_context(ClientTls(pki.ca, key_file=pki.alice)), make_context(mutual))
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        shake_hands(
            make_client_context(ClientTls(pki.ca, key_file=pki.stranger)), make_context(mutual)
        )
