"""When records are delivered: delays, back-off and time to live. Without a broker."""

from __future__ import annotations

import random

import pytest
from tests.support.run_seed import run_seed, seeds

from odradek.core.share import passed as passed_states
from odradek.core.share.acknowledgement import AcknowledgementBatch, Change
from odradek.core.share.acquisition import FetchedBatch, Request
from odradek.core.share.dead_letters import Cause, DeadLetters
from odradek.core.share.due_times import BUCKET_MS, DueTimes
from odradek.core.share.offset_set import BLOCK, OffsetSet
from odradek.core.share.partition import SharePartition
from odradek.core.share.schedule import NO_TIME, RecordTime, Schedule, Scheduled
from odradek.core.share.states import RecordState, ShareSettings, StateBatch
from odradek.core.share_coordinator.state_batches import StateBatch as StoredBatch
from odradek.core.share_coordinator.state_batches import combine
from odradek.model.errors import ApiError, ErrorCode

LOCK_MS = 1000
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


def settings(**changes: int | bool) -> ShareSettings:
    found = ShareSettings(LOCK_MS, 3, 200, True, delays=True)
    return found._replace(**changes)  # type: ignore[arg-type]


def machine(its: ShareSettings, start: int = 0, *stored: StateBatch) -> SharePartition:
    made = SharePartition(1, lambda: its)
    made.begin_loading()
    made.load(0, start, stored)
    return made


def fetch(
    made: SharePartition,
    due: dict[int, int],
    first: int,
    last: int,
    now_ms: int = 0,
    member: str = "a",
    records_max: int = 500,
) -> Scheduled:
    """Acquire records of one batch. `due` has the times of the records with a header."""
    batch = FetchedBatch(first, last, 100, -1, False, False)
    times = [RecordTime(offset, 0, due.get(offset, NO_TIME)) for offset in range(first, last + 1)]
    request = Request(member, False, 500, records_max)
    schedule = Schedule(now_ms, times)
    return made.acquire_scheduled(request, first, [batch], [], now_ms, schedule)


def ready(made: SharePartition, now_ms: int, member: str = "a") -> list[int]:
    """Acquire all deferred records that are ready."""
    made.on_time(now_ms)
    request = Request(member, False, 500, 500)
    found = made.acquire_ready(request, made.ready(500), now_ms, Schedule(now_ms, []))
    return offsets(found)


def offsets(found: Scheduled) -> list[int]:
    return [
        offset
        for each in found.acquired.records
        for offset in range(each.first_offset, each.last_offset + 1)
    ]


def acknowledge(made: SharePartition, first: int, last: int, types: list[int]) -> Change:
    change = made.acknowledge("a", [AcknowledgementBatch(first, last, types)], 0)
    made.complete(change)
    return change


def test_a_record_is_acquired_when_it_is_due() -> None:
    made = machine(settings())
    assert offsets(fetch(made, {1: 500, 3: 400}, 0, 4)) == [0, 2, 4]
    acknowledge(made, 0, 0, ACCEPT)
    acknowledge(made, 2, 2, ACCEPT)
    acknowledge(made, 4, 4, ACCEPT)
    assert (made.start_offset, made.complete_count, made.acquirable_from()) == (1, 2, 5)
    assert (made.next_due_ms(), made.has_ready, made.in_flight_count) == (0, False, 0)
    assert not made.on_time(399)
    assert ready(made, 400) == [3]
    assert ready(made, 500) == [1]
    acknowledge(made, 1, 1, ACCEPT)
    assert made.start_offset == 3
    acknowledge(made, 3, 3, ACCEPT)
    assert (made.start_offset, made.complete_count) == (5, 0)


def test_records_that_wait_take_no_place_in_the_window() -> None:
    made = machine(settings(record_locks_max=20))
    for first in range(0, 10_000, 10):
        due = {offset: 1000 + offset for offset in range(first, first + 10)}
        found = fetch(made, due, first, first + 9)
        assert (found.acquired.total, found.has_deferred) == (0, True)
    assert made.in_flight_count == made.batch_count == 0
    assert offsets(fetch(made, {}, 10_000, 10_004)) == [10_000, 10_001, 10_002, 10_003, 10_004]


