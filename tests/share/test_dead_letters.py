"""Dead letters: which records they are, and when (KIP-1191). Without a broker."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import run_seed

from odradek.core.share.acknowledgement import AcknowledgementBatch, Change
from odradek.core.share.acquisition import FetchedBatch, Request
from odradek.core.share.dead_letters import Cause, DeadLetters
from odradek.core.share.partition import SharePartition
from odradek.core.share.states import RecordState, ShareSettings, StateBatch

LIMIT = 2
LOCK_MS = 1000
SEED = run_seed()
ACCEPT, RELEASE, REJECT, GAP = [1], [2], [3], [0]


def machine(start: int = 0, *stored: StateBatch, **settings: bool) -> SharePartition:
    """Return a share partition with a dead letter queue."""
    its = ShareSettings(LOCK_MS, LIMIT, 2000, True, settings.get("has_dead_letters", True))
    made = SharePartition(1, lambda: its)
    made.begin_loading()
    made.load(0, start, stored)
    return made


def acquire(made: SharePartition, first: int, last: int, now_ms: int = 0, member: str = "a") -> int:
    """Acquire records, one batch of the log."""
    batch = FetchedBatch(first, last, 100, -1, False, False)
    request = Request(member, False, 500, 500)
    return made.acquire(request, first, [batch], [], now_ms).total


def acknowledge(made: SharePartition, first: int, last: int, types: list[int]) -> Change:
    return made.acknowledge("a", [AcknowledgementBatch(first, last, types)], 0)


def states(made: SharePartition) -> dict[int, RecordState]:
    return {
        offset: each.state
        for each in made.states()
        for offset in range(each.first_offset, each.last_offset + 1)
    }


def test_a_rejected_record_waits_until_it_is_written() -> None:
    made = machine()
    acquire(made, 0, 4)
    change = acknowledge(made, 1, 2, REJECT)
    assert change.batches == [
        StateBatch(1, 1, RecordState.ARCHIVING, 1),
        StateBatch(2, 2, RecordState.ARCHIVING, 1),
    ]
    letters = change.dead_letters
    assert letters == [DeadLetters(1, 2, 1, Cause.REJECTED)]
    made.complete(change)
    for types, offset in ((ACCEPT, 0), (GAP, 3)):
        accepted = acknowledge(made, offset, offset, types)
        assert accepted.dead_letters == []
        made.complete(accepted)
    assert (made.start_offset, made.complete_count) == (1, 1)
    assert acquire(made, 1, 2) == 0
    made.on_log_start(1)
    assert made.finish_dead_letters(letters) == [StateBatch(1, 2, RecordState.ARCHIVED, 1)]
    made.advance()
    assert (made.start_offset, made.complete_count) == (4, 0)
    assert made.finish_dead_letters(letters) == []


@pytest.mark.parametrize("end", ["release", "expire", "session"])
def test_a_record_is_a_dead_letter_after_its_last_delivery(end: str) -> None:
    made = machine()

    def ended(now_ms: int) -> Change:
        if end == "release":
            return acknowledge(made, 0, 1, RELEASE)
        return made.release("a") if end == "session" else made.expire(now_ms)

    acquire(made, 0, 1)
    first = ended(LOCK_MS)
    assert first.dead_letters == []
    if end != "expire":
        made.complete(first)
    assert acquire(made, 0, 1, LOCK_MS) == 2
    last = ended(2 * LOCK_MS)
    assert last.dead_letters == [DeadLetters(0, 1, LIMIT, Cause.DELIVERED_TOO_OFTEN)]
    if end != "expire":
        made.complete(last)
    made.advance()
    assert set(states(made).values()) == {RecordState.ARCHIVING}
    made.finish_dead_letters(last.dead_letters)
    assert made.advance()
    assert made.start_offset == 2


def test_a_lock_that_expires_while_a_change_fails() -> None:
    made = machine(0, StateBatch(0, 0, RecordState.AVAILABLE, LIMIT - 1))
    acquire(made, 0, 0)
    change = acknowledge(made, 0, 0, ACCEPT)
    assert made.expire(LOCK_MS).transitions == []
    assert made.undo(change) == [DeadLetters(0, 0, LIMIT, Cause.DELIVERED_TOO_OFTEN)]
    assert states(made) == {0: RecordState.ARCHIVING}
    assert made.complete_count == 0


def test_a_change_that_is_undone_has_no_dead_letters() -> None:
    made = machine()
    acquire(made, 0, 1)
    change = acknowledge(made, 0, 1, REJECT)
    assert made.undo(change) == []
    assert set(states(made).values()) == {RecordState.ACQUIRED}


def test_the_next_leader_finds_the_dead_letters() -> None:
    made = machine(
        5,
        StateBatch(5, 6, RecordState.ARCHIVING, 1),
        StateBatch(7, 7, RecordState.ARCHIVING, LIMIT),
        StateBatch(8, 8, RecordState.AVAILABLE, 1),
    )
    letters = made.unfinished_dead_letters()
    assert letters == [
        DeadLetters(5, 6, 1, Cause.REJECTED),
        DeadLetters(7, 7, LIMIT, Cause.DELIVERED_TOO_OFTEN),
    ]
    assert made.start_offset == 5
    assert acquire(made, 5, 8) == 1
    made.finish_dead_letters(letters)
    made.advance()
    assert made.start_offset == 8


def test_a_part_of_a_batch_is_finished() -> None:
    made = machine(0, StateBatch(0, 4, RecordState.ARCHIVING, 1))
    made.finish_dead_letters([DeadLetters(1, 2, 1, Cause.REJECTED)])
    archived = [offset for offset, each in states(made).items() if each is RecordState.ARCHIVED]
    assert (archived, made.complete_count) == ([1, 2], 2)


def test_without_a_queue_records_are_archived_at_once() -> None:
    made = machine(has_dead_letters=False)
    acquire(made, 0, 1)
    change = acknowledge(made, 0, 1, REJECT)
    assert change.dead_letters == []
    made.complete(change)
    assert made.start_offset == 2


def test_records_that_retention_has_removed_are_no_dead_letters() -> None:
    made = machine()
    acquire(made, 0, 3)
    made.on_log_start(2)
    change = made.release("a")
    made.complete(change)
    assert change.dead_letters == []


class History:
    """A random history with writes that fail."""

    def __init__(self, draw: random.Random, end: int) -> None:
        self.made = machine()
        self.accepted: set[int] = set()
        self.dead: list[int] = []
        self._draw = draw
        self._end = end
        self._now_ms = 0
        self._writing: list[DeadLetters] = []
        self._storing: list[tuple[Change, set[int]]] = []

    def _bury(self, letters: list[DeadLetters]) -> None:
        self._writing.extend(letters)
        for each in letters:
            self.dead.extend(range(each.first_offset, each.last_offset + 1))

    def acquire(self) -> None:
        offset = self.made.acquirable_from()
        if offset is not None and offset < self._end:
            first = offset - offset % 5
            acquire(self.made, first, first + 4, self._now_ms)

    def acknowledge(self) -> None:
        held = [o for o, each in states(self.made).items() if each is RecordState.ACQUIRED]
        if held:
            offset = self._draw.choice(held)
            types = self._draw.choice((ACCEPT, RELEASE, RELEASE, REJECT))
            batch = AcknowledgementBatch(offset, offset, types)
            change = self.made.acknowledge("a", [batch], self._now_ms)
            self._storing.append((change, {offset} if types == ACCEPT else set()))

    def store(self) -> None:
        if not self._storing:
            return
        change, accepted = self._storing.pop(0)
        if self._draw.random() < 0.8:
            self.made.complete(change)
            self.accepted.update(accepted)
            self._bury(change.dead_letters)
        else:
            self._bury(self.made.undo(change))

    def wait(self) -> None:
        self._now_ms += self._draw.choice((1, LOCK_MS // 2, LOCK_MS))
        self._bury(self.made.expire(self._now_ms).dead_letters)
        self.made.advance()

    def write(self) -> None:
        if self._writing:
            self.made.finish_dead_letters([self._writing.pop(0)])
            self.made.advance()

    def count_complete(self) -> int:
        return sum(
            each.is_terminal
            for offset, each in states(self.made).items()
            if offset >= self.made.start_offset
        )


@pytest.mark.parametrize("number", range(20))
def test_every_record_ends_once(number: int) -> None:
    """Each record is accepted or is a dead letter, and only once."""
    seed = f"{SEED}-{number}"
    draw = random.Random(seed)
    end = 60
    it = History(draw, end)
    steps = (it.acquire, it.acknowledge, it.acknowledge, it.store, it.store, it.wait, it.write)
    for step in draw.choices(steps, k=400):
        step()
        assert it.made.complete_count == it.count_complete(), f"seed {seed}"
    while it.made.start_offset < end:
        for step in (it.acquire, it.wait, it.store, it.write):
            step()
    assert len(it.dead) == len(set(it.dead)), f"seed {seed}: {it.dead}"
    assert it.accepted.isdisjoint(it.dead), f"seed {seed}"
    assert it.accepted | set(it.dead) == set(range(end)), f"seed {seed}"
