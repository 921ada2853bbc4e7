"""Values of quotas, and which apply to a client."""

from __future__ import annotations

import pytest

from odradek.client.admin.quotas import CLIENT_ID, IP, USER
from odradek.operations.quotas import applying, order, parse_value, quotas_of, value_text

RATE = "producer_byte_rate"
ALICE = ((USER, "alice"),)
ALICE_ETL = ((CLIENT_ID, "etl"), (USER, "alice"))
ALL_CLIENTS = ((CLIENT_ID, None),)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [(RATE, "10MB", 10e6), (RATE, "1.5 KiB", 1536), ("request_percentage", "12.5", 12.5)],
)
def test_values(name, text, value) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"), [(RATE, "-1"), (RATE, "1mb"), ("request_percentage", "1kB")]
)
def test_what_is_no_value(name, text) -> None:
    with pytest.raises(ValueError, match=f"{name}={text}: write a number"):
        parse_value(name, text)


def test_values_as_text() -> None:
    assert [value_text(each) for each in (10.0, 0.5)] == ["10", "0.5"]


def test_the_most_specific_quota_applies() -> None:
    quotas = {ALICE: {RATE: 20.0}, ALICE_ETL: {RATE: 5.0}, ALL_CLIENTS: {RATE: 1.0}}
    assert applying(quotas, "alice", "etl") == {
        RATE: (ALICE_ETL, 5.0, "user alice with client-id etl")
    }
    assert applying(quotas, "alice", "x")[RATE] == (ALICE, 20.0, "user alice")
    assert applying(quotas, "bob", "x")[RATE] == (ALL_CLIENTS, 1.0, "client-id x")
    assert applying({ALICE: {RATE: 20.0}}, "bob", "x") == {}


def test_entities_have_an_order() -> None:
    default = ((USER, None),)
    assert sorted([ALL_CLIENTS, default, ALICE], key=order) == [ALL_CLIENTS, ALICE, default]


def test_an_address_has_quotas_of_its_own() -> None:
    assert quotas_of(((IP, "10.0.0.1"),)) == ("connection_creation_rate",)
    assert "connection_creation_rate" not in quotas_of(ALICE)
