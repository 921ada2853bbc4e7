"""Parses listeners (`NAME://host:port`), and the security protocol of each listener name.

The rules are the rules of Kafka's AbstractKafkaConfig and KafkaConfig. Error messages name the fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.config.checks import ConfigurationError

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Names of security protocols, and their numbers in the protocol."""

WILDCARD_HOSTS = frozenset(("", "0.0.0.0", "::"))  # noqa: S104  nothing is bound
"""Hosts that mean all addresses of the machine."""
_LISTENER = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)"


class Listener(NamedTuple):
    """One endpoint of a node."""

    name: str
    host: str
    """The address to bind. An empty host means all addresses of the machine."""
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means all addresses of the machine, and is not one to connect to."""
        return not self.host.strip("0.:")  # other notations of :: too

    def shares_port(self, others: Iterable[Listener]) -> bool:
        """Whether another listener has the same port, on the other protocol of IP (KIP-797)."""
        return any(each.port == self.port != 0 and each.name != self.name for each in others)

    @property
    def security_protocol_id(self) -> int:
        """The number of the protocol in metadata records."""
        return SECURITY_PROTOCOLS[self.security_protocol]


def listener_names(text: str) -> list[str]:
    """Return the names in `NAME://host:port, ...`, which need not be valid."""
    return re.findall(r"([^,\s]+?)://", text)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL, ...` into protocols by upper-case name.

    Raises:
        ConfigurationError: an entry is malformed, or its protocol is unknown.
    """
    name = "listener.security.protocol.map"
    result: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        listener, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon:
            raise ConfigurationError.of(name, entry, "each entry must have the form NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigurationError.of(name, entry, f"the protocol must be one of {known}")
        result[listener.upper()] = protocol
    return result


def with_controller_names(
    protocols: dict[str, str], controller_names: Iterable[str], listeners: Iterable[str]
) -> dict[str, str]:
    """Add the names of controller listeners to the default map, with the protocol PLAINTEXT.

    As in Kafka, names are added only to the default map, and only if no listener uses TLS or SASL.
    """
    names = [each.partition(":")[0].upper() for each in listeners]
    controllers = list(controller_names)
    if any(name in SECURITY_PROTOCOLS and name != "PLAINTEXT" for name in (*names, *controllers)):
        return protocols
    return {**protocols, **{name.upper(): "PLAINTEXT" for name in controllers}}


def parse_listeners(
    setting: str, entries: Iterable[str], protocols: Mapping[str, str], distinct_ports: bool = True
) -> tuple[Listener, ...]:
    """Parse the entries of a setting as listeners.

    Raises:
        ConfigurationError: an entry is malformed, its name has no protocol, or two entries share a
            name or a port.
    """
    listeners: list[Listener] = []
    for entry in entries:
        found = re.fullmatch(_LISTENER, entry)
        if found is None:
            raise ConfigurationError.of(setting, entry, "expected NAME://host:port")
        name, port = found[1].upper(), int(found[3])
        if not -1 <= port <= 65535:
            raise ConfigurationError.of(setting, entry, "the port must be from 0 to 65535")
        if name not in protocols:
            protocol = name if name in SECURITY_PROTOCOLS else "PROTOCOL"
            raise ConfigurationError.of(
                setting,
                entry,
                f"no security protocol is defined for {name}; add {name}:{protocol} to "
                f"listener.security.protocol.map (one of {', '.join(SECURITY_PROTOCOLS)})",
            )
        listeners.append(Listener(name, found[2], port, protocols[name]))
    if len({each.name for each in listeners}) != len(listeners):
        raise ConfigurationError.of(setting, _joined(listeners), "each listener needs its own name")
    if distinct_ports:
        _check_ports(setting, listeners)
    return tuple(listeners)


def with_address(text: str, name: str, host: str | None, port: int | None) -> str:
    """Replace the host, the port, or both of one listener in a list.

    Malformed entries are not changed, because `parse_listeners` reports them.
    """
    changed = []
    for entry in text.split(","):
        found = re.fullmatch(_LISTENER, entry.strip())
        if found is not None and found[1].upper() == name.upper():
            listener = Listener(
                found[1],
                found[2] if host is None else host.strip("[]"),
                int(found[3]) if port is None else port,
                "",
            )
            entry = str(listener)
        changed.append(entry.strip())
    return ",".join(changed)


def _joined(listeners: Iterable[Listener]) -> str:
    return ",".join(map(str, listeners))


def _check_ports(setting: str, listeners: list[Listener]) -> None:
    """Check that listeners share a port only if one address is IPv4 and the other is IPv6."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port != 0:
            by_port.setdefault(listener.port, []).append(listener)
    for same in by_port.values():
        if len(same) > 1 and sorted(map(_ip_version, same)) != [4, 6]:
            raise ConfigurationError.of(
                setting,
                _joined(same),
                "each listener needs its own port (only one IPv4 and one IPv6 address may share one)",
            )


def _ip_version(listener: Listener) -> int:
    import ipaddress  # Imported here because it is needed only if two listeners share a port.

    try:
        return ipaddress.ip_address(listener.host).version
    except ValueError:
        return 0


def parse_address_counts(text: str) -> dict[str, int]:
    """Parse `address:count, ...` of max.connections.per.ip.overrides.

    Raises:
        ConfigurationError: an entry is malformed.
    """
    name = "max.connections.per.ip.overrides"
    result: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = (part.strip() for part in entry.rpartition(":"))
        if not re.fullmatch(r"[0-9a-zA-Z\-%._:\[\]]+", address) or not count.isdecimal():
            raise ConfigurationError.of(name, entry, "each entry must have the form address:count")
        result[address.strip("[]")] = int(count)
    return result
