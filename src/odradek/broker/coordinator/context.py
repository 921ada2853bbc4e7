"""The parts and settings that all shards of one coordinator runtime share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.records.compression import Codec


@dataclass(slots=True)
class ShardContext:
    """The shared parts and settings."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    executor: Executor
    write_timeout_ms: int
    """Maximum time that a response waits for the commit of its records."""
    codec: Codec = Codec.NONE
    """The compression of batches."""
    shares_batches: bool = True
    """Whether operations for which clients wait share batches. If not, they are written at once."""
    on_loaded: Callable[[int], None] = lambda records: None
    """Called after a partition was loaded, with the number of its records."""
