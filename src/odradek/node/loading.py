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


def left_out() -> Iterator[str]:
    """Yield the names of the modules that are imported after the start."""
    yield from (each.module for each in SERVED.values())
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        yield from (each.name for each in pkgutil.walk_packages(path, f"{package}."))


async def load_the_rest() -> None:
    """Import the modules one by one. If that fails, it is tried again: open files may be free then."""
    while True:
        try:
            for name in left_out():
                importlib.import_module(name)
                await asyncio.sleep(PAUSE_SECONDS)
        except (ImportError, OSError) as error:
            log.warning("modules of the node cannot be loaded now: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
