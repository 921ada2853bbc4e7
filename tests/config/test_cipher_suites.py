"""The choice of cipher suites."""

from __future__ import annotations

import ssl

import pytest

from odradek.client.security import parse_security
from odradek.config.cipher_suites import VERSIONS, choose
from odradek.config.load import load

OF_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
OF_12 = {
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "SSL_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}


@pytest.mark.parametrize(("name", "openssl_name"), OF_12.items())
def test_openssl_knows_the_suites(name: str, openssl_name: str) -> None:
    choice = choose([name], VERSIONS)
    assert choice == (("TLSv1.2",), openssl_name, ())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(f"{choice.ciphers}:@SECLEVEL=0")
    assert openssl_name in {each["name"] for each in context.get_ciphers()}


def test_the_versions_of_the_suites_remain() -> None:
    (name, openssl_name) = next(iter(OF_12.items()))
    assert choose([], VERSIONS) == (VERSIONS, "", ())
    assert choose(OF_13, VERSIONS) == (("TLSv1.3",), "", ())
    assert choose([*OF_13, name], VERSIONS) == (VERSIONS, openssl_name, ())
    assert choose([*OF_13, name], ["TLSv1.3"]) == (("TLSv1.3",), "", ())


def test_what_cannot_be_chosen_is_told() -> None:
    problems = choose([*OF_13[:2], "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"], VERSIONS).problems
    assert problems == (
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384 cannot be offered",
        "TLS_CHACHA20_POLY1305_SHA256 cannot be excluded from TLS 1.3",
    )
    _, warnings = load({}, {"ssl.cipher.suites": OF_13[0]})
    (warning,) = warnings
    assert warning.startswith("ssl.cipher.suites: TLS_AES_256_GCM_SHA384, TLS_CHACHA20")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["ECDHE-RSA-AES256-GCM-SHA384"], "is not the name of a cipher suite, such as TLS_"),
        (["TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"], "none of these suites can be used with TLSv1.2"),
    ],
)
def test_what_leaves_nothing_is_an_error(names: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        choose(names, VERSIONS)


def test_clients_have_names_of_java_or_of_librdkafka() -> None:
    for text in ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384:!aNULL"):
        tls = parse_security({"security.protocol": "SSL", "ssl.cipher.suites": text}).tls
        assert tls is not None
        assert tls.ciphers.startswith("ECDHE-RSA-AES256-GCM-SHA384")
    with pytest.raises(ValueError, match=r"ssl\.cipher\.suites: none of these"):
        parse_security({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_DHE_X"})
