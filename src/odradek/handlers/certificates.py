"""The distinguished name of a certificate's subject, as Java writes it (RFC 2253).

The attributes are in reverse order: `CN=alice,OU=sales,O=example`. Attributes that RFC 2253 does
not name are written with their number and their encoding in Java. Here only the e-mail address is
written in this way; others are written with OpenSSL's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANK = " \r"
"""Each of these characters is escaped at the begin and at the end."""
_NUL = {"\0": "\\00"}
_EMAIL, _EMAIL_NUMBER, _IA5_STRING = "emailAddress", "1.2.840.113549.1.9.1", 0x16


def subject_name(certificate: Mapping[str, Any]) -> str:
    """Return the name of the subject of a certificate that `ssl` has decoded."""
    names: Iterable[Iterable[tuple[str, str]]] = certificate["subject"]
    return ",".join("+".join(_attribute(*each) for each in name) for name in reversed([*names]))


def _attribute(kind: str, value: str) -> str:
    if kind == _EMAIL and len(value) < 128:
        encoded = bytes((_IA5_STRING, len(value))) + value.encode("ascii", "replace")
        return f"{_EMAIL_NUMBER}=#{encoded.hex()}"
    first, end = len(value) - len(value.lstrip(_BLANK)), len(value.rstrip(_BLANK))
    text = "".join(
        f"\\{each}" if each in _ESCAPED or not first <= index < end else _NUL.get(each, each)
        for index, each in enumerate(value)
    )
    return f"{_SHORT.get(kind, kind)}={text}"
