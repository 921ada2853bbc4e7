"""Compares responses with recorded responses of Apache Kafka. Equal responses are stored once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.bad_input.coordinators.requests import Outcome, codes_of
from tests.bad_input.recorded import AGAINST_APACHE, compare, load, store

ANSWERS = "the responses"
"""The key of the list of responses. Each case has the number of its response."""


def check_answers(name: str, outcomes: Sequence[Outcome]) -> None:
    """Store the responses, or compare them: all fields except ids, times and messages.

    A deviation has the error codes of both responses.
    """
    ours = [(each.what, _text(each.answer)) for each in outcomes]
    if AGAINST_APACHE:
        _store(name, outcomes)
        return
    theirs = recorded_answers(name)
    assert set(theirs) == {case for case, _ in ours}, "other requests are recorded: record again"
    different = [
        (case, _codes(theirs[case]), _codes(answer)) if theirs[case] != answer else (case, "", "")
        for case, answer in ours
    ]
    unlike = [
        f"{case}:\n  {dict(ours)[case]}\n  {theirs[case]} from Apache Kafka"
        for case, their_codes, our_codes in different
        if their_codes and their_codes == our_codes
    ]
    assert not unlike, "\n".join(unlike[:10])
    compare(name, different)


def recorded_answers(name: str) -> dict[str, str]:
    """Return the recorded response to each case; nothing if the responses are being recorded."""
    if AGAINST_APACHE:
        return {}
    recorded = load(name)
    answers = recorded.pop(ANSWERS)
    return {
        f"{request}: {change}": answers[number]
        for request, numbers in recorded.items()
        for change, number in numbers.items()
    }


def _store(name: str, outcomes: Sequence[Outcome]) -> None:
    answers = sorted({_text(each.answer) for each in outcomes})
    number_of = {answer: number for number, answer in enumerate(answers)}
    numbers: dict[str, Any] = {ANSWERS: answers}
    for each in outcomes:
        numbers.setdefault(each.request, {})[each.change] = number_of[_text(each.answer)]
    store(name, numbers)


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, default=repr, sort_keys=True)


def _codes(answer: str) -> str:
    """Return the distinct error codes of a response."""
    if not answer.startswith("{"):
        return answer
    return ", ".join(sorted(set(codes_of(json.loads(answer)))))
