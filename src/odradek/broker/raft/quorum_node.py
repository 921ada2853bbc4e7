"""Performs what the quorum machine decides: appends, flushes in a thread, reports commits.

Everything but the syncs runs on the loop's thread. Appends of one turn of the loop, and all that
come while a sync is under way, share the next sync. When nothing is appended, nothing happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import assert_never

from odradek.broker.raft.control import QuorumSettings, leader_change, voters_messages
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    Effect,
    Event,
    LogFlushed,
    PersistElection,
    Resign,
    Start,
    StopLeading,
)
from odradek.core.raft.machine import Leader, QuorumMachine
from odradek.core.raft.voters import Voter
from odradek.env.clock import Clock
from odradek.env.executor import Executor, Pool, call
from odradek.log.errors import DiskFull, LogDirectoryOffline
from odradek.log.flushing import FlushWork

log = logging.getLogger("odradek.metadata")

OnCommit = Callable[[int], None]
"""Called with the end of what is committed."""
OnFailure = Callable[[Exception], None]


class QuorumNode:
    """See the module."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        machine: QuorumMachine,
        settings: QuorumSettings,
        local: Voter,
        clock: Clock,
        executor: Executor,
        on_commit: OnCommit,
        on_failure: OnFailure,
    ) -> None:
        """`local` is this node as the voters record should describe it.

        `executor` runs the syncs. `on_failure` is told once, when the disk failed; the node leads
        no longer then.
        """
        self.log = metadata_log
        self.machine = machine
        self.settings = settings
        self._local = local
        self._clock = clock
        self._executor = executor
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._flush: asyncio.Future[None] | None = None
        self._flush_scheduled = False
        self.failure: Exception | None = None
        self.flushes = 0
        """Syncs so far; a metric, and how tests see that decisions share them."""

    @property
    def is_leader(self) -> bool:
        """Whether records may be appended here."""
        return isinstance(self.machine.role, Leader) and self.failure is None

    @property
    def epoch(self) -> int:
        """The epoch that this node leads, or knows."""
        return self.machine.epoch

    def start(self) -> None:
        """Take part in the quorum; a quorum of one has its leader when this returns.

        Raises:
            OSError: the disk failed.
            LogDirectoryOffline: the disk failed.
        """
        self._step(Start(self.log.end_offset, self.log.last_epoch))

    def append(self, values: Iterable[bytes]) -> tuple[int, int]:
        """Append records as one batch, to be synced soon; returns its first offset and size.

        Raises:
            BatchTooLarge: they do not fit into one batch.
            DiskFull: there is no room; nothing was appended, and this node leads on.
            LogDirectoryOffline: the disk failed; this node leads no longer.
        """
        try:
            appended = self.log.append(values, self.epoch, self._clock.now_ms())
        except LogDirectoryOffline as error:
            self._fail(error)
            raise
        self._schedule_flush()
        return appended

    async def close(self) -> None:
        """Sync what was appended, then lead no longer and close the log.

        Raises:
            DiskFull, LogDirectoryOffline: the disk is full or failed.
        """
        while self._flush is not None or self._flush_scheduled:
            if self._flush is not None:
                await asyncio.wait([self._flush])
            await asyncio.sleep(0)
        self._step(Resign())
        if self.failure is None:
            self.log.close()

    # -- effects --------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        for effect in self.machine.step(self._clock.monotonic_ms(), event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PersistElection():
                self.log.write_election(
                    effect.election, self.settings.kraft_version, self.machine.voters
                )
            case BecomeLeader():
                self._become_leader(effect)
            case CommitUpTo():
                self.log.set_high_watermark(effect.offset)
                self._on_commit(effect.offset)
            case StopLeading():
                log.info("this node leads the metadata quorum no longer (epoch %d)", effect.epoch)
            case _:
                assert_never(effect)

    def _become_leader(self, effect: BecomeLeader) -> None:
        """Begin the epoch with its control records.

        The voters are written too, if this node's endpoints have changed, or if the log has only
        the ones of a snapshot made by formatting.
        """
        self.log.on_leader_epoch(effect.epoch)
        voters = self.machine.voters
        messages = [leader_change(self.machine.local.id, voters, effect.granting)]
        if self.settings.kraft_version > 0:
            known = voters.voters[self._local.key.id]
            if known != self._local or self.settings.voters_offset < 0:
                changed = voters_messages(voters.with_voter(self._local))
                for kind, message in changed:
                    self.settings.replay(kind, message, self.log.end_offset)
                messages += changed
        self.log.append_control(messages, effect.epoch, self._clock.now_ms())
        log.info("this node leads the metadata quorum (epoch %d)", effect.epoch)
        self._schedule_flush()

    # -- syncs ----------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        if self._flush is None and not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._begin_flush)

    def _begin_flush(self) -> None:
        self._flush_scheduled = False
        end_offset = self.log.end_offset
        try:
            work = self.log.flush_work()
        except (DiskFull, LogDirectoryOffline) as error:
            self._fail(error)
            return
        if work is None:
            self._step(LogFlushed(end_offset))
            return
        self._flush = call(self._executor, work.run, Pool.METADATA)
        self._flush.add_done_callback(lambda done: self._flushed(done, work, end_offset))

    def _flushed(self, done: asyncio.Future[None], work: FlushWork, end_offset: int) -> None:
        self._flush = None
        self.flushes += 1
        error = done.exception()
        if error is not None:
            failure = self.log.failed(error) if isinstance(error, OSError) else error
            assert isinstance(failure, Exception)
            self._fail(failure)
            return
        work.complete()
        self._step(LogFlushed(end_offset))
        if self.log.end_offset > end_offset:
            self._schedule_flush()

    def _fail(self, failure: Exception) -> None:
        """What was appended may be lost, and the next sync would not tell: stop leading."""
        if self.failure is None:
            self.failure = failure
            self._step(Resign())
            self._on_failure(failure)
