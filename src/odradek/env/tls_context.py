"""Reads keys and certificates into contexts of Python's `ssl`."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from odradek.env import key_store, pem
from odradek.env.tls_files import ClientAuth, ClientTls, ServerTls, TlsError

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_EACH_IS_TRUSTED = ssl.VERIFY_X509_PARTIAL_CHAIN
"""As in Java, each trusted certificate is trusted by itself, even if another one has issued it."""


def make_context(tls: ServerTls) -> ssl.SSLContext:
    """Return the context of a listener.

    Raises:
        TlsError: a file cannot be read or is malformed, or a version is not supported.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _use_versions(context, tls.versions, tls.ciphers)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= _EACH_IS_TRUSTED
    if tls.key_text:
        _use_key_text(context, tls.key_text, tls.key_password)
    else:
        words = tls.key_password, tls.inner_key_password
        _use_key(context, tls.key_file, None, words, tls.key_type)
    if tls.trust_file is not None:
        _trust(context, tls.trust_file, tls.trust_password, tls.trust_type)
    elif tls.trust_text:
        _trust_text(context, tls.trust_text)
    context.verify_mode = _VERIFY_MODES[tls.client_auth]
    return context


def make_client_context(tls: ClientTls) -> ssl.SSLContext:
    """Return the context of a connection to a server.

    Raises:
        TlsError: a file cannot be read or is malformed, or a version is not supported.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _use_versions(context, tls.versions, tls.ciphers)
    context.check_hostname = tls.verifies_server and tls.verifies_host
    context.verify_mode = ssl.CERT_REQUIRED if tls.verifies_server else ssl.CERT_NONE
    context.verify_flags |= _EACH_IS_TRUSTED
    if tls.trust_file is not None:
        _trust(context, tls.trust_file, tls.trust_password, tls.trust_type)
    elif tls.trust_text:
        _trust_text(context, tls.trust_text)
    else:
        context.load_default_certs()
    if tls.key_file is not None:
        words = tls.key_password, tls.inner_key_password
        _use_key(context, tls.key_file, tls.certificate_file, words, tls.key_type)
    elif tls.key_text:
        _use_key_text(context, tls.key_text, tls.key_password)
    return context


def _use_versions(context: ssl.SSLContext, names: Sequence[str], ciphers: str) -> None:
    try:
        versions = sorted(_VERSIONS[each] for each in names)
    except KeyError as error:
        raise TlsError(f"{error.args[0]} is not one of {', '.join(_VERSIONS)}") from None
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise TlsError(f"OpenSSL has none of the cipher suites {ciphers}") from error


def _use_key(
    context: ssl.SSLContext,
    key_file: str,
    certificates: str | None,
    words: tuple[str, str],
    store_type: str,
) -> None:
    """`words` are the password of the file, and that of the key in it if it differs."""
    word, inner_word = words
    try:
        if key_store.is_key_store(key_file, store_type):
            with key_store.key_file(key_file, word, inner_word) as (made, made_word):
                context.load_cert_chain(made, password=made_word)
        else:
            # Without a password, OpenSSL would ask on the terminal.
            context.load_cert_chain(certificates or key_file, key_file, password=lambda: word)
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot use the key and the certificate in {key_file}: {error}") from error


def _use_key_text(context: ssl.SSLContext, text: str, word: str) -> None:
    try:
        with pem.key_file(pem.with_lines(text)) as made:
            context.load_cert_chain(made, password=lambda: word)
    except (OSError, ValueError) as error:
        raise TlsError(
            "cannot use the key and the certificates in ssl.keystore.key and "
            f"ssl.keystore.certificate.chain: {error}"
        ) from error


def _trust_text(context: ssl.SSLContext, text: str) -> None:
    try:
        context.load_verify_locations(cadata=pem.with_lines(text))
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot use the trusted certificates: {error}") from error


def _trust(context: ssl.SSLContext, file: str, word: str, store_type: str) -> None:
    try:
        if key_store.is_key_store(file, store_type):
            context.load_verify_locations(cadata=key_store.certificates(file, word))
        else:
            context.load_verify_locations(file)
    except (OSError, ValueError) as error:
        raise TlsError(f"cannot use the certificates in {file}: {error}") from error
