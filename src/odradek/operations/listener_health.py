"""Finds what is wrong with the listeners of a node, and what to do. Without IO: facts are arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.operations.problems import Problem, Severity
from odradek.operations.texts import plural

if TYPE_CHECKING:
    from odradek.config.broker_config import BrokerConfig

EXPIRY_DAYS_MIN = 30
"""A certificate that expires earlier is worth a note."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a client would say about a certificate."""

    days_left: int | None = None
    """How long the certificate is valid: negative if it has expired, None if it was not read."""
    key_problem: str | None = None
    """Why the files of keys and certificates cannot be used."""
    name_problem: str | None = None
    """Why a client that connects to the advertised host would not accept the certificate."""


@dataclass(frozen=True, slots=True)
class ListenerFacts:
    """A listener, and what this machine says about it."""

    name: str
    host: str
    """The address to listen on. An empty host means all addresses of the machine."""
    port: int
    protocol: str
    advertised_host: str = ""
    """The host that clients and other nodes are told. Empty: the address that the client dialled."""
    advertised_port: int = 0
    host_for_nodes: str = ""
    """The host that other nodes are told instead, and their clients; empty if there are no others."""
    is_controller: bool = False
    is_authenticated: bool = False
    """Whether clients must prove who they are."""
    bind_problem: str | None = None
    """Why the node could not listen there now."""
    host_problem: str | None = None
    """Why the advertised host cannot be looked up on this machine."""
    certificate: CertificateFacts | None = None
    """None without TLS."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to this address."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def is_authenticated(config: BrokerConfig, listener: str) -> bool:
    """Whether clients of a listener must prove who they are."""
    tls = config.tls_by_listener.get(listener)
    return listener in config.sasl_by_listener or (
        tls is not None and tls.client_auth == "required"
    )


def diagnose(listeners: Sequence[ListenerFacts]) -> list[Problem]:
    """Return the problems of all listeners, the worst first."""
    found = [problem for each in listeners for problem in _problems(each)]
    return sorted(found, key=lambda problem: -problem.severity)


def _problems(facts: ListenerFacts) -> Iterator[Problem]:
    name, where = facts.name, f"{facts.host or '*'}:{facts.port}"
    told = f"{facts.advertised_host or facts.host_for_nodes}:{facts.advertised_port}"
    if facts.bind_problem is not None:
        yield Problem(
            Severity.BROKEN,
            f"{name} cannot listen on {where}: {facts.bind_problem}",
            "If the node runs already, this is expected. Otherwise stop the other program, or choose "
            "another port or an address of this machine in `listeners`.",
        )
    if facts.host_problem is not None:
        yield Problem(
            Severity.BROKEN,
            f"clients of {name} are told to connect to {told}, but this name is unknown here: "
            f"{facts.host_problem}",
            "Correct `advertised.listeners`, or make the name known (DNS, /etc/hosts) on all machines.",
        )
    if facts.certificate is not None:
        yield from _certificate_problems(facts, facts.certificate, told)
    yield from _reach(facts, told)


def _certificate_problems(
    facts: ListenerFacts, certificate: CertificateFacts, told: str
) -> Iterator[Problem]:
    if certificate.key_problem is not None:
        yield Problem(
            Severity.BROKEN,
            f"the key and certificates of {facts.name} cannot be used: {certificate.key_problem}",
            f"Correct listener.name.{facts.name.lower()}.ssl.keystore.location (or .password, or .type).",
        )
    if certificate.name_problem is not None:
        yield Problem(
            Severity.BROKEN,
            f"clients of {facts.name} are told to connect to {told}, but they will not accept the "
            f"certificate: {certificate.name_problem}",
            "Make a certificate with this name (odradek secure node --host), or correct "
            "`advertised.listeners`.",
        )
    if certificate.days_left is not None and certificate.days_left < EXPIRY_DAYS_MIN:
        yield Problem(
            Severity.BROKEN if certificate.days_left < 0 else Severity.NOTE,
            f"the certificate of {facts.name} "
            + (
                "has expired"
                if certificate.days_left < 0
                else f"expires in {plural(certificate.days_left, 'day')}"
            ),
            "Make a new one, for example with odradek secure node.",
        )


def _reach(facts: ListenerFacts, told: str) -> Iterator[Problem]:
    """Yield what clients on other machines meet."""
    if is_loopback(facts.host):
        return
    name = facts.name
    if facts.advertised_host and is_loopback(facts.advertised_host):
        yield Problem(
            Severity.BROKEN,
            f"{name} accepts clients from other machines, but tells them to connect to {told}, which "
            "is their own machine",
            "Remove the entry from `advertised.listeners`: then a client is told the address that it "
            "has dialled. Or name an address that clients can reach, or listen on localhost only.",
        )
    elif is_loopback(facts.host_for_nodes):
        yield Problem(
            Severity.NOTE,
            f"other nodes, and their clients, are told to connect to {facts.host_for_nodes}:"
            f"{facts.port} for {name}, because this machine has no other name",
            "If the other nodes run on other machines, set `advertised.listeners` to an address that "
            "they can reach.",
        )
    elif facts.advertised_host and facts.advertised_port != facts.port:
        yield Problem(
            Severity.NOTE,
            f"{name} listens on port {facts.port}, but tells clients to connect to {told}",
            "This needs something that forwards this port, such as a proxy or a container's port "
            "mapping. Otherwise correct `advertised.listeners`.",
        )
    if facts.protocol == "SASL_PLAINTEXT":
        yield Problem(
            Severity.DEGRADED,
            f"{name} uses SASL without TLS: passwords of PLAIN, and all records, can be read on the "
            "network",
            "Use the protocol SASL_SSL.",
        )
    elif not facts.is_authenticated:
        yield Problem(
            Severity.DEGRADED,
            f"everyone who can reach this machine may use {name}: it has no authentication",
            "Listen on localhost only (--host localhost), or see: odradek secure --help",
        )
