"""PEM as text in a setting: `ssl.keystore.key`, `ssl.keystore.certificate.chain` and
`ssl.truststore.certificates` (KIP-651).

As in Java, the text may be one line, with spaces where a file has line breaks. OpenSSL takes a private key only from
a file. So `key_file` is a file in memory where the system has such files, and elsewhere a temporary file
that only this user can read.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LINE_LENGTH: Final = 64
_OBJECT: Final = re.compile(r"(-----BEGIN [^-]+-----)([A-Za-z0-9+/=\s]+)(-----END [^-]+-----)")


def with_lines(text: str) -> str:
    """Return PEM text with the line breaks that OpenSSL needs."""
    return _OBJECT.sub(_with_lines, text)


def _with_lines(found: re.Match[str]) -> str:
    begin, content, end = found.groups()
    data = "".join(content.split())
    lines = (data[at : at + _LINE_LENGTH] for at in range(0, len(data), _LINE_LENGTH))
    return "\n".join((begin, *lines, end, ""))


@contextmanager
def key_file(text: str) -> Iterator[str]:
    """Yield the path of a file with this text."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("odradek-key")
        os.fchmod(descriptor, 0o600)
        path, is_named = f"/proc/self/fd/{descriptor}", False
    else:
        descriptor, path = tempfile.mkstemp(prefix="odradek-", suffix=".pem")
        is_named = True
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as made:
            made.write(text)
            made.flush()
            yield path
    finally:
        if is_named:
            os.unlink(path)
