"""Runs a node in the foreground: the event loop, signals, and console output."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable

from odradek.broker.controller.lifecycle import JoinError
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.core.metadata.errors import MetadataError
from odradek.core.raft.machine import QuorumError
from odradek.env.event_loop import NodeSelector, new_event_loop
from odradek.env.garbage import CollectionLimiter
from odradek.env.process import keep_freed_memory, raise_descriptor_limit
from odradek.log import DamagedFile, DirectoryInUse, DiskFull, LogDirectoryOffline
from odradek.network.listeners import ListenError
from odradek.node.format import FormatError
from odradek.node.loading import load_the_rest
from odradek.node.node import Node

log = logging.getLogger("odradek.node")


class StartError(Exception):
    """The node cannot start. The message says why and what to do."""


FAILURES = (
    ConfigurationError,
    DamagedFile,
    DirectoryInUse,
    DiskFull,
    FormatError,
    JoinError,
    ListenError,
    LogDirectoryOffline,
    MetadataError,
    QuorumError,
)
"""Expected errors of a start. Any other exception is a bug in Odradek."""

FREEZE_RECORDS = 10_000
"""If a coordinator loads at least this many records, all existing objects are excluded from garbage
collection. A collection that scans a million offsets blocks the event loop for 100 ms and finds no
garbage."""

SWITCH_INTERVAL_SECONDS = 0.0003
"""How long another thread that computes in Python may keep the event loop waiting, each time that
the loop wants to continue. Python's default is 5 ms. See docs/architecture.md#rules."""


def run(config: BrokerConfig, on_ready: Callable[[Node], None]) -> int:
    """Run a node until a signal stops it; return the exit code of the process.

    `on_ready` is called when the node serves clients. The first SIGINT or SIGTERM stops the node
    cleanly. The second signal ends the process immediately.

    Raises:
        StartError: the node cannot start.
    """
    keep_freed_memory()
    raise_descriptor_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    loop, selector = new_event_loop()
    # The runner cancels the tasks that a failed or interrupted start has left, and waits for them.
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        node = Node(config, selector, on_loaded=_keep_from_collector)
        return runner.run(_run(node, selector, on_ready))


def _what_to_do(error: Exception) -> str:
    if isinstance(error, LogDirectoryOffline):
        return f"{error.message}; choose a directory that can be written with --data or log.dirs"
    return str(error)


async def _run(node: Node, selector: NodeSelector, on_ready: Callable[[Node], None]) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    # A start creates almost no garbage. Collections would take 20 % of the start's time.
    gc.disable()
    try:
        await node.start()
        # The existing objects live as long as the node.
        CollectionLimiter().watch()
    except FAILURES as error:
        raise StartError(_what_to_do(error)) from error
    finally:
        gc.enable()

    def stop() -> None:
        if stopping.is_set():
            sys.exit(130)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    on_ready(node)
    selector.forget_pauses()
    loading = asyncio.ensure_future(load_the_rest())
    waits = [asyncio.ensure_future(e.wait()) for e in (stopping, node.failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for each in (*waits, loading):
        each.cancel()
    log.info("stopping")
    await node.stop()
    return 1 if node.failed.is_set() else 0


def _keep_from_collector(records: int) -> None:
    """Exclude the records that a coordinator has loaded from garbage collection.

    While the node starts, garbage collection is off. At the end of the start all objects are
    excluded.
    """
    if records >= FREEZE_RECORDS and gc.isenabled():
        gc.freeze()
