"""`odradek config`, `odradek cluster` and `odradek bench` against a live broker."""

from __future__ import annotations

import time

import pytest


def settings(odradek, topic):
    lines = odradek("config", "describe", "topic", topic).lines
    return {line.split(" = ")[0].strip(): line.split(" = ")[1] for line in lines}


@pytest.fixture
def broker_id(odradek):
    return str(odradek("cluster", "describe", "--json").json["brokers"][0]["id"])


def wait_until(condition):
    """A broker may learn of a change a moment after it was made."""
    while not condition():
        time.sleep(0.01)


def test_settings_of_a_topic(odradek, topic):
    outcome = odradek(
        "config", "set", "topic", topic, "retention.ms=5000", "cleanup.policy=compact"
    )
    assert outcome.out == f"Set 2 settings of topic {topic}\n"
    wait_until(lambda: "retention.ms" in settings(odradek, topic))
    found = settings(odradek, topic)
    assert found["retention.ms"] == "5000  (topic)"
    assert found["cleanup.policy"] == "compact  (topic)"
    outcome = odradek("config", "delete", "topic", topic, "retention.ms")
    assert outcome.out == f"Reset 1 setting of topic {topic}\n"
    wait_until(lambda: "retention.ms" not in settings(odradek, topic))


def test_all_settings_and_some(odradek, topic):
    everything = odradek("config", "describe", "topic", topic, "--all", "--json").json
    names = [entry["name"] for entry in everything]
    assert names == sorted(names)
    assert {"retention.ms", "segment.bytes", "cleanup.policy"} <= set(names)
    outcome = odradek("config", "describe", "topic", topic, "segment.bytes", "--documentation")
    assert outcome.lines[0].startswith("segment.bytes = 1073741824  (default)")
    assert outcome.lines[1].startswith("  [int] ")
    assert max(map(len, outcome.lines)) <= 80


@pytest.mark.parametrize("words", [["no.such.setting=1", "--force"], ["retention.ms=soon"]])
def test_settings_that_are_refused(odradek, topic, words):
    outcome = odradek("config", "set", "topic", topic, *words, code=1)
    assert "INVALID_CONFIG" in outcome.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["set", "topic", "TOPIC", "retention.mss=5"], "retention.ms"),
        (["set", "broker", "BROKER", "log.retention.mss=5"], "log.retention.ms"),
        (["set", "broker", "default", "log.retention.mss=5"], "log.retention.ms"),
        (["set", "group", "g", "consumer.session.timeout=5"], "consumer.session.timeout.ms"),
        (["delete", "broker", "BROKER", "log.retention.mss"], "log.retention.ms"),
        (["describe", "broker", "BROKER", "log.retention.hrs"], "log.retention.hours"),
    ],
)
def test_misspelt_settings(odradek, topic, broker_id, words, meant):
    words = [{"TOPIC": topic, "BROKER": broker_id}.get(word, word) for word in words]
    outcome = odradek("config", *words, code=1)
    assert "has no setting" in outcome.err
    assert f"Did you mean {meant}?" in outcome.err


def test_a_setting_that_only_a_plugin_would_know(odradek, broker_id):
    odradek("config", "set", "broker", broker_id, "my.plugin.setting=5", "--force")
    wait_until(lambda: "my.plugin" in odradek("config", "describe", "broker", broker_id).out)
    odradek("config", "delete", "broker", broker_id, "my.plugin.setting")


def test_read_only_settings(odradek):
    outcome = odradek("config", "set", "broker", "default", "log.retention.hours=24", code=1)
    assert "INVALID_REQUEST" in outcome.err
    assert "log.retention.ms can be set" in outcome.err


def test_a_broker_that_does_not_exist(odradek):
    outcome = odradek("config", "describe", "broker", 4711, code=1)
    assert "odradek cluster describe" in outcome.err


def test_only_checking(odradek, topic):
    outcome = odradek("config", "set", "topic", topic, "retention.ms=1", "--validate-only")
    assert outcome.out == f"Could set 1 setting of topic {topic}\n"
    assert "retention.ms" not in settings(odradek, topic)


def test_what_does_not_exist(odradek, topic):
    outcome = odradek("config", "describe", "topic", "no-such-topic", code=1)
    assert "There is no such topic" in outcome.err
    outcome = odradek("config", "describe", "topic", topic, "no.such.setting", code=1)
    assert "has no setting no.such.setting" in outcome.err


def test_settings_of_a_broker(odradek, broker_id):
    found = odradek("config", "describe", "broker", broker_id, "--all", "--json").json
    by_name = {entry["name"]: entry for entry in found}
    assert by_name["node.id"]["read_only"]
    assert by_name["node.id"]["value"] == broker_id


def test_the_cluster(odradek, bootstrap):
    facts = odradek("cluster", "describe", "--json").json
    (broker, *_) = facts["brokers"]
    assert not broker["fenced"]
    (log_dir, *_) = broker["log_dirs"]
    assert log_dir["total_bytes"] > 0
    assert facts["quorum"]["leader"] in [voter["id"] for voter in facts["quorum"]["voters"]]
    shown = odradek("cluster", "describe").out
    for part in (facts["cluster_id"], log_dir["path"], "metadata.version", "alive", "leader"):
        assert part in shown


def test_api_versions(odradek):
    rows = {row["name"]: row for row in odradek("cluster", "api-versions", "--json").json}
    assert rows["Produce"]["key"] == 0
    shown = odradek("cluster", "api-versions").lines
    assert any(line.split()[:2] == ["18", "ApiVersions"] for line in shown)


def test_bench(odradek):
    options = ["--duration", "200ms", "--size", "10", "--partitions", "2"]
    before = odradek("topic", "list", "-q").lines
    results = odradek("bench", *options, "--json").json
    assert set(results) == {"produce", "consume", "end to end"}
    assert all(each["records_per_second"] > 0 for each in results.values())
    latencies = results["end to end"]["latency_ms"]
    assert 0 < latencies["p50"] <= latencies["p99"] <= latencies["p100"]
    assert odradek("topic", "list", "-q").lines == before
