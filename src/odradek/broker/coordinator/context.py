"""What all shards of one runtime share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from odradek.env.clock import Clock
from odradek.env.executor import Executor
from odradek.records.compression import Codec


@dataclass(slots=True)
class ShardContext:
    """See the module."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    executor: Executor
    write_timeout_ms: int
    """How long a response may wait for its records to be committed."""
    codec: Codec = Codec.NONE
    """The compression of batches."""
    shares_batches: bool = True
    """Whether the writes of one millisecond share a batch. If not, each is appended at once."""
    on_loaded: Callable[[int], None] = lambda records: None
    """Called with the number of records of each partition that was loaded."""
