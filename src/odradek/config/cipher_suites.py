"""Chooses the versions and cipher suites of TLS: `ssl.enabled.protocols`, `ssl.cipher.suites`.

The names of suites are those of Java and the RFCs.

A connection uses TLS 1.3 only if one of its three suites is named, and TLS 1.2 only if one of its
suites is. Python cannot choose among the suites of TLS 1.3, so all three are offered then. The
suites of TLS 1.2 are those with AES in GCM or CBC mode, or ChaCha20, whose keys are exchanged with
ECDHE or RSA. Java knows more. They are not offered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

SETTING = "ssl.cipher.suites"
PROTOCOLS = "ssl.enabled.protocols"
VERSIONS = TLS_12, TLS_13 = "TLSv1.2", "TLSv1.3"
OLD_VERSIONS = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello")
"""Versions that are insecure. They are not offered, as Java does not offer them by default."""
_OF_13 = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_OF_12 = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|RSA)_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)|(?P<stream>CHACHA20_POLY1305))_(?P<hash>SHA\d*)"
)
_NAME = re.compile(r"(?:TLS|SSL)_[A-Z0-9_]+")


class Choice(NamedTuple):
    """What a connection may use."""

    versions: tuple[str, ...]
    ciphers: str
    """The suites of TLS 1.2 with OpenSSL's names; empty for OpenSSL's default."""
    problems: tuple[str, ...] = ()
    """How the choice differs from the setting."""


def choose(names: Sequence[str], enabled: Sequence[str]) -> Choice:
    """Return what connections may use. `enabled` are versions; no names mean all suites.

    Raises:
        ValueError: a name or a version is unknown, or nothing is left.
    """
    versions = tuple(each for each in enabled if each in VERSIONS)
    if not versions or not set(enabled) <= {*VERSIONS, *OLD_VERSIONS}:
        raise ValueError(f"{PROTOCOLS} may have {' and '.join(VERSIONS)}")
    if not names:
        return Choice(versions, "")
    ciphers: list[str] = []
    unknown: list[str] = []
    for name in names:
        found = _OF_12.fullmatch(name)
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"{SETTING}: {name} is not the name of a cipher suite, such as {min(_OF_13)}"
            )
        if found is not None:
            ciphers.append(_openssl_name(found))
        elif name not in _OF_13:
            unknown.append(name)
    usable = {TLS_12: bool(ciphers), TLS_13: not _OF_13.isdisjoint(names)}
    left = tuple(each for each in versions if usable[each])
    if not left:
        raise ValueError(
            f"{SETTING}: none of these suites can be used with {' and '.join(versions)}"
        )
    problems = [f"{', '.join(unknown)} cannot be offered"] if unknown else []
    if TLS_13 in left and not _OF_13.issubset(names):
        others = ", ".join(sorted(_OF_13.difference(names)))
        problems.append(f"{others} cannot be excluded from TLS 1.3")
    return Choice(left, ":".join(ciphers) if TLS_12 in left else "", tuple(problems))


def _openssl_name(found: re.Match[str]) -> str:
    exchange, bits, mode, stream, digest = found.group("exchange", "bits", "mode", "stream", "hash")
    prefix = "" if exchange == "RSA" else f"{exchange.replace('_', '-')}-"
    if stream:
        return f"{prefix}CHACHA20-POLY1305"
    return f"{prefix}AES{bits}-{'GCM-' if mode == 'GCM' else ''}{digest}"
