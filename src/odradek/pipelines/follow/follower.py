"""Writes the complete lines of followed logs to a topic, each once, whenever the process ends.

Lines and positions are in one transaction, and the positions are records of the compacted topic
`TOPIC.followed`. Before it, what is read is added to the copies (`copies`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from odradek.client.producer import Producer
from odradek.pipelines.follow.copies import Copies
from odradek.pipelines.follow.files import Followed, LostError
from odradek.pipelines.follow.finding import Finder
from odradek.pipelines.follow.log import Log, log_of
from odradek.pipelines.follow.tracking import Tracked
from odradek.pipelines.inputs import DamagedError
from odradek.pipelines.own.rows import VALUE_BYTES_MAX
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.places import PipelineError, Places

FOLLOWED = ".followed"
POLL_S = 1.0
CHUNK_BYTES = 1 << 20
LINES_MAX = 10_000
"""Of one log in one transaction."""
BYTES_MAX = 8 << 20
"""A transaction gets no more chunks when it has so many bytes."""
TIME_STEP_MS = 3_600_000
DELETED_S = 60.0
"""A deleted file is read until it has not grown for so long: its program may write on."""

ValueOf = Callable[[Log, int, str], str]
"""Returns the value of the record of a line: of a log, with its number and text."""


@dataclass(frozen=True, slots=True)
class Part:
    """The next lines of a log."""

    content: bytes
    log: Log
    """The position after them."""
    lines: list[tuple[int, bytes]]
    """Without those that are too long."""


class Follower:
    """Follows the files of one topic. Only one process at a time can: it fences the others."""

    def __init__(
        self,
        places: Places,
        topic: str,
        given: Sequence[Path],
        value_of: ValueOf,
        say: Callable[[str], None],
    ) -> None:
        """`say` is called with what people should know."""
        self._places = places
        self._topic = topic
        self._given = given
        self._value_of = value_of
        self._say = say
        self.copies = Copies(places.output / "input")
        self._looked = places.output / "looked"
        """An empty file, whose time says when all files were looked at."""
        self._finder: Finder | None = None
        self._quiet_since_s: dict[Tracked, float] = {}
        self._unfinished: dict[Tracked, bool] = {}
        """Whether a log has a last line without an end."""
        self.error: BaseException | None = None

    @property
    def logs(self) -> list[Log]:
        """What is in the topic."""
        return (
            []
            if self._finder is None
            else [e.log for e in self._finder.tracked if e.log.bytes_read]
        )

    @property
    def left(self) -> list[str]:
        """What is not read, for people."""
        unfinished = [
            f"{each.log.file}: the last line has no end yet, and is not sent"
            for each, is_so in self._unfinished.items()
            if is_so
        ]
        return unfinished + ([] if self._finder is None else self._finder.left)

    def run(self, ending: threading.Event) -> None:
        """Follow the files until `ending` is set, and then read what they have. Set `error`."""
        try:
            with self._opened() as producer:
                while not self._places.stopping.is_set():
                    is_last = ending.is_set()
                    self.poll(producer)
                    if is_last:
                        break
                    ending.wait(POLL_S)
        except BaseException as error:  # noqa: BLE001  (raised by the thread that waits)
            self.error = error

    @contextmanager
    def _opened(self) -> Iterator[Producer]:
        """Create the topic of positions, fence earlier processes, and read their positions."""
        stored = f"{self._topic}{FOLLOWED}"
        self._places.create(stored, partitions=1, cleanup_policy="compact")
        identity = f"odradek-pipeline-{self._topic}"
        with (
            self._places.connect() as cluster,
            Producer(cluster, transactional_id=identity, linger_ms=20) as producer,
        ):
            producer.init_transactions()
            logs: dict[bytes | None, Log] = {}
            for record in read_all(self._places, stored):
                assert record.value is not None, "positions are not deleted"
                logs[record.key] = log_of(record.value)
            self.restore(logs.values())
            try:
                yield producer
            finally:
                self.close()

    def restore(self, logs: Iterable[Log]) -> None:
        """Begin with what is in the topic.

        Raises:
            PipelineError: a copy of it is missing.
        """
        for log in logs:
            if not self.copies.keep(log):
                raise PipelineError(
                    f"{self.copies.path(log)} lacks what was read of {log.file}: remove "
                    f"{self._places.output}, or choose another --output"
                )
        self._finder = Finder(self._given, self.copies, logs, self._say)

    def close(self) -> None:
        """Close all files."""
        for each in [] if self._finder is None else self._finder.tracked:
            each.lost()

    def poll(self, producer: Producer) -> None:
        """Look at all files, and write what is new."""
        assert self._finder is not None, "the caller has opened it"
        self._write_all(producer)  # before files are given up
        since_ns = self._looked.stat().st_mtime_ns if self._looked.exists() else 0
        self._looked.with_suffix(".draft").touch()
        self._finder.find(time.monotonic(), since_ns)
        self._write_all(producer)
        self._looked.with_suffix(".draft").replace(self._looked)

    def _write_all(self, producer: Producer) -> None:
        while not self._places.stopping.is_set():
            parts = self._parts()
            if not parts:
                return
            self._write(producer, [part for _, part in parts])
            for tracked, part in parts:
                tracked.moved_to(part.log)
            self._places.on_sent(sum(each.sent for each in self.logs))

    def _write(self, producer: Producer, parts: list[Part]) -> None:
        for part in parts:
            log = part.log
            before = replace(log, bytes_read=log.bytes_read - len(part.content))
            self.copies.add(before, part.content)
            self.copies.add_time(log)
        with producer.transaction():
            for part in parts:
                key = part.log.file.encode("utf-8", "surrogateescape")
                for number, line in part.lines:
                    value = self._value_of(part.log, number, line.decode("utf-8", "replace"))
                    producer.send(self._topic, value.encode(), key=key)
                producer.send(f"{self._topic}{FOLLOWED}", part.log.as_json(), key=part.log.key)

    def _parts(self) -> list[tuple[Tracked, Part]]:
        """Read the next lines of all logs, for one transaction."""
        assert self._finder is not None, "the caller has opened it"
        found: list[tuple[Tracked, Part]] = []
        size = 0
        for tracked in self._finder.tracked:
            if tracked.file is None or size >= BYTES_MAX:
                continue
            part = self._part(self._finder, tracked, tracked.file)
            if part is not None:
                self._quiet_since_s.pop(tracked, None)
                found.append((tracked, part))
                size += len(part.content)
        return found

    def _part(self, finder: Finder, tracked: Tracked, file: Followed) -> Part | None:
        before = self.copies.before(tracked.log) if tracked.log.bytes_read else b""
        try:
            content = file.read(tracked.log.bytes_read, before, CHUNK_BYTES)
            part = self.next_part(tracked.log, content, file.modified_ms, is_whole=file.is_whole)
        except LostError:
            finder.truncated(tracked, tracked.path)
            return None
        except DamagedError as error:
            self._say(f"{tracked.path} is not read further: it is damaged: {error}")
            tracked.lost()
            return None
        self._unfinished[tracked] = bool(content) and part is None
        if part is None:
            self._give_up(tracked, file)
        return part

    def _give_up(self, tracked: Tracked, file: Followed) -> None:
        """Close a file that has no more lines: it is whole, or was deleted some time ago."""
        since_s = self._quiet_since_s.setdefault(tracked, time.monotonic())
        if file.is_whole or (file.is_deleted and time.monotonic() > since_s + DELETED_S):
            tracked.lost()

    def next_part(
        self, log: Log, content: bytes, modified_ms: int, *, is_whole: bool
    ) -> Part | None:
        """Return the complete lines of a content; None if there are none yet."""
        is_at_end = len(content) < CHUNK_BYTES
        *lines, rest = content.split(b"\n", LINES_MAX)
        if rest and is_whole and is_at_end and len(lines) < LINES_MAX:
            lines.append(rest)
            rest = b""
        is_cut = not lines and not is_at_end  # a line that is longer than a chunk
        if not lines and not is_cut:
            return None
        taken = content if is_cut else content[: len(content) - len(rest)]
        numbered = list(enumerate(lines, log.lines + 1))
        if modified_ms - log.modified_ms < TIME_STEP_MS:
            modified_ms = log.modified_ms
        after = replace(
            log,
            bytes_read=log.bytes_read + len(taken),
            lines=log.lines + len(lines),
            is_inside=is_cut,
            modified_ms=modified_ms,
        )
        sent = [e for e in numbered[log.is_inside :] if self._fits(after, *e)]
        after = replace(
            after, sent=log.sent + len(sent), skipped=log.skipped + len(lines) - len(sent)
        )
        if len(sent) != len(lines):
            for number in sorted({n for n, _ in numbered} - {n for n, _ in sent}):
                self._say(f"{log.file}: line {number:,} is not sent: it is too long")
        return Part(taken, after, sent)

    def _fits(self, log: Log, number: int, line: bytes) -> bool:
        """Return whether a line is not too long for a record."""
        if len(line) <= VALUE_BYTES_MAX // 8:
            return True
        value = self._value_of(log, number, line.decode("utf-8", "replace"))
        return len(value) <= VALUE_BYTES_MAX
