"""Shards: batches, waiting for commits, rollback, timers, tasks."""

from __future__ import annotations

import pytest
from tests.coordinator.support import EPOCH_MS

from odradek.model.errors import ApiError, ErrorCode
from odradek.records.record import iterate_records


def test_all_of_a_turn_goes_into_one_batch(bench):
    answers = [bench.ask("put", name, n) for n, name in enumerate("abc")]
    assert bench.log.appends == 0
    assert not any(each.done() for each in answers)
    bench.run()
    assert bench.log.appends == 1
    assert [each.result() for each in answers] == ["a=0", "b=1", "c=2"]
    records = list(iterate_records(bench.log.views()[0]))
    assert [record.offset for record in records] == [0, 1, 2] == bench.machine.offsets
    assert {record.timestamp for record in records} == {EPOCH_MS}


def test_a_single_request_gets_an_immediate_response(bench):
    bench.run(1)
    assert bench.ask("put", "a", 1) == "a=1", "no future"
    assert bench.log.appends == 1
    others = [bench.ask("put", name, 2) for name in "bc"]
    assert bench.log.appends == 1
    bench.run()
    assert bench.log.appends == 2, "they share a batch"
    assert [each.result() for each in others] == ["b=2", "c=2"]
    bench.run(1)
    assert bench.ask("put_all", {"d": 4, "e": 5}) == 2
    assert bench.machine.heard[-1] is None
    assert bench.machine.offsets == [0, 1, 2, 3, 4]


def test_who_shares_no_batches_is_answered_at_once(bench):
    bench.context.shares_batches = False
    assert [bench.ask("put", name, n) for n, name in enumerate("abc")] == ["a=0", "b=1", "c=2"]
    assert bench.log.appends == 3


def test_who_asks_alone_waits_for_the_high_watermark(replicated):
    replicated.run(1)
    answer = replicated.ask("put", "a", 1)
    assert replicated.log.appends == 1
    assert not answer.done()
    replicated.log.commit()
    assert answer.result() == "a=1"


def test_who_asks_alone_is_refused_at_once(bench):
    bench.run(1)
    bench.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(ApiError) as refused:
        bench.ask("put_all", {"a": 1})
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.machine.numbers == {}
    assert bench.machine.heard[-1].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.refusal = None
    bench.run(1)
    assert bench.ask("put", "b", 2) == "b=2"
    assert bench.machine.offsets[-1] == 0


def test_the_next_question_sees_what_is_not_written_yet(bench):
    bench.ask("put", "a", 1)
    look = bench.ask("look", "a")
    assert not look.done(), "it may not be told what could still be lost"
    bench.run()
    assert look.result() == 1
    assert bench.ask("look", "a") == 1, "nothing to wait for: no future"


def test_answers_wait_for_the_high_watermark(replicated):
    first = replicated.ask("put", "a", 1)
    replicated.run()
    second = replicated.ask("put", "b", 2)
    replicated.run()
    look = replicated.ask("look", "a")
    replicated.log.commit(1)
    assert first.done()
    assert not second.done()
    assert not look.done(), "it has seen the second"
    replicated.log.commit(2)
    assert (second.result(), look.result()) == ("b=2", 1)


def test_who_waits_too_long_is_told_to_ask_again(replicated):
    answer = replicated.ask("put", "a", 1)
    replicated.run(4999)
    later = replicated.ask("put", "b", 2)
    assert not answer.done()
    replicated.run(2)
    assert answer.exception().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not later.done()
    assert replicated.machine.numbers == {"a": 1, "b": 2}, "they are in the log"
    replicated.log.commit()
    assert later.result() == "b=2"
    replicated.run(10_000)


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_responses_fail_when_their_records_may_never_be_committed(replicated, lost, told):
    answers = [replicated.ask("put", "a", 1), replicated.ask("put_all", {"b": 2})]
    replicated.run()
    read = replicated.ask("look", "a")
    replicated.log.fail(lost)
    assert [each.exception().code for each in (*answers, read)] == [told] * 3
    assert replicated.machine.heard[-1].code is told
    replicated.run(10_000)
    replicated.log.commit()
    assert replicated.ask("look", "a") == 1, "the records are in the log"


