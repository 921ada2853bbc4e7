"""Parses broker addresses that users write."""

from __future__ import annotations

from typing import NamedTuple

PORT_DEFAULT = 9092


class Address(NamedTuple):
    """A host (name or IP) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Expected(NamedTuple):
    """The node to which an address should lead. Brokers check it since Apache Kafka 4.4 (KIP-1242)."""

    cluster_id: str
    node_id: int


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse `host:port,host`. The default port is 9092. IPv6 addresses are in brackets.

    A prefix such as `PLAINTEXT://` is ignored.

    Raises:
        ValueError: the text is empty, or an address is invalid.
    """
    addresses = tuple(_parse(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("no address given; write host:port[,host:port…]")
    return addresses


def _parse(text: str) -> Address:
    if "://" in text:
        text = text.partition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    elif ":" in host and not host.startswith("["):
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, as [::1]:9092")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r}: {port!r} is not a port (1 to 65535)")
    host = host.removeprefix("[").removesuffix("]")
    if not host:
        raise ValueError(f"{text!r} has no host; write host:port")
    return Address(host, int(port))
