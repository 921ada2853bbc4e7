"""Sessions of SASL that end after a few seconds: clients authenticate again on their connections (KIP-368).

A client writes and reads with each mechanism, for longer than three sessions last. A broker closes a connection on
which a request arrives after the end of its session. So a client that authenticates too late, or not at all, needs
new connections all the time, and is found by the ports of its sockets.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any

from compat.driver import Driver
from compat.lab.toolchain import Missing
from compat.logins.node import LoginNode
from compat.logins.table import BRIEF_LISTENERS, BRIEF_SESSION_MS, ROWS, SCRAM, Row
from compat.scenarios.stage import equal, holds

CLIENTS = ("java", "java-4.4", "librdkafka", "odradek", "odradek-aio")
"""The clients whose drivers have the verbs of sessions."""
SESSIONS = 3
KEPT_PART = 0.75
"""The part of the connections that must stay. On a machine that stands still for a moment, a client cannot
authenticate in time."""
REFUSED_SECONDS = 60
REQUEST_MS = 10_000


def rows() -> list[Row]:
    """Return the rows whose credentials are used, with the listeners whose sessions are brief."""
    return [
        row.at(BRIEF_LISTENERS[row.listener])
        for row in ROWS
        if row.listener in BRIEF_LISTENERS and "delegation" not in row.name
    ]


def renew(driver: Driver, node: LoginNode) -> None:
    """Let a client write and read for longer than its sessions last.

    Raises:
        CheckFailed: an error, or connections that did not stay.
        Missing: the machine does not tell the connections of a process.
    """
    found = rows()
    ports = {node.ports[row.listener] for row in found}
    logins = [_arguments(node, row) for row in found]
    driver.open_sessions(logins)
    driver.use_sessions(
        BRIEF_SESSION_MS
    )  # connections to bootstrap addresses are not kept by all clients
    before = connections(driver.pid, ports)
    holds(len(before) >= len(found), f"a connection for each login, found {len(before)}")
    used = driver.use_sessions((SESSIONS - 1) * BRIEF_SESSION_MS)
    after = connections(driver.pid, ports)
    driver.close_sessions()
    for row, (records, said) in zip(found, used, strict=True):
        equal(said, [], f"errors of {row.name}")
        holds(records > 0, f"records of {row.name}")
    kept = len(before & after)
    holds(kept > KEPT_PART * len(before), f"connections that stay: {kept} of {len(before)}")


def refuse(driver: Driver, node: LoginNode) -> None:
    """Change the password of a client that is connected: it is refused when its session is renewed.

    Raises:
        CheckFailed: the client goes on, or says nothing. What it says is not compared: Java names the refusal only
            if its consumer is refused before its producer; otherwise records time out.
    """
    (row,) = (each for each in rows() if each.name == f"SASL_PLAINTEXT, {SCRAM[0]}")
    user = f"changed-{driver.name}"
    node.set_password(user, "first")
    driver.open_sessions([{**_arguments(node, row), "user": user, "password": "first"}])
    node.set_password(user, secrets.token_hex(8))
    end = time.monotonic() + REFUSED_SECONDS
    said: list[str] = []
    while not said and time.monotonic() < end:
        ((_, said),) = driver.use_sessions(BRIEF_SESSION_MS)
    driver.close_sessions()
    holds(bool(said), "refused when the session is renewed")


def _arguments(node: LoginNode, row: Row) -> dict[str, Any]:
    return {**node.arguments(row.listener, row.right), "timeout_ms": REQUEST_MS}


def connections(process: int, ports: set[int]) -> set[int]:
    """Return the local ports of a process's connections to ports of this machine.

    Raises:
        Missing: there is no /proc.
    """
    home = Path(f"/proc/{process}")
    if not home.exists():
        raise Missing("connections of processes are listed in /proc, which only Linux has")
    inodes = set()
    for each in (home / "fd").iterdir():
        try:
            inodes.add(os.readlink(each))
        except FileNotFoundError:
            continue  # it was closed meanwhile
    found = set()
    for name in ("tcp", "tcp6"):
        for line in (home / "net" / name).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            local, remote = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
            if remote in ports and f"socket:[{fields[9]}]" in inodes:
                found.add(local)
    return found