def test_a_commit_after_the_timeout_has_no_effect(replicated):
    answer = replicated.ask("put_all", {"a": 1})
    replicated.run(5001)
    assert answer.exception().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    heard = len(replicated.machine.heard)
    replicated.log.commit()
    assert len(replicated.machine.heard) == heard


def test_a_closed_shard_takes_no_commits_and_no_outcomes(replicated):
    answer = replicated.ask("put_all", {"a": 1})
    replicated.ask("put_later", "b", 2, 100)
    replicated.run()
    shard, machine = replicated.shard, replicated.machine
    replicated.runtime.unload(0, 2)
    assert answer.exception().code is ErrorCode.NOT_COORDINATOR
    heard = list(machine.heard)
    replicated.log.commit()
    shard.write_internal(machine.heard.append, machine.put, "c", 3)
    replicated.run(1000)
    assert machine.heard == heard
    assert machine.numbers == {"a": 1}
    assert replicated.log.end == 1


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_cannot_be_written_is_undone(bench, refusal, told):
    bench.ask("put_all", {"a": 1, "b": 2})
    bench.run()
    bench.log.refusal = refusal
    answers = [
        bench.ask("put", "a", 9),
        bench.ask("drop", "b"),
        bench.ask("put_all", {"c": 3, "a": 8}),
        bench.ask("look", "a"),
    ]
    assert bench.machine.numbers == {"a": 8, "c": 3}
    bench.run()
    assert {each.exception().code for each in answers} == {told}
    assert bench.machine.numbers == {"a": 1, "b": 2}
    assert [getattr(each, "code", None) for each in bench.machine.heard[1:]] == [None, told]
    bench.log.refusal = None
    bench.ask("put", "d", 4)
    bench.run()
    assert bench.machine.numbers == {"a": 1, "b": 2, "d": 4}
    assert bench.machine.offsets[-1] == 2, "offsets go on where the log does"


def test_a_refused_question_changes_nothing(bench):
    with pytest.raises(ApiError):
        bench.ask("put", "a", -1)
    bench.run()
    assert bench.log.appends == 0


def test_a_defect_of_the_machine_spoils_its_batch_only(bench):
    answer = bench.ask("put", "a", 1)
    with pytest.raises(AssertionError):
        bench.ask("break_down")
    assert answer.exception().code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.machine.numbers == {}
    bench.ask("put", "b", 2)
    bench.run()
    assert bench.machine.numbers == {"b": 2}
    assert bench.log.end == 1


def test_what_belongs_together_is_not_divided(bench):
    bench.log.batch_bytes_max = 400
    first = bench.ask("put_all", {f"first{n}": n for n in range(3)})
    second = bench.ask("put_all", {f"second{n}": n for n in range(4)})
    bench.run()
    assert [view.count for view in bench.log.views()] == [3, 4]
    assert (first.result(), second.result()) == (3, 4)
    too_large = bench.ask("put_all", {f"third{n}": n for n in range(40)})
    bench.run()
    assert too_large.exception().code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(bench.machine.numbers) == 7


def test_what_need_not_be_together_fills_batches(bench):
    bench.log.batch_bytes_max = 400
    answer = bench.ask("put_all", {f"name{n}": n for n in range(20)}, atomic=False)
    bench.run()
    assert len(bench.log.batches) > 3
    assert all(len(batch) <= 400 for batch in bench.log.batches)
    assert answer.result() == 20
    assert bench.machine.offsets == list(range(20))


def test_a_batch_that_fails_before_others_fails_them_too(bench):
    bench.log.batch_bytes_max = 400
    bench.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    first = bench.ask("put", "a", 1)
    with pytest.raises(ApiError):
        bench.ask("put_all", {f"name{n}": n for n in range(20)}, atomic=False)
    assert first.exception().code is ErrorCode.NOT_COORDINATOR
    assert bench.machine.numbers == {}
    assert [getattr(each, "code", each) for each in bench.machine.heard] == [
        "loaded",
        ErrorCode.NOT_COORDINATOR,
    ]


def test_timers_write_too(bench):
    bench.ask("put_later", "a", 1, 100)
    bench.ask("put_later", "b", 2, 50)
    bench.run(60)
    assert bench.machine.numbers == {"b": 2}
    bench.run(60)
    assert bench.machine.numbers == {"b": 2, "a": 1}
    assert bench.log.end == 2


