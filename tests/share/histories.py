"""Random histories of a share partition, for our state machine and for Apache Kafka's class.

`History` runs our machine, and records each operation as a line for `ShareOracle.java`, together with
what our machine has answered and the state after the operation. The operations are acquisitions,
acknowledgements, releases, responses of the share coordinator, the passing of time and moves of the
log start offset. They are chosen so that most of them concern records in flight.

    python -m tests.share 2000

compares so many histories with Apache Kafka.
"""

from __future__ import annotations

import random
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from compat.lab.maven import kafka_jars
from compat.lab.toolchain import require

from odradek.core.share.acknowledgement import AcknowledgementBatch, Change
from odradek.core.share.acquisition import Aborted, FetchedBatch, Request
from odradek.core.share.in_flight import InFlightState
from odradek.core.share.partition import SharePartition
from odradek.core.share.states import RecordState, ShareSettings, StateBatch, combined
from odradek.model.errors import ApiError
from odradek.records.batch import RECORD_BATCH_HEADER
from odradek.records.control import end_of_transaction_batch

MEMBERS = ("a", "b", "c")
LOCK_MS = 1_000


class Log:
    """The batches of a log, which grows as it is read. Some offsets have no batch."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.batches: list[tuple[FetchedBatch, bytes]] = []
        self.aborted: list[Aborted] = []
        self._end = 0
        self._open: dict[int, int] = {}
        self._has_gaps = draw.random() < 0.3
        self._has_transactions = draw.random() < 0.4

    def grow(self, offset: int) -> None:
        """Append batches until the log ends after `offset`."""
        while self._end <= offset:
            draw = self._draw
            if self._has_gaps and draw.random() < 0.1:
                self._end += draw.randrange(1, 12)
            if self._has_transactions and draw.random() < 0.5:
                self._append_transactional(draw.randrange(1, 3))
            else:
                self._append(draw.choice((1, 1, 2, 5, 10, 30)), -1, 0)

    def _append_transactional(self, producer: int) -> None:
        first = self._open.get(producer)
        if first is not None and self._draw.random() < 0.4:
            is_commit = self._draw.random() < 0.4
            if not is_commit:
                self.aborted.append(Aborted(producer, first))
            del self._open[producer]
            data = bytearray(
                end_of_transaction_batch(
                    committed=is_commit,
                    producer_id=producer,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=0,
                )
            )
            data[:8] = self._end.to_bytes(8, "big")
            batch = FetchedBatch(self._end, self._end, len(data), producer, True, not is_commit)
            self._end += 1
            self.batches.append((batch, bytes(data)))
            return
        self._open.setdefault(producer, self._end)
        self._append(self._draw.choice((1, 3, 8)), producer, 0x10)

    def _append(self, count: int, producer: int, attributes: int) -> None:
        data = RECORD_BATCH_HEADER.pack(
            self._end, 49, 0, 2, 0, attributes, count - 1, 0, 0, producer, 0, 0, 0
        )
        last = self._end + count - 1
        self.batches.append(
            (FetchedBatch(self._end, last, len(data), producer, bool(attributes), False), data)
        )
        self._end = last + 1

    def read(self, offset: int, count: int) -> list[tuple[FetchedBatch, bytes]]:
        """Return `count` batches from the one with `offset` on."""
        self.grow(offset + 60)
        found = [each for each in self.batches if each[0].last_offset >= offset]
        return found[:count]


class History:
    """One history. `lines` and `answers` have one element for each operation."""

    def __init__(self, seed: int, operations: int = 60) -> None:
        self.seed = seed
        self.lines: list[str] = []
        self.answers: list[str] = []
        self._draw = draw = random.Random(seed)
        self._now = 0
        self._writes: list[Change] = []
        self._acquired: list[tuple[str, int, int]] = []
        self._log = Log(draw)
        self._committed = draw.random() < 0.5
        self._settings = ShareSettings(
            LOCK_MS, draw.choice((2, 3, 5, 5, 6, 10)), draw.choice((20, 50, 100, 2000)), True
        )
        self._machine = SharePartition(3, lambda: self._settings)
        self._new()
        steps = (
            (self._acquire, 10),
            (self._acknowledge, 12),
            (self._stored, 10),
            (self._time, 4),
            (self._release, 1),
            (self._move_start, 0.5),
        )
        chosen = draw.choices(
            [step for step, _ in steps], [weight for _, weight in steps], k=operations
        )
        for step in chosen:
            step()

    # -- operations -------------------------------------------------------------------------

    def _new(self) -> None:
        draw = self._draw
        start = draw.choice((0, 0, draw.randrange(40)))
        batches = []
        if draw.random() < 0.4:
            first = start
            for _ in range(draw.randrange(1, 5)):
                first += draw.choice((0, 0, 0, draw.randrange(1, 15)))
                last = first + draw.choice((0, 0, 4, 9))
                state = draw.choice(
                    (RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
                )
                batches.append(StateBatch(first, last, state, draw.randrange(1, 4)))
                first = last + 1
        self._machine.begin_loading()
        self._machine.load(7, start, batches)
        settings = self._settings
        stored = ",".join(":".join(str(int(part)) for part in each) for each in batches)
        self._record(
            "", "new", settings.record_locks_max, settings.delivery_count_limit,
            settings.record_lock_duration_ms, start, 7, stored,
        )  # fmt: skip

    def _acquire(self) -> None:
        machine, draw = self._machine, self._draw
        self._record(
            f"{str(machine.acquirable_from() is not None).lower()} "
            f"{machine._window.next_fetch_offset()}",
            "next",
        )
        offset = machine.acquirable_from()
        if offset is None:
            return
        member = draw.choice(MEMBERS)
        request = Request(
            member,
            draw.random() < 0.35,
            draw.choice((1, 5, 10, 500)),
            draw.choice((1, 3, 10, 25, 500)),
        )
        read = self._log.read(offset, draw.choice((1, 1, 2, 4, 8)))
        batches = [batch for batch, _ in read]
        aborted = []
        if self._committed and batches:
            aborted = [
                each for each in self._log.aborted if each.first_offset <= batches[-1].last_offset
            ]
        acquired = machine.acquire(request, offset, batches, aborted, self._now)
        text = ""
        for each in acquired.records:
            text += f"{each.first_offset}-{each.last_offset}x{each.delivery_count} "
            self._acquired.append((member, each.first_offset, each.last_offset))
        self._record(
            f"{text}{acquired.total}", "acquire", member, int(request.is_record_limit),
            request.batch_size, request.records_max, offset,
            b"".join(data for _, data in read).hex(),
            ",".join(f"{each.producer_id}:{each.first_offset}" for each in aborted),
        )  # fmt: skip

    def _acknowledge(self) -> None:
        draw = self._draw
        if not self._acquired:
            return
        index = draw.randrange(max(0, len(self._acquired) - 8), len(self._acquired))
        member, first, last = self._acquired[index]
        if draw.random() < 0.7:
            del self._acquired[index]
        if draw.random() < 0.05:
            member = draw.choice(MEMBERS)
        batches = []
        parts = [(first, last)]
        if last > first and draw.random() < 0.3:
            middle = draw.randrange(first, last)
            parts = [(first, middle), (middle + 1, last)][draw.randrange(2) :]
        if draw.random() < 0.1:
            parts[-1] = (parts[-1][0], parts[-1][1] + draw.randrange(1, 20))
        for begin, end in parts:
            kinds = draw.choices((0, 1, 2, 3, 4), (1, 8, 5, 2, 1), k=1)
            if draw.random() < 0.25:
                kinds = draw.choices((0, 1, 2, 3, 4), (1, 8, 4, 2, 1), k=end - begin + 1)
            batches.append(AcknowledgementBatch(begin, end, kinds))
        text = ";".join(
            f"{each.first_offset}:{each.last_offset}:{','.join(map(str, each.types))}"
            for each in batches
        )
        try:
            change = self._machine.acknowledge(member, batches, self._now)
        except ApiError as error:
            self._record(error.code.name, "acknowledge", member, text)
        else:
            self._record(self._stores(change), "acknowledge", member, text)

    def _release(self) -> None:
        member = self._draw.choice(MEMBERS)
        change = self._machine.release(member)
        self._record(self._stores(change), "release", member)

    def _stores(self, change: Change) -> str:
        if not change.transitions:
            return "nothing to store"
        self._writes.append(change)
        return f"stores {_offsets(change.batches)}"

    def _stored(self) -> None:
        if not self._writes:
            return
        change = self._writes.pop(0)
        is_stored = self._draw.random() < 0.85
        if is_stored:
            self._machine.complete(change)
        else:
            self._machine.undo(change)
        self._record("", "stored", str(is_stored).lower())

    def _time(self) -> None:
        passed = self._draw.choice((1, 100, 400, 999, 1000))
        self._now += passed
        batches = combined(self._machine.expire(self._now).batches)
        if batches:
            self._machine.advance()
        self._record(_offsets(batches), "time", passed)

    def _move_start(self) -> None:
        offset = self._machine.start_offset + self._draw.choice((1, 3, 10, 40))
        self._machine.on_log_start(offset)
        self._log.grow(offset)
        self._record("", "start", offset)

    def tell(self, number: int, answer: str) -> str:
        """Describe a difference: the last operations before it, and both answers."""
        begin = max(0, number - 8)
        before = zip(self.lines[begin:number], self.answers[begin:number], strict=True)
        told = "\n".join(f"{line}\n  {each}" for line, each in before)
        return (
            f"history {self.seed} differs at {number}:\n{self.lines[0]}\n...\n{told}\n"
            f"{self.lines[number]}\nours:    {self.answers[number]}\nKafka's: {answer}"
        )

    # -- recording --------------------------------------------------------------------------

    def _record(self, answer: str, *words: object) -> None:
        self.lines.append("\t".join(map(str, words)))
        self.answers.append(f"{answer} | {self._state()}")

    def _state(self) -> str:
        window = self._machine._window
        text = f"{window.start_offset} {window.end_offset} {window.complete_count}"
        for batch in window.batches:
            text += f" {batch.first_offset}-{batch.last_offset}"
            if batch.whole is not None:
                text += f":{_text(batch.whole)}"
            else:
                assert batch.offsets is not None
                text += "".join(f",{_text(each)}" for each in batch.offsets)
        return text


def _text(state: InFlightState) -> str:
    lock = "" if state.lock is None else f"@{state.lock.expiration_ms}"
    mark = "~" if state.in_transition else ""
    return f"{int(state.state)}x{state.delivery_count}{state.member_id}{mark}{lock}"


def _offsets(batches: Sequence[StateBatch]) -> str:
    found = {
        offset: f"{offset}={int(each.state)}x{each.delivery_count} "
        for each in batches
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    return "".join(found[offset] for offset in sorted(found))


def compare(histories: Sequence[History]) -> int:
    """Compare the histories with Apache Kafka. Return how many were compared to their end.

    In rare cases Kafka's class throws a RuntimeException, for example for an aborted batch that
    begins before the start offset. Such a history is compared up to there.

    Raises:
        AssertionError: an answer or a state differs. The message has the last operations.
        Missing: there is no Java or no Maven here.
    """
    theirs, errors = _ask(line for each in histories for line in each.lines)
    whole = 0
    for history in histories:
        for number, (ours, answer) in enumerate(
            zip_longest(history.answers, islice(theirs, len(history.lines)))
        ):
            if answer is None:
                raise AssertionError(f"Java has ended: {errors[-2000:]}")
            if answer.startswith("failed: "):
                deque(islice(theirs, len(history.lines) - number - 1), maxlen=0)
                break
            if answer != ours:
                raise AssertionError(history.tell(number, answer))
        else:
            whole += 1
    return whole


def _ask(lines: Iterable[str]) -> tuple[Iterator[str], str]:
    """Return Kafka's answers, and what it has written to standard error."""
    require("javac")
    command = [
        require("java"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        str(kafka_jars()[0].parent / "*"),
        Path(__file__).with_name("ShareOracle.java"),
    ]
    run = subprocess.run(
        command,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=3600,
        check=False,
    )
    # Kafka's log messages are in the output, too.
    answers = (line[2:] for line in run.stdout.splitlines() if line.startswith("= "))
    return answers, run.stderr