def test_the_census_counts_deferred_records() -> None:
    made = machine(settings())
    fetch(made, {1: 10, 2: 20, 3: 30}, 0, 3)
    assert ready(made, 10) == [1]
    made.on_time(20)
    census = made.census()
    assert (census.acquired, census.available, census.deferred) == (2, 1, 1)
    assert (census.deliveries, census.first_expiration_ms) == ({1: 2}, LOCK_MS)


def test_an_acknowledgement_may_mix_deferred_records_and_others() -> None:
    made = machine(settings())
    fetch(made, {1: 10}, 0, 2)
    assert ready(made, 10) == [1]
    change = acknowledge(made, 0, 2, [1, 2, 1])
    assert {(each.first_offset, each.state) for each in change.batches} == {
        (0, RecordState.ACKNOWLEDGED),
        (1, RecordState.AVAILABLE),
        (2, RecordState.ACKNOWLEDGED),
    }
    assert made.start_offset == 1
    assert ready(made, 10) == [1]


def test_foreign_and_late_acknowledgements_of_deferred_records_are_refused() -> None:
    made = machine(settings())
    fetch(made, {0: 10, 1: 10}, 0, 1)
    assert ready(made, 10, "b") == [0, 1]
    with pytest.raises(ApiError) as refused:
        acknowledge(made, 0, 1, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    change = made.acknowledge("b", [AcknowledgementBatch(0, 0, RENEW)], 900)
    assert change.transitions == []
    assert [each.first_offset for each in made.expire(10 + LOCK_MS).batches] == [1]
    assert [each.first_offset for each in made.expire(900 + LOCK_MS).batches] == [0]
    assert made.next_expiration_ms() is None


def test_the_back_off_doubles_up_to_its_maximum() -> None:
    made = machine(settings(delivery_count_limit=5, backoff_ms=100, backoff_max_ms=300))
    fetch(made, {}, 0, 1)
    now_ms = 0
    for wait_ms in (100, 200, 300, 300):
        for end in ({0}, {1}):
            change = acknowledge(made, min(end), max(end), RELEASE)
            made.back_off(change, now_ms)
        assert made.acquirable_from() == 2
        assert ready(made, now_ms + wait_ms - 1) == []
        now_ms += wait_ms
        found = ready(made, now_ms) + ready(made, now_ms)
        assert found == [0, 1]
    assert acknowledge(made, 0, 0, RELEASE).batches[0].state is RecordState.ARCHIVED


def test_a_timeout_is_followed_by_a_back_off() -> None:
    made = machine(settings(backoff_ms=100))
    fetch(made, {}, 0, 9)
    change = made.expire(LOCK_MS)
    made.back_off(change, LOCK_MS)
    assert (made.acquirable_from(), made.start_offset) == (10, 0)
    assert ready(made, LOCK_MS + 100) == list(range(10))


@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_a_record_is_given_up_after_its_time_to_live(has_dead_letters: bool) -> None:
    made = machine(settings(ttl_ms=100, has_dead_letters=has_dead_letters))
    # the timestamps are 0; the time of record 1 begins later
    found = fetch(made, {1: 50}, 0, 2, 100)
    assert offsets(found) == [1]
    letters = [DeadLetters(each, each, 0, Cause.EXPIRED) for each in (0, 2)]
    assert found.change.dead_letters == (letters if has_dead_letters else [])
    acknowledge(made, 1, 1, RELEASE)
    last = fetch(made, {1: 50}, 0, 2, 150)
    assert offsets(last) == []
    assert [(each.first_offset, each.delivery_count) for each in last.change.batches] == [(1, 1)]
    made.advance()
    assert made.start_offset == (0 if has_dead_letters else 3)
    made.finish_dead_letters([*found.change.dead_letters, *last.change.dead_letters])
    made.advance()
    assert made.start_offset == 3


def test_deferred_records_are_given_up_too() -> None:
    made = machine(settings(ttl_ms=100, has_dead_letters=True))
    fetch(made, {0: 10, 1: 20}, 0, 1)
    made.on_time(115)
    request = Request("a", False, 500, 500)
    times = [RecordTime(0, 0, 10), RecordTime(1, 0, 20)]
    found = made.acquire_ready(request, made.ready(500), 115, Schedule(115, times))
    assert offsets(found) == [1]
    assert found.change.dead_letters == [DeadLetters(0, 0, 0, Cause.EXPIRED)]
    assert made.start_offset == 0
    made.finish_dead_letters(found.change.dead_letters)
    assert made.start_offset == 1


def test_records_that_retention_removes_are_forgotten() -> None:
    made = machine(settings())
    fetch(made, {0: 10, 1: 20, 2: 30}, 0, 3)
    assert ready(made, 10) == [0]
    made.on_log_start(2)
    assert made.start_offset == 2
    assert ready(made, 30) == [2]
    made.complete(made.acknowledge("a", [AcknowledgementBatch(0, 0, ACCEPT)], 0))
    assert made.start_offset == 2


def test_no_new_records_are_acquired_while_too_many_wait() -> None:
    made = machine(settings())
    made._window.deferred.count_max = 3
    fetch(made, {0: 10, 1: 10, 2: 10}, 0, 2)
    assert made.acquirable_from() is None
    assert ready(made, 10) == [0, 1, 2]
    acknowledge(made, 1, 1, ACCEPT)
    assert made.acquirable_from() == 3


def test_the_start_passes_a_stored_record_without_a_later_one() -> None:
    """The gap before it was read after a restart. Kafka waits for a record after the end offset."""
    made = machine(settings(), 8, StateBatch(9, 9, RecordState.ARCHIVED, 1))
    assert offsets(fetch(made, {}, 8, 8)) == [8]
    acknowledge(made, 8, 8, ACCEPT)
    assert (made.acquirable_from(), made.start_offset, made.complete_count) == (10, 10, 0)


def test_without_delays_only_the_count_of_complete_records_passes_it() -> None:
    """As in Apache Kafka, the start offset moves with the next acquisition of later records."""
    made = machine(settings(delays=False), 8, StateBatch(9, 9, RecordState.ARCHIVED, 1))
    log = [FetchedBatch(8, 8, 70, -1, False, False)]
    made.acquire(Request("a", False, 1, 1), 8, log, (), 0)
    acknowledge(made, 8, 8, ACCEPT)
    assert (made.acquirable_from(), made.start_offset, made.complete_count) == (10, 9, 1)
    log = [FetchedBatch(10, 10, 70, -1, False, False)]
    made.acquire(Request("a", False, 1, 1), 10, log, (), 0)
    acknowledge(made, 10, 10, ACCEPT)
    assert (made.start_offset, made.complete_count) == (11, 0)


class History:
    """A random history with failed writes and restarts, and what the coordinator has stored."""

    def __init__(self, draw: random.Random, end: int) -> None:
        self.draw = draw
        self.end = end
        self.now_ms = 0
        self.due = {
            offset: draw.randrange(1, 6_000) for offset in range(end) if draw.random() < 0.4
        }
        self.settings = settings(
            record_locks_max=draw.choice((20, 100)),
            backoff_ms=draw.choice((0, 0, 50)),
            backoff_max_ms=200,
            has_dead_letters=draw.random() < 0.5,
        )
        self.made = machine(self.settings)
        self.start = 0
        self.stored: list[StoredBatch] = []
        self.storing: list[tuple[Change, set[int]]] = []
        self.letters: list[DeadLetters] = []
        self.accepted: set[int] = set()
        self.dead: set[int] = set()
        self.held: dict[int, str] = {}
        self.batches = []
        first = 0
        while first < end:
            last = min(end, first + draw.choice((1, 1, 3, 10))) - 1
            self.batches.append((first, last))
            first = last + 1

    def take(self, found: Scheduled, member: str) -> None:
        for offset in offsets(found):
            assert self.due.get(offset, 0) <= self.now_ms
            assert offset not in self.accepted | self.dead
            self.held[offset] = member

    def fetch(self) -> None:
        first = self.made.acquirable_from()
        if first is None or first >= self.end:
            return
        member = self.draw.choice("ab")
        count = self.draw.choice((1, 1, 3, 8))
        read = [each for each in self.batches if each[1] >= first][:count]
        batches = [FetchedBatch(begin, last, 100, -1, False, False) for begin, last in read]
        times = [
            RecordTime(offset, 0, self.due[offset])
            for begin, last in read
            for offset in range(begin, last + 1)
            if offset in self.due
        ]
        request = Request(
            member, self.draw.random() < 0.3, self.draw.choice((1, 10)), self.draw.choice((1, 9))
        )
        schedule = Schedule(self.now_ms, times)
        found = self.made.acquire_scheduled(request, first, batches, [], self.now_ms, schedule)
        self.take(found, member)

    def fetch_ready(self) -> None:
        self.made.on_time(self.now_ms)
        member = self.draw.choice("ab")
        found = self.made.ready(self.draw.choice((1, 5, 100)))
        if found:
            request = Request(member, False, 500, 500)
            schedule = Schedule(self.now_ms, [])
            self.take(self.made.acquire_ready(request, found, self.now_ms, schedule), member)

    def acknowledge(self) -> None:
        if not self.held:
            return
        offset = self.draw.choice(sorted(self.held))
        member = self.held.pop(offset)
        types = self.draw.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))
        batch = AcknowledgementBatch(offset, offset, types)
        try:
            change = self.made.acknowledge(member, [batch], self.now_ms)
        except ApiError:
            return  # the lock has expired meanwhile
        is_accepted = types == ACCEPT and bool(change.transitions)  # not if it came too late
        self.storing.append((change, {offset} if is_accepted else set()))

    def write(self, batches: list[StateBatch]) -> None:
        """Store what the shell of a machine stores."""
        passed = self.made.passed()
        changes = [
            StoredBatch(first, last, count, state)
            for first, last, state, count in (*batches, *passed.batches)
        ]
        self.start = self.made.start_offset
        self.stored = combine(self.stored, changes, self.start)
        self.made.on_passed(passed)

    def store(self) -> None:
        if not self.storing:
            return
        change, accepted = self.storing.pop(0)
        if self.draw.random() < 0.8:
            self.write(change.batches)
            self.made.complete(change)
            self.accepted |= accepted
            self.bury(change.dead_letters)
        else:
            self.bury(self.made.undo(change))
        self.after(change)

    def after(self, change: Change) -> None:
        for state, each in change.transitions:
            if state.state is RecordState.ARCHIVED:
                self.dead.update(range(each.first_offset, each.last_offset + 1))
        if self.settings.backoff_ms:
            self.made.back_off(change, self.now_ms)

    def bury(self, letters: list[DeadLetters]) -> None:
        self.letters += letters

    def wait(self) -> None:
        self.now_ms += self.draw.choice((1, 20, 100, LOCK_MS // 2))
        change = self.made.expire(self.now_ms)
        self.write(change.batches)
        self.made.advance()
        self.bury(change.dead_letters)
        self.after(change)

    def write_letters(self) -> None:
        letters, self.letters = self.letters, []
        batches = self.made.finish_dead_letters(letters)
        for each in letters:
            self.dead.update(range(each.first_offset, each.last_offset + 1))
        self.write(batches)
        self.made.advance()

    def restart(self) -> None:
        """Lose everything that is not stored."""
        stored = [
            StateBatch(first, last, RecordState(state), count)
            for first, last, count, state in self.stored
        ]
        self.storing.clear()
        self.held.clear()
        self.dead = {each for each in self.dead if self.is_stored(each)}
        self.made = machine(self.settings, self.start, *stored)
        self.letters = self.made.unfinished_dead_letters()

    def is_stored(self, offset: int) -> bool:
        return offset < self.start or any(
            first <= offset <= last and RecordState(state).is_terminal
            for first, last, _, state in self.stored
        )

    def check(self) -> None:
        made, done = self.made, self.accepted | self.dead
        first = min(set(range(self.end)) - done, default=self.end)
        assert made.start_offset <= first
        unfinished = made._window.deferred.unfinished
        assert len(self.stored) <= 2 * len(unfinished) + made._window.in_flight_count + 40
        complete = set(range(made.start_offset, made._window.start_offset))
        for each in made.states():
            if each.state.is_terminal:
                complete.update(range(each.first_offset, each.last_offset + 1))
        counted = [o for o in complete if o >= made.start_offset and o not in unfinished]
        ending = sum(e.state.is_terminal for e in made._window.deferred.acquired.values())
        assert made.complete_count == len(counted) + ending


@pytest.mark.parametrize("number", range(15))
def test_every_record_is_delivered_in_its_time_and_ends_once(number: int) -> None:
    seed = f"{run_seed()}-{number}"
    draw = random.Random(seed)
    it = History(draw, 120)
    steps = (
        *(it.fetch, it.fetch, it.fetch_ready, it.fetch_ready),
        *(it.acknowledge, it.acknowledge, it.acknowledge, it.store, it.store),
        *(it.wait, it.write_letters),
    )
    try:
        for step in draw.choices(steps, k=300):
            step()
            if draw.random() < 0.2:
                it.check()
            if draw.random() < 0.01:
                it.restart()
        while it.made.start_offset < it.end:
            for step in steps:
                step()
        assert it.accepted | it.dead == set(range(it.end))
        assert it.accepted.isdisjoint(it.dead)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}") from error


def test_passed_records_are_stored_in_one_batch_between_deferred_ones() -> None:
    made = machine(settings())
    stored: list[StoredBatch] = []
    fetch(made, {0: 10, 50: 10}, 0, 99)
    for offset in (*range(1, 50), *range(51, 100)):
        types = ACCEPT if offset % 3 else REJECT
        change = made.acknowledge("a", [AcknowledgementBatch(offset, offset, types)], 0)
        passed = made.passed()
        found = [
            StoredBatch(first, last, count, state)
            for first, last, state, count in (*change.batches, *passed.batches)
        ]
        stored = combine(stored, found, made.start_offset)
        made.on_passed(passed)
        made.complete(change)
    passed = made.passed()
    found = [StoredBatch(first, last, count, state) for first, last, state, count in passed.batches]
    archived = (passed_states.DELIVERIES, RecordState.ARCHIVED)
    stored = combine(stored, found, 0)
    assert combine(stored, [], 0) == [  # neighbours of a result are joined by the next call
        StoredBatch(1, 49, *archived),
        StoredBatch(51, 99, *archived),
    ]


# -- the parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(5))
def test_a_set_of_offsets_is_a_set(seed: int) -> None:
    draw = random.Random(seed)
    found, model = OffsetSet(), set[int]()
    for _ in range(1000):
        offset = draw.randrange(4 * BLOCK)
        if draw.random() < 0.5:
            found.add(offset)
            model.add(offset)
        else:
            found.discard(offset)
            model.discard(offset)
        probe = draw.randrange(4 * BLOCK)
        assert (probe in found, len(found), found.first) == (
            probe in model,
            len(model),
            min(model, default=None),
        ), f"seed {seed}"
    begin, end = sorted((draw.randrange(4 * BLOCK), draw.randrange(4 * BLOCK)))
    gaps = [each for first, last in found.gaps(begin, end) for each in range(first, last + 1)]
    assert gaps == sorted(set(range(begin, end)) - model), f"seed {seed}"
    cut = draw.randrange(4 * BLOCK)
    assert found.remove_before(cut) == sorted(each for each in model if each < cut)


@pytest.mark.parametrize("seed", seeds(5))
def test_offsets_are_due_at_their_time(seed: int) -> None:
    draw = random.Random(seed)
    times, waiting, now_ms = DueTimes(), dict[int, int](), 10 * BUCKET_MS
    for offset in range(2000):
        due_ms = now_ms + draw.randrange(-100, 5 * BUCKET_MS)
        times.add(due_ms, offset)
        waiting[offset] = due_ms
        if draw.random() < 0.2:
            now_ms += draw.randrange(BUCKET_MS // 10)
            first_ms = times.next_ms()
            assert first_ms is not None
            assert first_ms <= min(waiting.values()), f"seed {seed}"
            due = sorted((at, each) for each, at in waiting.items() if at <= now_ms)
            assert times.pop(now_ms) == [each for _, each in due], f"seed {seed}"
            for _, each in due:
                del waiting[each]
        assert len(times) == len(waiting)
