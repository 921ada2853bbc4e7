"""`odradek quota` against a live broker."""

from __future__ import annotations

import pytest


@pytest.fixture
def of_user(odradek, name):
    """The options of a user without quotas."""
    yield "--user", name
    found = odradek("quota", "list", "--user", name, "--json").json
    for each in found:
        odradek("quota", "remove", *options(each["entity"]))


def options(entity):
    words = []
    for kind, name in entity.items():
        words += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
    return words


def test_quotas_are_set_listed_and_removed(odradek, of_user, name):
    outcome = odradek(
        "quota", "set", *of_user, "producer_byte_rate=1.5MB", "request_percentage=12.5"
    )
    assert outcome.out == f"Set 2 quotas of user {name}\n"
    odradek("quota", "set", *of_user, "--client-id-default", "consumer_byte_rate=2KiB")
    listed = odradek("quota", "list", *of_user)
    assert [" ".join(line.split()) for line in listed.lines] == [
        "Entity Quota Value",
        f"user {name} producer_byte_rate 1500000",
        f"user {name} request_percentage 12.5",
        f"user {name}, default client-id consumer_byte_rate 2048",
    ]
    both = odradek("quota", "list", *of_user, "--client-id-default", "--json").json
    assert both == [
        {"entity": {"client-id": None, "user": name}, "quotas": {"consumer_byte_rate": 2048.0}}
    ]
    outcome = odradek("quota", "remove", *of_user, "request_percentage")
    assert outcome.out == f"Removed 1 quota of user {name}\n"
    outcome = odradek("quota", "remove", *of_user, "request_percentage", code=1)
    assert "has no request_percentage" in outcome.err
    assert odradek("quota", "remove", *of_user).out == f"Removed 1 quota of user {name}\n"
    assert "There are no quotas of user" in odradek("quota", "remove", *of_user).err


def test_the_quotas_that_apply_to_a_client(odradek, of_user, name):
    odradek("quota", "set", *of_user, "producer_byte_rate=10", "consumer_byte_rate=20")
    odradek("quota", "set", *of_user, "--client-id", "etl", "producer_byte_rate=5")
    described = odradek("quota", "describe", *of_user, "--client-id", "etl")
    assert [" ".join(line.split()) for line in described.lines] == [
        "Quota Value Of Shared by",
        f"producer_byte_rate 5 user {name}, client-id etl user {name} with client-id etl",
        f"consumer_byte_rate 20 user {name} user {name}",
    ]
    described = odradek("quota", "describe", *of_user, "--client-id", "other", "--json").json
    assert described == {
        "producer_byte_rate": {
            "value": 10.0,
            "entity": {"user": name},
            "shared_by": f"user {name}",
        },
        "consumer_byte_rate": {
            "value": 20.0,
            "entity": {"user": name},
            "shared_by": f"user {name}",
        },
    }


def test_nothing_is_changed_by_a_check(odradek, of_user, name):
    outcome = odradek("quota", "set", *of_user, "producer_byte_rate=1", "--validate-only")
    assert outcome.out == f"Could set 1 quota of user {name}\n"
    assert odradek("quota", "list", *of_user, "--json").json == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["set", "producer_byte_rate=1"], "name an entity"),
        (["set", "--user", "a", "--user-default", "producer_byte_rate=1"], "name either --user or"),
        (["set", "--user", "a", "--ip", "1.2.3.4", "connection_creation_rate=1"], "neither user"),
        (["set", "--ip", "host", "connection_creation_rate=1"], "is not an IP address"),
        (["set", "--user", "a", "producer_byte_rates=1"], "Did you mean producer_byte_rate?"),
        (["set", "--ip-default", "producer_byte_rate=1"], "Known are connection_creation_rate"),
        (["set", "--user", "a", "producer_byte_rate=fast"], "write a number or 10MB"),
        (["set", "--user", "a", "request_percentage=5MB"], "write a number"),
        (["set", "--user", "a", "producer_byte_rate"], "write NAME=VALUE"),
    ],
)
def test_wrong_words_are_explained(odradek, words, meant):
    assert meant in odradek("quota", *words, code=2).err


def test_what_the_broker_refuses(odradek):
    outcome = odradek("quota", "set", "--user", "a", "producer_byte_rate=0", code=1)
    assert "must be greater than 0 (INVALID_REQUEST)" in outcome.err
