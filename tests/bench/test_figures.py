"""Medians, ratios and verdicts."""

from __future__ import annotations

from bench.figures import OURS, THEIRS, Figure, Quantity, table
from bench.machine import facts, without_paths
from bench.results import with_limits_of


def figure(limit: float | None, ours: list[float], theirs: list[float], **more: bool) -> Figure:
    return Figure("bench", Quantity("figure", "s", limit, **more), {OURS: ours, THEIRS: theirs})


def test_the_ratio_is_that_of_the_medians() -> None:
    one = figure(0.5, [1.0, 9.0, 2.0], [4.0, 4.0, 5.0])
    assert one.ratio == 0.5
    assert one.verdict == "kept"
    assert one.spread(OURS) == 4.0


def test_a_limit_is_missed_in_its_own_direction() -> None:
    assert figure(0.5, [3.0], [4.0]).verdict == "MISSED"
    assert figure(1.0, [3.0], [4.0], higher_is_better=True).verdict == "MISSED"
    assert figure(1.0, [5.0], [4.0], higher_is_better=True).verdict == "kept"
    assert figure(None, [5.0], [4.0]).verdict == ""


def test_a_limit_may_be_one_for_us_alone() -> None:
    alone = Figure("bench", Quantity("figure", "s", most=3), {OURS: [2.0, 3.0, 9.0]})
    assert alone.verdict == "kept"
    alone.values[OURS].append(4.0)
    assert alone.verdict == "MISSED"
    assert "≤ 3 s" in table([alone], {OURS: "we", THEIRS: "they"})
    both = Figure("bench", Quantity("figure", "s", 0.5, most=3), {OURS: [2.0], THEIRS: [3.0]})
    assert both.verdict == "MISSED"


def test_without_the_other_there_is_no_ratio() -> None:
    alone = Figure("bench", Quantity("figure", "ms", 1.0), {OURS: [3.0]})
    assert alone.ratio is None
    assert alone.verdict == ""
    assert "figure" in table([alone], {OURS: "we", THEIRS: "they"})


def test_a_round_that_does_not_end_in_time_is_a_bound() -> None:
    one = Figure("failover", Quantity("leader killed", "s", 1.0))
    for value, missing in ((30.0, ""), (120.0, "7 of 9 partitions without a write")):
        one.add(OURS, 10.0)
        one.add(THEIRS, value, missing)
    assert one.is_bound(THEIRS)
    assert not one.is_bound(OURS)
    assert one.verdict == "kept"
    shown = table([one], {OURS: "we", THEIRS: "they"})
    assert "not within 75 s; 7 of 9 partitions without a write" in shown
    assert "< 0.133" in shown
    one.add(THEIRS, 20.0)
    assert one.median(THEIRS) == 30.0
    assert not one.is_bound(THEIRS)
    assert one.as_json()["unfinished"] == {THEIRS: ["7 of 9 partitions without a write"]}


def test_our_own_round_that_does_not_end_in_time_misses_the_limit() -> None:
    one = Figure("failover", Quantity("leader killed", "s", 1.0))
    one.add(OURS, 120.0, "1 of 9 partitions without a write")
    one.add(THEIRS, 120.0, "9 of 9 partitions without a write")
    assert one.ratio is None
    assert one.verdict == "MISSED"
    assert "not within 120 s; 1 of 9" in table([one], {OURS: "we", THEIRS: "they"})


def test_facts_name_no_host_and_no_path() -> None:
    told = facts()
    assert told["cores"]
    free = {"processor", "command"}
    assert not any("/" in str(value) for key, value in told.items() if key not in free)
    words = ["produce", "--output", "/a/b", "--rounds", "3", "--keep=/c", "--directory"]
    assert without_paths(words) == ["produce", "--rounds", "3"]


def test_a_pure_build_has_limits_of_its_own() -> None:
    kept = [
        Figure("produce", Quantity("CPU", "s/GB", 0.5), {OURS: [0.9], THEIRS: [1.0]}),
        Figure("varied", Quantity("CPU", "s/GB", 0.5), {OURS: [3.0], THEIRS: [1.0]}),
        Figure("memory", Quantity("idle", "MB"), {OURS: [3.0], THEIRS: [1.0]}),
    ]
    verdicts = {
        build: [each.verdict for each in with_limits_of({"ours": {"build": build}}, kept)]
        for build in ("pure", "compiled")
    }
    assert verdicts == {"pure": ["kept", "", ""], "compiled": ["MISSED", "MISSED", ""]}
