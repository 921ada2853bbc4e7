"""Ranges of addresses in ACLs, such as `10.0.0.0/8` and `2001:db8::/32` (KIP-1276).

All addresses of a range match, also the first and the last one. The errors have the texts of Apache
Kafka (`AclControlManager`, and the class `SubnetUtils` that it uses).
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

IPV4 = 4
_IPV4_BITS = 32
_IPV6_BITS = 128
_IPV4_RANGE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_range(host: str) -> bool:
    """Return whether the host of an ACL is meant as a range, valid or not."""
    return "/" in host


def parse_range(text: str) -> Network:
    """Return the range that a text names. The address may have more bits than the prefix.

    Raises:
        ValueError: the text is no range; the message says why.
    """
    return _parse_ipv6(text) if ":" in text else _parse_ipv4(text)


def _parse_ipv4(text: str) -> ipaddress.IPv4Network:
    found = _IPV4_RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, bits = (int(each) for each in found.groups())
    address = 0
    for octet in octets:
        address = address << 8 | _checked(octet, 255)
    return ipaddress.IPv4Network((address, _checked(bits, _IPV4_BITS)), strict=False)


def _checked(value: int, highest: int) -> int:
    if value > highest:
        raise ValueError(f"Value [{value}] not in range [0,{highest}]")
    return value


def _parse_ipv6(text: str) -> ipaddress.IPv6Network:
    address, slash, prefix = text.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{text}] - missing prefix length")
    if _NUMBER.fullmatch(prefix) is None:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    bits = int(prefix)
    if not 0 <= bits <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if parsed.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    return ipaddress.IPv6Network((int(parsed), bits), strict=False)


@lru_cache(maxsize=4096)
def range_of(host: str) -> Network | None:
    """Return the range of an ACL's host; None if it is an address, `*`, or no valid range."""
    if not is_range(host):
        return None
    try:
        return parse_range(host)
    except ValueError:
        return None


@lru_cache(maxsize=65536)
def network_name(host: str, version: int, bits: int) -> str | None:
    """Return the name of the range with `bits` fixed bits that contains an address.

    It is `str(Network)`. Return None if the address has another IP version, or is none.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version != version:
        return None
    network = ipaddress.IPv4Network if version == IPV4 else ipaddress.IPv6Network
    return str(network((int(address), bits), strict=False))
