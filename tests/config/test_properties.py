"""Java's .properties syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.config.checks import ConfigurationError
from odradek.config.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a = b \n", {"a": "b "}),
        (b"a: b", {"a": "b"}),
        (b"a b c", {"a": "b c"}),
        (b"  a\t=\fb", {"a": "b"}),
        (b"a==b", {"a": "=b"}),
        (b"a=", {"a": ""}),
        (b"a", {"a": ""}),
        (b"# a=b\n! c=d\n\n   # e\r\nf=g\rh=i", {"f": "g", "h": "i"}),
        (b"a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"a=b\\\n# not a comment", {"a": "b# not a comment"}),
        (b"a=b\\", {"a": "b"}),
        (b"a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        (b"a=\\t\\n\\r\\f\\z\\u00e9\\u0041", {"a": "\t\n\r\fz\u00e9A"}),
        (b"a=\\ud83e\\uddf5", {"a": "\U0001f9f5"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"=x", {"": "x"}),
        (b"", {}),
    ],
)
def test_syntax(text: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\u12g4"])
def test_a_malformed_escape_names_its_line(text: bytes) -> None:
    with pytest.raises(ConfigurationError, match="line 2"):
        parse_properties(b"# one\n" + text)


def test_a_malformed_escape_does_not_show_the_value() -> None:
    with pytest.raises(
        ConfigurationError, match=r"malformed \\u escape in a\.password; write"
    ) as failure:
        parse_properties(b"a.password=hunter2\\under")
    assert "hunter2" not in str(failure.value)


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_again(settings):
    assert parse_properties(format_properties(settings)) == settings


def test_written_properties_are_easy_to_read():
    settings = {
        "listeners": "PLAINTEXT://:9092,CONTROLLER://[::1]:9093",
        "log.dirs": "/home/Zoë/data",
        "path": "C:\\x",
        "a b": "  c=#d",
    }
    assert format_properties(settings) == (
        b"listeners=PLAINTEXT://:9092,CONTROLLER://[::1]:9093\n"
        b"log.dirs=/home/Zo\\u00eb/data\n"
        b"path=C:\\\\x\n"
        b"a\\ b=\\  c=#d\n"
    )
