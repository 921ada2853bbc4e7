"""Java's regular expressions: hand-written cases, and limits."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.java_regex.cases import CASES

from odradek.java_regex.errors import MatchRefused, PatternError
from odradek.java_regex.pattern import Pattern


def outcome(pattern: str, replacement: str, text: str) -> str | None:
    """Return the last value of a case."""
    try:
        made = Pattern(pattern)
        parsed = made.replacement(replacement)
    except PatternError:
        return None
    return ("y" if made.matches(text) else "n") + made.replace_all(text, parsed)


def test_cases() -> None:
    found = [(*case[:3], outcome(*case[:3])) for case in CASES]
    assert [one for one, case in zip(found, CASES, strict=True) if one != case] == []


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(?c)a", r"Canonical equivalence, \(\?c\), is not supported near index 2"),
        ("[a-cx&&&&b]", "Bad intersection syntax"),
        (r"\N{LINE FEED (LF)}", "Unknown character name"),
        ("a{,3}", "Illegal repetition near index 2: a{,3}"),
        (r"\p{Foo}", "Unknown character property name {Foo}"),
        ("(?<=(?:a|b)+)c", "does not have an obvious maximum length"),
        ("(" * 101 + ")" * 101, "nested too deep"),
        ("[" * 101 + "a" + "]" * 101, "nested too deep"),
    ],
)
def test_messages(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError, match=problem):
        Pattern(pattern)


def test_replacement_of_the_first_match() -> None:
    pattern = Pattern("a(b)?")
    assert pattern.replace_first("ab a ab", pattern.replacement("<$1>")) == "<b> a ab"


@pytest.mark.parametrize(
    "pattern", [r"(?:(a)|a\1?)+b", "a*a*a*a*a*b", "((a|aa)+)+b", "(?:(a+)+){2}b"]
)
def test_hostile_names_end(pattern: str) -> None:
    with pytest.raises(MatchRefused, match="more than 200000 steps"):
        Pattern(pattern).matches("a" * 60)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)*x", "(a*)*b", "(a|b|ab)*c"])
def test_repetitions_that_failed_are_not_tried_again(pattern: str) -> None:
    assert not Pattern(pattern).matches("a" * 60)


def test_long_names() -> None:
    name = "CN=" + "x" * 20_000 + ",OU=a,O=b"
    pattern = Pattern("^CN=([^,]+),OU=(.*?),O=(.*)$")
    assert pattern.replace_all(name, pattern.replacement("$2@$3")) == "a@b"


@pytest.mark.parametrize("opened", ["(", "(?:", "(?=", "(?>", "(?<=", "(?!"])
def test_nested_groups(opened: str) -> None:
    pattern = Pattern(opened * 100 + "a?" + ")?" * 100)
    assert pattern.matches("")


def test_large_classes() -> None:
    letters = "".join(map(chr, range(0x400, 0x400 + 2000)))
    assert Pattern(f"[{letters}]+").matches("Людина")
    assert not Pattern(f"[{letters}]+").matches("abc")


def test_an_empty_match_before_two_halves_is_refused() -> None:
    pattern = Pattern("x*")
    with pytest.raises(MatchRefused, match=r"above U\+FFFF"):
        pattern.replace_all("a\U0001f600", pattern.replacement("-"))
    with pytest.raises(MatchRefused, match=r"above U\+FFFF"):
        Pattern("(?<=.)b").replace_all("\U0001f600b", pattern.replacement("-"))


def test_the_package_regex_is_loaded_by_properties_only() -> None:
    code = (
        "import sys; from odradek.java_regex.pattern import Pattern;"
        r"Pattern(r'^CN=([\w&&[^\d]]+),\p{Alpha}\p{L}.*$').matches('CN=alice,Éa');"
        "assert 'regex' not in sys.modules;"
        r"Pattern(r'\p{IsLatin}').matches('a'); assert 'regex' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rules_are_not_loaded_without_rules() -> None:
    code = (
        "import sys; from odradek.config.principal_mapping import PrincipalMapping;"
        "from odradek.config.kerberos_names import NameRules; PrincipalMapping('DEFAULT');"
        "NameRules(['DEFAULT']); assert 'odradek.java_regex' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
