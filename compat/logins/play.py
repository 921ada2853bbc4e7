"""Lets a client log in with all credentials of a row, and compares what it says with what it says to
Apache Kafka."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.driver import Driver
from compat.lab.odradek_node import OdradekNode
from compat.logins.deviations import DEVIATIONS
from compat.logins.node import LoginNode
from compat.logins.table import RIGHT, ROWS, Row
from compat.scenarios.stage import equal, holds

EXPECTED = Path(__file__).with_name("expected.json")
Said = dict[str, dict[str, dict[str, list[str]]]]
"""What clients say, by row, case and client. A login that succeeds leaves nothing."""

_UNSTABLE = (
    (r"(127\.0\.0\.1|localhost)[:', ]+\d+", "HOST:PORT"),
    (r"\b(host=)127\.0\.0\.1 port=\d+", r"\1HOST port=PORT"),
    (r"\b\d+ ?ms\b", "N ms"),
    (r": current time \S+ is after \S+", ""),
    (r"NotAfter: .* \d{4}$", "NotAfter: TIME"),
    (r"\(_ssl\.c:\d+\)", "(_ssl.c)"),
    (r"/\S*/kdc/", "DIRECTORY/"),
    (r"\blet [\w-]{22} in\b", "let TOKEN in"),
)
"""Parts of messages that differ from login to login, or from machine to machine."""
_VARIANTS = (
    (
        r"^_TRANSPORT: (\S+) Disconnected: SSL connection closed by peer(?=$| \()",
        r"_TRANSPORT: \1 SSL handshake failed: Disconnected: SSL connection closed by peer: "
        "connecting to a PLAINTEXT broker listener?",
    ),
    (
        r"^_TRANSPORT: (\S+) (error:\w+:SSL routines::certificate verify failed)(?=$| \()",
        r"_SSL: \1 SSL handshake failed: \2: broker certificate could not be verified, verify that "
        "ssl.ca.location is correctly configured or root CA certificates are installed (install "
        "ca-certificates package)",
    ),
)
"""librdkafka has two messages for some errors. Which one it uses depends on the order of its threads."""


def expected(broker: str) -> Said:
    """Return what the clients say to a broker. For Odradek the deviations are part of it."""
    said: Said = json.loads(EXPECTED.read_text(encoding="utf-8"))
    if broker == OdradekNode.name:
        for row, case, client in DEVIATIONS:
            said[row][case][client] = list(DEVIATIONS[row, case, client])
    return said


def log_in(driver: Driver, node: LoginNode, row: Row) -> dict[str, list[str]]:
    """Return what the client says with each of the credentials of a row.

    Raises:
        Missing: the node does not have the mechanism.
        Unsupported: the client does not have the mechanism.
        CheckFailed: right credentials are refused, or wrong ones are accepted.
    """
    node.require(row)
    said: dict[str, list[str]] = {}
    for case in row.cases:
        arguments = node.arguments(case.listener or row.listener, row.arguments(case))
        timeout_ms = case.timeout_ms(driver.name)
        found = driver.login(**arguments, value=f"{driver.name}: {row.name}", timeout_ms=timeout_ms)
        said[case.name] = [stable(each) for each in found]
        if case.name == RIGHT:
            equal(found, [], "errors with the right credentials")
        else:
            holds(bool(found), f"refused: {case.name}")
    return said


def compare(row: Row, client: str, said: Mapping[str, Sequence[str]], broker: str) -> None:
    """Compare what a client said to a broker with what it is known to say.

    Raises:
        CheckFailed: there is a difference.
    """
    known = expected(broker)[row.name]
    for case, found in said.items():
        equal(found, known[case].get(client), f"what the client says about: {case}")


class Recorder:
    """Collects what clients say, in several threads."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], Mapping[str, list[str]]] = {}
        self._lock = threading.Lock()

    def add(self, row: Row, client: str, said: Mapping[str, list[str]]) -> None:
        """Store what a client said."""
        with self._lock:
            self._said[row.name, client] = said

    def write(self, clients: Sequence[str]) -> None:
        """Replace the file of what is expected; keep what clients say that lack a mechanism here."""
        known: Said = json.loads(EXPECTED.read_text(encoding="utf-8"))
        said: Said = {row.name: {case.name: {} for case in row.cases} for row in ROWS}
        for row in ROWS:
            for case in row.cases:
                kept = known.get(row.name, {}).get(case.name, {})
                for client in clients:
                    if (row.name, client) in self._said:
                        said[row.name][case.name][client] = self._said[row.name, client][case.name]
                    elif client in kept:
                        said[row.name][case.name][client] = kept[client]
        text = json.dumps(said, indent=1, ensure_ascii=False)
        EXPECTED.write_text(f"{text}\n", encoding="utf-8")


def stable(text: str) -> str:
    """Replace the parts of a message that differ from login to login."""
    for pattern, replacement in (*_UNSTABLE, *_VARIANTS):
        text = re.sub(pattern, replacement, text)
    return text.rstrip("\n")