def test_a_timer_whose_records_are_lost_comes_again(bench):
    bench.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.ask("put_later", "a", 1, 100)
    bench.run(500)
    assert bench.machine.numbers == {}
    bench.log.refusal = None
    bench.run(700)
    assert bench.machine.numbers == {"a": 1}


def test_answers_that_the_machine_gives_later(bench):
    ticket = bench.loop.create_future()
    assert bench.ask("keep_waiting", ticket) is None
    bench.run(40)
    assert not ticket.done()
    bench.run(20)
    assert ticket.result() == "now"


def test_work_for_threads_ends_in_records(bench):
    bench.ask("put_computed", "a", lambda: 42)
    bench.run()
    bench.run()
    assert bench.machine.numbers == {"a": 42}


def test_work_that_fails_is_told(bench):
    bench.ask("put_computed", "a", lambda: 1 // 0)
    bench.run()
    bench.run()
    assert isinstance(bench.machine.heard[-1], ZeroDivisionError)


def test_transactions(bench):
    shard, machine = bench.shard, bench.machine
    before = bench.ask("put", "a", 1)
    answer = shard.write_in_transaction(7, 3, 0, machine.put, "a", 2)
    assert before.done(), "what came before is written before"
    assert answer.result() == "a=2"
    assert machine.numbers == {"a": 1}
    ended = shard.complete_transaction(7, 3, 5, True, 2)
    bench.run()
    assert ended.result() is None
    assert machine.numbers == {"a": 2}
    plain, transactional, marker = bench.log.views()
    assert not plain.is_transactional
    assert (transactional.producer_id, transactional.producer_epoch) == (7, 3)
    assert transactional.is_transactional
    assert marker.is_control
    assert bench.log.end == 3


def test_an_aborted_transaction_leaves_nothing(bench):
    bench.shard.write_in_transaction(7, 3, 0, bench.machine.put, "a", 2)
    bench.shard.complete_transaction(7, 3, 5, False, 2)
    bench.run()
    assert bench.machine.numbers == {}
    assert bench.machine.pending == {}


def test_a_transactional_write_that_fails_is_undone(bench):
    bench.log.refusal = ErrorCode.INVALID_TXN_STATE
    answer = bench.shard.write_in_transaction(7, 3, 0, bench.machine.put, "a", 2)
    assert answer.exception().code is ErrorCode.INVALID_TXN_STATE
    assert bench.machine.pending == {}
    with pytest.raises(ApiError):
        bench.shard.complete_transaction(7, 3, 5, True, 2)
    bench.log.refusal = None
    bench.ask("put", "b", 1)
    bench.run()
    assert bench.machine.offsets[-1] == 0


def test_delayed_answers_wait_until_the_loaded_records_are_committed(replicated):
    replicated.ask("put", "a", 1)
    replicated.run()
    answer = hand_over(replicated)
    assert replicated.machine.numbers == {"a": 1}, "loaded, but not committed"
    replicated.run(60)
    assert not answer.done(), "it may depend on records that can still be lost"
    replicated.log.commit()
    assert answer.result() == "now"
    later = replicated.loop.create_future()
    replicated.ask("keep_waiting", later)
    replicated.ask("put", "b", 2)
    replicated.run(60)
    assert later.result() == "now", "records of this term do not delay it"


def test_delayed_answers_fail_if_the_loaded_records_are_not_committed(replicated):
    replicated.ask("put", "a", 1)
    replicated.run()
    answer = hand_over(replicated)
    replicated.run(60)
    replicated.run(5000)
    assert answer.exception().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = replicated.loop.create_future()
    replicated.ask("keep_waiting", answer)
    replicated.run(60)
    replicated.runtime.unload(0)
    assert answer.exception().code is ErrorCode.NOT_COORDINATOR


def hand_over(bench):
    """Elect the broker again, and ask for a delayed answer."""
    bench.runtime.unload(0)
    bench.runtime.load(0, 2)
    bench.run(10)
    answer = bench.loop.create_future()
    bench.ask("keep_waiting", answer)
    return answer
