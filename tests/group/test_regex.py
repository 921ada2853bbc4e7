"""Patterns of subscriptions."""

from __future__ import annotations

from random import Random

import pytest
from compat.lab.toolchain import Missing
from tests.group import java_oracle

from odradek.core.group.consumer.regex import CostlyRegex, InvalidRegex, Regex, automaton


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders1", "my-orders", ""]),
        ("orders.*", ["orders", "orders-eu"], ["my-orders"]),
        (".*", ["", "a", "a.b"], []),
        ("^a|b$", ["a", "b"], ["ab", "ba"]),
        ("[a-c]+[^a-c]", ["abcd", "a-"], ["abc", "d"]),
        ("[]-]*", ["]", "-", "]-]"], ["["]),
        ("(?i)ORDERS-[A-Z]+", ["orders-eu", "Orders-EU"], ["orders-1"]),
        ("(?i:a)b", ["ab", "Ab"], ["AB"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{,3}", ["a{,3}"], ["a"]),
        ("(ab){2}", ["abab"], ["ab", "ababab"]),
        (r"\d+\.\w+", ["1.x", "20._"], ["x.1", "1x"]),
        (r"\Qa.b*\E", ["a.b*"], ["aXbb"]),
        (r"a\b-\bb", ["a-b"], ["ab"]),
        (r"a\Bb", ["ab"], ["a"]),
        (r"[[:alpha:]]+[[:^digit:]\d]", ["ab1", "ab-"], ["1"]),
        (r"\x41\x{62}\103", ["AbC"], ["abc"]),
        (r"\pL+\p{^Nd}\P{Lu}", ["aa-b"], ["aa1b", "aa-B"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        ("(|a)*b", ["b", "aab"], ["a"]),
        ("\u212a|(?i)\u212a", ["k", "K"], ["\u017f"]),
        ("é*", [""], ["e"]),
    ],
)
def test_matches(pattern, matching, others):
    regex = Regex(pattern)
    assert [each for each in matching if not regex.matches(each)] == []
    assert [each for each in others if each.isascii() and regex.matches(each)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "*", "a**", "{*", "a{2}{3}", "a{1001}", "a{3,2}", "a{99999999999}", "(", ")", "(?", "(?x)", "(?i",
        "(?P=n)", "(?P<>a)", "(?P<n>a)(?P<n>b)", "[", "[a", "[z-a]", "[[:what:]]", "[a-\\d]",
        "\\", "\\Z", "\\C", "\\1", "\\p{Klingon}", "\\p", "\\x{110000}", "\\x4", "a|*", "(*)",
        "(" * 300 + ")" * 300, "a" * 10_001,
    ],
)  # fmt: skip
def test_invalid_patterns(pattern):
    with pytest.raises(InvalidRegex):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)(.*)[^a]"])
def test_patterns_that_need_exponential_time_elsewhere(pattern):
    assert not Regex(pattern).matches("a" * 249)


def test_nested_counts_are_refused():
    with pytest.raises(InvalidRegex, match="too large"):
        Regex("((a{100}){100}){100}")
    assert Regex("((){1000}){1000}").matches("")


def test_work_is_bounded(monkeypatch):
    monkeypatch.setattr(automaton, "WORK_MAX", 100_000)
    random = Random(1)
    regex = Regex("(a|b)*a(a|b){500}")
    texts = ["".join(random.choices("ab", k=249)) for _ in range(100)]
    with pytest.raises(CostlyRegex):
        [regex.matches(text) for text in texts]


def test_dropping_the_cache_changes_nothing(monkeypatch):
    monkeypatch.setattr(automaton, "REMEMBERED_MAX", 20)
    regex = Regex("(a|b)*a(a|b){3}")
    random = Random(2)
    for _ in range(300):
        text = "".join(random.choices("ab", k=random.randint(0, 12)))
        assert regex.matches(text) == (len(text) > 3 and text[-4] == "a")


PIECES = [
    "a", "b", "-", ".", "_", "1", "A", ".", "[ab]", "[^a]", "[a-c1-]", "[[:alpha:]_]", "\\d", "\\W", "\\.",
    "(", ")", "(?:", "(?i)", "(?i:", "(?s)", "(?U)", "|", "*", "+", "?", "*?", "{2}", "{1,2}", "{0,}",
    "{", "}", "^", "$", "\\b", "\\B", "\\A", "\\z", "\\Qa*\\E", "\\pL", "[\\p{^Lu}]", "\\x61", "\\141",
    "[", "]", "\\", "(?P<n>", "é", "K", "(?i)[k-m]", "[^[:^digit:]]", "(?-i)", "\\Q", "{1001}",
]  # fmt: skip


@pytest.mark.java
def test_as_re2j_does():
    random = Random(7)
    texts = [
        "",
        "a",
        "ab",
        "aB1",
        "a-b",
        "_._",
        "1",
        "kK",
        "aa.b",
        "a*",
        "{1,2}",
        "aaab",
        "b{",
        "AbA",
    ]
    patterns = ["".join(random.choices(PIECES, k=random.randint(1, 9))) for _ in range(8_000)]
    try:
        answers = java_oracle.ask(java_oracle.match(each, texts) for each in patterns)
    except Missing as reason:
        pytest.skip(str(reason))
    different = []
    for pattern, expected in zip(patterns, answers, strict=True):
        try:
            regex = Regex(pattern)
            found = "".join("01"[regex.matches(each)] for each in texts)
        except InvalidRegex:
            found = "invalid"
        if found != expected:
            different.append((pattern, expected, found))
    assert different == []
