"""Addresses as people write them."""

from __future__ import annotations

import pytest

from odradek.client.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
    ],
)
def test_read(text, addresses):
    assert list(parse_addresses(text)) == [Address(*each) for each in addresses]


@pytest.mark.parametrize(
    "text", ["", " , ", "a:", "a:x", "a:0", "a:65536", ":1", "::1:9092", "a:²"]
)
def test_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_addresses(text)


def test_written_as_read():
    assert str(Address("::1", 5)) == "[::1]:5"
    assert parse_addresses(str(Address("::1", 5))) == (Address("::1", 5),)
