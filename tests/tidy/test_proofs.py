"""The stored results of the long tests are not older than ten commits that concern them."""

from __future__ import annotations

import pytest
from bench.proofs import freshness
from bench.proofs.catalogue import BY_NAME, LONG_TESTS
from bench.proofs.freshness import COMMITS_MAX, NoHistory, commits_since_result
from bench.proofs.long_test import LongTest
from compat.lab.toolchain import HISTORY, ROOT, Missing, absent

CONCERNED = [each for each in LONG_TESTS if each.concerns]
WITHOUT_LIMIT = {"fuzz", "compat", "isolation", "compaction", "recovery", "scale"}
"""The check runs the whole test, or it is a benchmark."""


@pytest.mark.parametrize("test", CONCERNED, ids=lambda test: test.name)
def test_the_result_is_not_too_old(test: LongTest) -> None:
    try:
        count = commits_since_result(test)
    except NoHistory as reason:
        try:
            raise absent(HISTORY, f"the commits are not known: {reason}") from None
        except Missing as missing:
            pytest.skip(str(missing))
    assert count <= COMMITS_MAX, f"run `make proofs ARGS={test.name}` and commit the stored result"


def test_what_is_named_exists() -> None:
    assert {each.name for each in LONG_TESTS} - {each.name for each in CONCERNED} == WITHOUT_LIMIT
    for test in CONCERNED:
        assert [path for path in test.concerns if not (ROOT / path).exists()] == []


def test_commits_are_counted_from_the_last_result(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    answers = {
        "rev-parse": lambda words: "false",
        "rev-list": lambda words: "11",
        "merge-base": lambda words: "",
    }

    def git(*words: str) -> str:
        asked.append(words)
        return answers[words[0]](words)

    def refuse(words: tuple[str, ...]) -> str:
        raise NoHistory("rebased")

    monkeypatch.setattr(freshness, "_git", git)
    result = {"commit": "abc1234+", "time": "2026-11-22T10:50:48+00:00"}
    monkeypatch.setattr(freshness, "last_result", lambda name: result)
    test = BY_NAME["spark-own-sink"]
    assert commits_since_result(test) == 11
    assert asked[-1][2:] == ("HEAD", f"^{freshness.COUNTED_FROM}", "^abc1234", "--", *test.concerns)
    answers["merge-base"] = refuse
    assert commits_since_result(test) == 11
    assert f"--since={result['time']}" in asked[-1]
    answers["rev-parse"] = lambda words: "true"
    with pytest.raises(NoHistory):
        commits_since_result(test)
