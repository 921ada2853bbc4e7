"""What all logs of a node share: the seams, the open files, and work that is done elsewhere.

Logs are changed on one thread only, the loop's. Two kinds of work leave it:

- `background(work, done)`: the executor's `submit`. `work()` touches only what it was given
  (descriptors, paths, bytes); then `done(error)` is called on the loop's thread.
- `remove_later(paths, delay_ms)`: files that are to be removed.

Without a loop (tests, tools) both happen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.env.clock import Clock
from odradek.env.executor import Done, Executor, InlineExecutor, Work
from odradek.env.file_system import FileSystem
from odradek.env.randomness import RandomBytes
from odradek.log.descriptors import POOL_LIMIT_DEFAULT, DescriptorPool
from odradek.log.directory import LogDirectory

T = TypeVar("T")
Background = Callable[[Work, Done], None]
RemoveLater = Callable[[Sequence[str], int], None]

PRODUCER_EXPIRATION_MS_DEFAULT = 86_400_000


class Storage:
    """See the module."""

    __slots__ = (
        "_impatient",
        "background",
        "clock",
        "descriptors",
        "executor",
        "file_system",
        "producer_expiration_ms",
        "random_bytes",
        "reads",
        "remove_later",
        "truncated",
        "verify_transactions",
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
        self.reads = file_system
        """By which segments are searched: impatient within `without_waiting`."""
        self._impatient = file_system.impatient()
        self.clock = clock
        self.random_bytes = random_bytes
        self.executor = executor or InlineExecutor()
        self.background: Background = self.executor.submit
        self.descriptors = DescriptorPool(file_system, open_files_max)
        self.producer_expiration_ms = producer_expiration_ms
        self.verify_transactions = verify_transactions
        """`transaction.partition.verification.enable`"""
        self.remove_later: RemoveLater = self.remove_now
        self.truncated: Callable[[LogDirectory], None] = lambda _: None
        """A log of the directory was cut: its recovery point has to go down on the device too."""

    def without_waiting(self, look: Callable[[], T]) -> T:
        """What `look` returns, which searches logs on the loop's thread and changes nothing.

        Raises:
            NotAtHand: it would have had to wait for the device; `look` again after `bring`.
        """
        self.reads = self._impatient
        try:
            return look()
        finally:
            self.reads = self.file_system

    def remove_now(self, paths: Sequence[str], _delay_ms: int) -> None:
        """Remove files without delay; those that are gone are gone."""
        for path in paths:
            try:
                self.file_system.remove(path)
            except FileNotFoundError:
                pass
