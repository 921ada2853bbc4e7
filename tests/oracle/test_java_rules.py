"""Java's regular expressions, and Apache Kafka's rules for names, have the results that they have there.

ODRADEK_RULES sets how many random pairs of a rule and a name are compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import chain

import pytest
from compat.lab.toolchain import Missing
from tests.java_regex.cases import CASES
from tests.java_regex.grammar import Grammar, tokens
from tests.java_regex.rules import certificate_case, kerberos_case
from tests.oracle.jvm import rules
from tests.support.run_seed import seeds

from odradek.config.checks import ConfigurationError
from odradek.config.kerberos_names import NameRules
from odradek.config.principal_mapping import PrincipalMapping
from odradek.java_regex.errors import MatchRefused, PatternError
from odradek.java_regex.pattern import Pattern
from odradek.model.principal import NoUser

pytestmark = pytest.mark.java

COUNT = int(os.environ.get("ODRADEK_RULES", "300"))
USER, REFUSED, NONE = "user", "refused", "no user"
LISTED = (
    "Bad intersection syntax",
    "in the replacement",
    "more than 200000 steps",
    "above U+FFFF",
    "is no user",
)
"""What is refused though Java does not, or not before a name matches: see docs/java-regex.md."""

Row = tuple[str, ...]
"""A line of the input of Rules.java."""


def attempt(call: Callable[[], str]) -> tuple[str, str]:
    """Return a result, or what kind of failure and its message."""
    try:
        return USER, call()
    except (ConfigurationError, PatternError) as error:
        return REFUSED, str(error)
    except (MatchRefused, NoUser) as error:
        return NONE, str(error)


def replaced(pattern: str, replacement: str, text: str) -> str:
    """Return whether the pattern matches the text, and the text after the replacement."""
    made = Pattern(pattern)
    parsed = made.replacement(replacement)
    return ("y" if made.matches(text) else "n") + made.replace_all(text, parsed)


def hand_written() -> list[Row]:
    return [("P", *case[:3]) for case in CASES]


def random_patterns() -> list[Row]:
    made: list[Row] = []
    for seed in seeds(COUNT):
        grammar = Grammar(random.Random(seed), depth=seed % 4)
        pattern = grammar.pattern()
        made.append(("P", pattern, grammar.replacement(), grammar.text()))
    return made


def random_tokens() -> list[Row]:
    return [("P", *tokens(seed)) for seed in seeds(COUNT)]


def certificates() -> list[Row]:
    return [("S", *certificate_case(seed)) for seed in seeds(COUNT)]


def kerberos() -> list[Row]:
    cases = map(kerberos_case, seeds(COUNT))
    return [("K", realm, name, *given) for realm, name, given in cases]


def ours(row: Row) -> str:
    match row:
        case "P", pattern, replacement, text:
            return replaced(pattern, replacement, text)
        case "S", given, name:
            return PrincipalMapping(given).user_of(name)
    _, realm, name, *given = row
    return NameRules(given).user_of(name, realm)


GIVEN = {
    make.__name__: make
    for make in (hand_written, random_patterns, random_tokens, certificates, kerberos)
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[Row, str]]]:
    """The rows of each kind with the answers of one JVM."""
    made = {name: make() for name, make in GIVEN.items()}
    try:
        said = iter(rules(chain.from_iterable(made.values())))
    except Missing as reason:
        pytest.skip(str(reason))
    return {name: [(row, next(said)) for row in rows] for name, rows in made.items()}


@pytest.mark.parametrize("kind", GIVEN)
def test_results(kind: str, answers: dict[str, list[tuple[Row, str]]]) -> None:
    different = []
    for row, answer in answers[kind]:
        outcome, text = attempt(lambda row=row: ours(row))
        is_listed = any(each in text for each in LISTED)
        if answer.startswith("="):
            is_same = text == answer[1:] if outcome == USER else is_listed
        elif answer == "-":
            is_same = outcome == NONE or (outcome == REFUSED and is_listed)
        else:
            is_same = outcome == REFUSED or (outcome == NONE and answer == "?")
        if not is_same:
            different.append((row, answer, outcome, text))
    assert different == []
    users = sum(answer.startswith("=") for _, answer in answers[kind])
    assert users > len(answers[kind]) // 10, "the rows are about nothing"
