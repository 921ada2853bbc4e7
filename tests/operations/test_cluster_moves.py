"""Which moves of a plan begin when, and what becomes of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.errors import ClientError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.cluster_moves import Moves

MOVES = {TopicPartition("orders", index): (1, 2, 4) for index in range(5)}
KEYS = list(MOVES)


def test_only_some_moves_are_in_progress_at_the_same_time() -> None:
    moves = Moves(MOVES, 2, now_ms=0)
    assert moves.begin() == dict.fromkeys(KEYS[:2], (1, 2, 4))
    assert moves.begin() == {}
    moves.begun(dict.fromkeys(KEYS[:2]))
    moves.seen([KEYS[1]], now_ms=10)
    assert (moves.moved, moves.active, moves.not_begun) == (1, {KEYS[1]}, 3)
    assert list(moves.begin()) == [KEYS[2]]


def test_a_move_that_is_refused_makes_room_for_the_next() -> None:
    moves = Moves(MOVES, 1, now_ms=0)
    refused = ClientError("no such broker")
    moves.begun(dict.fromkeys(moves.begin(), refused))
    assert (moves.errors, moves.moved) == ([refused], 0)
    assert list(moves.begin()) == [KEYS[1]]


def test_moves_whose_request_had_no_response_are_cancelled_too() -> None:
    moves = Moves(MOVES, 3, now_ms=0)
    begun = moves.begin()
    cancelled = moves.cancel()
    assert cancelled == dict.fromkeys(begun)
    moves.cancellations({**cancelled, KEYS[0]: ClientError("it was complete")})
    assert (moves.cancelled, moves.not_begun, moves.active) == (2, 2, frozenset())


def test_a_stall_is_told_once_in_each_interval() -> None:
    moves = Moves(MOVES, 2, now_ms=0)
    assert not moves.stalled(1_000, after_ms=1_000)  # nothing is in progress
    moves.begun(dict.fromkeys(moves.begin()))
    moves.seen(KEYS[:2], now_ms=900)
    assert [moves.stalled(now, after_ms=1_000) for now in (999, 1_000, 1_999, 2_000)] == [
        False, True, False, True,
    ]  # fmt: skip
    moves.seen(KEYS[:1], now_ms=2_500)
    assert not moves.stalled(3_400, after_ms=1_000)
    assert moves.stalled(3_500, after_ms=1_000)


@given(
    count=st.integers(0, 8),
    at_once=st.integers(1, 4),
    refused=st.sets(st.integers(0, 7)),
    order=st.randoms(use_true_random=False),
)
def test_each_partition_is_moved_or_refused_once(count, at_once, refused, order) -> None:
    keys = [TopicPartition("t", index) for index in range(count)]
    moves = Moves(dict.fromkeys(keys, (1,)), at_once, now_ms=0)
    requested: list[TopicPartition] = []
    in_progress: set[TopicPartition] = set()
    while not moves.is_done:
        wanted = moves.begin()
        requested += wanted
        results = {
            key: ClientError("refused") if key.partition in refused else None for key in wanted
        }
        moves.begun(results)
        in_progress.update(key for key, error in results.items() if error is None)
        assert len(in_progress) <= at_once
        if in_progress:
            in_progress.remove(order.choice(sorted(in_progress)))
        moves.seen(in_progress, now_ms=0)
    assert requested == keys
    assert moves.moved + len(moves.errors) == count
    assert len(moves.errors) == len([key for key in keys if key.partition in refused])
