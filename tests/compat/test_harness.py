"""Parts of the compatibility suite whose defects no client would show."""

from __future__ import annotations

import json
import threading
from typing import cast

import pytest
from compat.driver import Digest, Driver, Fill, Polled, Record, shown
from compat.lab.wire_client import batch_headers
from compat.mixed_group import poll_until
from compat.results import FAILED, PASSED, SKIPPED, Outcome, Results
from compat.scenarios import SCENARIOS
from compat.scenarios.sizes import BATCH_HEADER_SIZE, value_size_for
from compat.tools import TOOL_CHECKS

from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec


@pytest.mark.parametrize("size", [100, 130, 190, 191, 192, 8000, 20_000, 1_048_588])
def test_the_value_that_fills_a_batch(size: int) -> None:
    builder = RecordBatchBuilder()
    builder.append(0, None, b"x" * value_size_for(size))
    assert len(builder.build()) == size > BATCH_HEADER_SIZE


def test_headers_of_stored_batches_are_read_and_a_torn_one_is_not() -> None:
    first = RecordBatchBuilder(codec=Codec.ZSTD, producer_id=7)
    first.append(0, None, b"a")
    first.append(0, None, b"b")
    second = RecordBatchBuilder(base_offset=2, log_append_time=5)
    second.append(0, None, b"c")
    one, two = batch_headers(bytes(first.build() + second.build() + first.build()[:-1]))
    assert (one.base_offset, one.codec, one.producer_id, one.records) == (0, "zstd", 7, 2)
    assert (two.base_offset, two.log_append_time, two.codec) == (2, True, "none")


def test_a_large_value_is_compared_by_its_digest() -> None:
    large = Record(Fill(5000))
    assert large.content() == Record(b"x" * 5000).content()
    assert isinstance(shown(large.value), Digest)
    assert shown(large.value) != shown(Fill(5001))


def test_results_fail_when_one_failed_or_none_passed(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results("a broker")
    results.add(Outcome("a", "one", SKIPPED, reason="no Go here"))
    assert not results.succeeded
    results.add(Outcome("b", "one", PASSED))
    assert results.succeeded
    results.add(Outcome("b", "two", FAILED, reason="broken"))
    assert not results.succeeded
    assert results.summary() == "1 passed, 1 failed, 1 skipped against a broker"
    assert "skipped: a: no Go here" in results.table()
    assert "FAILED: b: two: broken" in results.table()
    assert json.loads(results.as_json())["failed"] == 1
    assert "no Go here" in capsys.readouterr().out


def test_every_scenario_has_a_name_of_its_own_and_a_sentence() -> None:
    named = [each.name for each in SCENARIOS] + [each.name for each in TOOL_CHECKS]
    assert len(named) == len(set(named)) > 50
    assert all(each.description.endswith(".") for each in (*SCENARIOS, *TOOL_CHECKS))


class Rebalancing:
    """A driver whose first poll returns only when the other one has been polled, too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.polled = threading.Event()
        self.other = self

    def poll(self, member: str) -> Polled:
        self.polled.set()
        assert self.other.polled.wait(timeout=20), "the other member was not polled"
        return Polled([], {f"topic-{self.name}"})


def test_members_of_a_mixed_group_are_polled_at_the_same_time() -> None:
    one, other = Rebalancing("0"), Rebalancing("1")
    one.other, other.other = other, one
    drivers = cast("list[Driver]", [one, other])
    polls = poll_until(drivers, lambda polls: len(polls.assignments) == 2)
    assert polls.assignments == {"0": {"topic-0"}, "1": {"topic-1"}}
