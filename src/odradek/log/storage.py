"""The objects that all logs of a node share: file system, clock, executor, open files.

Logs are changed only on the event loop's thread. Two functions run work on other threads:

- `background(work, done)` is `submit` of the executor. It runs `work()` on another thread, and then
  `done(error)` on the event loop's thread. `work` must not use the log; it has its own descriptors,
  paths and bytes.
- `remove_later(paths, delay_ms)` removes files after a delay.

In tests and tools without an event loop, both functions do the work immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.env.clock import Clock
from odradek.env.executor import Done, Executor, InlineExecutor, Work
from odradek.env.file_system import FileSystem
from odradek.env.randomness import RandomBytes
from odradek.log.descriptors import POOL_LIMIT_DEFAULT, DescriptorPool
from odradek.log.directory import LogDirectory
from odradek.telemetry.request_metrics import Distribution

Background = Callable[[Work, Done], None]
RemoveLater = Callable[[Sequence[str], int], None]

PRODUCER_EXPIRATION_MS_DEFAULT = 86_400_000


class Storage:
    """The shared objects. Some functions are set later, with `connect`."""

    __slots__ = (
        "background",
        "clock",
        "descriptors",
        "executor",
        "file_system",
        "flush_times",
        "lower_recovery_points",
        "non_blocking",
        "producer_expiration_ms",
        "random_bytes",
        "remove_later",
        "verify_transactions",
        "write_recovery_points",
    )

    def __init__(
        self,
        file_system: FileSystem,
        clock: Clock,
        random_bytes: RandomBytes,
        *,
        executor: Executor | None = None,
        open_files_max: int = POOL_LIMIT_DEFAULT,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS_DEFAULT,
        verify_transactions: bool = True,
    ) -> None:
        self.file_system = file_system
        self.non_blocking = file_system.non_blocking()
        """The same files for searches that must not wait for the device. Its `pread` raises
        `ReadWouldBlock` instead of waiting."""
        self.clock = clock
        self.random_bytes = random_bytes
        self.flush_times = Distribution()
        """The µs that flushes of logs took (a metric)."""
        self.executor = executor or InlineExecutor()
        self.background: Background = self.executor.submit
        self.descriptors = DescriptorPool(file_system, open_files_max)
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions
        """The setting `transaction.partition.verification.enable`."""
        self.remove_later: RemoveLater = self.remove_now
        self.write_recovery_points: Callable[[LogDirectory], None] = lambda _: None
        """Writes the recovery point checkpoint of a directory on this thread. Raises `OSError`."""
        self.lower_recovery_points: Callable[[LogDirectory, Done], None] = lambda _, done: done(
            None
        )
        """Does the same in the background, then calls `done`."""

    def connect(
        self,
        remove_later: RemoveLater,
        write_recovery_points: Callable[[LogDirectory], None],
        lower_recovery_points: Callable[[LogDirectory, Done], None],
    ) -> None:
        """Set the functions for background work, which the `LogManager` has."""
        self.remove_later = remove_later
        self.write_recovery_points = write_recovery_points
        self.lower_recovery_points = lower_recovery_points

    def update_settings(self, producer_expiration_ms: int, verify_transactions: bool) -> None:
        """Apply changed broker settings."""
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions

    def remove_now(self, paths: Sequence[str], _delay_ms: int) -> None:
        """Remove files without delay. Ignore missing files."""
        for path in paths:
            try:
                self.file_system.remove(path)
            except FileNotFoundError:
                pass
