"""What all logs of a node share: injected dependencies, open files, and background work.

Logs are changed only on the loop's thread. Two kinds of work are done elsewhere:

- `background(work, done)`: the executor's `submit`. `work()` uses only its own data (descriptors,
  paths, bytes); then `done(error)` is called on the loop's thread.
- `remove_later(paths, delay_ms)`: removes files after a delay.

Without a loop (tests, tools) both run immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.env.clock import Clock
from odradek.env.executor import Done, Executor, InlineExecutor, Work
from odradek.env.file_system import FileSystem
from odradek.env.randomness import RandomBytes
from odradek.log.descriptors import POOL_LIMIT_DEFAULT, DescriptorPool
from odradek.log.directory import LogDirectory

Background = Callable[[Work, Done], None]
RemoveLater = Callable[[Sequence[str], int], None]

PRODUCER_EXPIRATION_MS_DEFAULT = 86_400_000


class Storage:
    """See the module."""

    __slots__ = (
        "background",
        "clock",
        "descriptors",
        "executor",
        "file_system",
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
        """For searches that must not wait for the device: reads raise `ReadWouldBlock` instead."""
        self.clock = clock
        self.random_bytes = random_bytes
        self.executor = executor or InlineExecutor()
        self.background: Background = self.executor.submit
        self.descriptors = DescriptorPool(file_system, open_files_max)
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions
        """`transaction.partition.verification.enable`"""
        self.remove_later: RemoveLater = self.remove_now
        self.write_recovery_points: Callable[[LogDirectory], None] = lambda _: None
        """Write the checkpoint of a directory, on this thread; raises `OSError`."""
        self.lower_recovery_points: Callable[[LogDirectory, Done], None] = lambda _, done: done(
            None
        )
        """Write it in the background, then call `done`."""

    def connect(
        self,
        remove_later: RemoveLater,
        write_recovery_points: Callable[[LogDirectory], None],
        lower_recovery_points: Callable[[LogDirectory, Done], None],
    ) -> None:
        """Set the functions of the `LogManager` that run background work."""
        self.remove_later = remove_later
        self.write_recovery_points = write_recovery_points
        self.lower_recovery_points = lower_recovery_points

    def update_settings(self, producer_expiration_ms: int, verify_transactions: bool) -> None:
        """Apply changed broker settings."""
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions

    def remove_now(self, paths: Sequence[str], _delay_ms: int) -> None:
        """Remove files without delay; missing files are ignored."""
        for path in paths:
            try:
                self.file_system.remove(path)
            except FileNotFoundError:
                pass
