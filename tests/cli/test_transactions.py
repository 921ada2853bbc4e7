"""`odradek transaction` against a live broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer


@pytest.fixture
def open_one(bootstrap, topic):
    """A producer with an open transaction: two records in partition 0 of the topic."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"job-{topic}", "log_level": 0}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for value in (b"a", b"b"):
        producer.produce(topic, value, partition=0)
    producer.flush(20)
    return producer


def test_lists_and_describes(odradek, open_one, topic):
    name = f"job-{topic}"
    (row,) = [line for line in odradek("transaction", "list").lines if line.startswith(name)]
    assert row.split()[2] == "Ongoing"
    assert name in odradek("transaction", "list", "-q", "--state", "Ongoing").lines
    assert name in odradek("transaction", "list", "-q", "--id-pattern", f".*{topic}").lines
    assert name not in odradek("transaction", "list", "-q", "--state", "Empty").lines
    assert (
        "No transactional ids match the filters"
        in odradek("transaction", "list", "--state", "dead").err
    )
    longer = ("--running-longer-than", "1h")
    assert name not in odradek("transaction", "list", "-q", *longer).lines
    (found,) = odradek("transaction", "describe", name, "--json").json
    assert found["state"] == "Ongoing"
    assert found["partitions"] == [{"topic": topic, "partition": 0}]
    assert f"{topic}-0" in odradek("transaction", "describe", name).out
    open_one.commit_transaction(20)


def test_what_is_refused(odradek, topic):
    outcome = odradek("transaction", "list", "--id-pattern", "(", code=1)
    assert "INVALID_REGULAR_EXPRESSION" in outcome.err
    outcome = odradek("transaction", "list", "--state", "Nope", code=2)
    assert "'Nope' is not one of" in outcome.err
    outcome = odradek("transaction", "describe", "nobody", code=1)
    assert "TRANSACTIONAL_ID_NOT_FOUND" in outcome.err
    assert "odradek transaction list" in outcome.err
    outcome = odradek("transaction", "abort", topic, 0, 5, code=1)
    assert "No open transaction" in outcome.err


def test_an_open_transaction_does_not_hang_and_is_aborted_by_force_only(odradek, open_one, topic):
    found = odradek("transaction", "find-hanging", topic, "--older-than", "1ms", "--json").json
    assert found == [], "its coordinator knows of it"
    assert odradek("consume", topic, "--until", "end", "--isolation", "read_committed").lines == []
    refused = odradek("transaction", "abort", topic, 0, 0, "--yes", code=1)
    assert "it is in state Ongoing" in refused.err
    assert f"odradek transaction describe job-{topic}" in refused.err
    assert "Aborted" in odradek("transaction", "abort", topic, 0, 0, "--force").out
    outcome = odradek("transaction", "abort", topic, 0, 0, code=1)
    assert "No open transaction" in outcome.err
