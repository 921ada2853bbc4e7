"""Loads what a start leaves out: the handlers and the coordinators.

A start imports only what opens the port (docs/architecture.md, "What a start loads"). The rest is
imported at its first use, or here, whatever comes first. Without this, the first request of a group would
keep other clients waiting for some 30 ms, and a node whose clients use up its open files could import
nothing more.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
import sys
from collections.abc import Iterator

from odradek.handlers.registry import SERVED

log = logging.getLogger("odradek.node")

PACKAGES = (
    "odradek.core.group",
    "odradek.core.transaction",
    "odradek.core.share",
    "odradek.core.share_coordinator",
    "odradek.broker.coordinator",
    "odradek.broker.share",
)
PAUSE_SECONDS = 0.001
"""Between two modules the event loop serves clients."""
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 60.0
"""The pause before modules are tried again is doubled up to this."""


def left_out() -> Iterator[str]:
    """Yield the names of the modules that are imported after the start, if the caller imports them."""
    yield from (each.module for each in SERVED.values())
    for package in PACKAGES:
        yield package
        if package in sys.modules:
            path = sys.modules[package].__path__
            modules = pkgutil.walk_packages(path, f"{package}.", onerror=lambda name: None)
            yield from (each.name for each in modules)


async def load_the_rest() -> None:
    """Import the modules one by one. Those that fail are tried again: open files may be free then.

    A request that comes before its handler can be imported gets its connection closed
    (`odradek.handlers.dispatch`).
    """
    retry_seconds = RETRY_SECONDS
    while failures := await _load_each():
        name, error = failures[0]
        log.warning(
            "%d modules of the node cannot be loaded now, first %s: %s", len(failures), name, error
        )
        await asyncio.sleep(retry_seconds)
        retry_seconds = min(2 * retry_seconds, RETRY_SECONDS_MAX)


async def _load_each() -> list[tuple[str, Exception]]:
    """Return the modules that cannot be imported, and why."""
    failures: list[tuple[str, Exception]] = []
    for name in left_out():
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  a module may raise anything
            failures.append((name, error))
        await asyncio.sleep(PAUSE_SECONDS)
    return failures
