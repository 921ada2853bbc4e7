"""`odradek queue` against a live broker."""

from __future__ import annotations

import pytest
from compat.lab.toolchain import free_port

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError
from odradek.client.share.consumer import ShareConsumer
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.queue_metrics import parse
from odradek.testing import Broker

SETTINGS = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
FEATURE = "share.version"


@pytest.fixture(scope="module")
def bootstrap():
    with Broker(settings={**SETTINGS, "odradek.metrics.port": str(free_port())}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def queue(odradek, name):
    """A topic with five records, and the name of a group that does not exist yet."""
    odradek("topic", "create", name, "--partitions", 1)
    odradek("produce", name, *(f"v{number}" for number in range(5)))
    return name


def worked(odradek, queue, *options, **more):
    return odradek("queue", "work", queue, queue, "--idle", "10s", *options, **more)


def test_work_prints_and_accepts(odradek, queue):
    first = worked(odradek, queue, "--from", "earliest", "--count", 2)
    assert first.lines == ["v0", "v1"]
    rest = worked(odradek, queue, "--json", "--count", 2)
    assert [line.split('"value": ')[1].split(",")[0] for line in rest.lines] == ['"v2"', '"v3"']
    described = odradek("queue", "describe", queue)
    fields = dict(line.split(maxsplit=1) for line in described.lines[:5])
    assert fields == {"Group": queue, "State": "Empty", "Members": "0", "Topics": "-", "Lag": "1"}
    assert described.lines[-1].split() == [queue, "0", "4", "5", "1", "-", "0", "1", "-", "-"]
    (found,) = odradek("queue", "describe", queue, "--json").json
    assert found["partitions"] == [
        {
            "topic": queue,
            "partition": 0,
            "start": 4,
            "end": 5,
            "lag": 1,
            "members": 0,
            "acquired": 0,
            "waiting": 1,
            "oldest_lock_ms": None,
            "deliveries": {},
        }
    ]
    assert odradek("queue", "peek", queue).lines == [f"{queue}-0@4\tv4"]
    (row,) = [line for line in odradek("queue", "list").lines if line.startswith(queue)]
    assert row.split() == [queue, "Empty", "0", "-"]


def test_describe_shows_records_in_flight(odradek, queue, bootstrap):
    worked(odradek, queue, "--from", "earliest", "--count", 1)
    with Cluster(bootstrap) as cluster, ShareConsumer(cluster, queue, [queue]) as consumer:
        records = []
        while not records:
            records = consumer.poll(10_000)
        for record in records[:2]:
            consumer.release(record)
        consumer.commit()
        (found,) = odradek("queue", "describe", queue, "--json").json
        (partition,) = found["partitions"]
        assert (partition["acquired"], partition["waiting"]) == (2, 2)
        # the other records of the first acquisition were released, and are delivered again
        assert partition["deliveries"] == {"2": 4}
        assert 0 <= partition["oldest_lock_ms"] <= 30_000
        row = odradek("queue", "describe", queue).lines[-1].split()
        assert row[:8] == [queue, "0", "1", "5", "4", "1", "2", "2"]
        assert row[-1] == "2:4"


def test_describe_shows_priorities(odradek, queue):
    worked(odradek, queue, "--from", "earliest", "--count", 1)
    (found,) = odradek("queue", "describe", queue, "--json").json
    assert found["priority"] == {}
    odradek("config", "set", "group", queue, f"odradek.share.priority={queue}:7,bulk:-1")
    (found,) = odradek("queue", "describe", queue, "--json").json
    assert found["priority"] == {queue: 7, "bulk": -1}
    assert odradek("queue", "describe", queue).lines[5].split() == [
        "Priority",
        f"{queue}:7",
        "bulk:-1",
    ]


def test_describe_says_that_priorities_are_not_known(odradek, queue, monkeypatch):
    worked(odradek, queue, "--from", "earliest", "--count", 1)
    refused = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, queue)
    monkeypatch.setattr("odradek.operations.share_groups.read_setting", lambda *_: {queue: refused})
    assert odradek("queue", "describe", queue).lines[5] == f"Priority  not known: {refused}"
    (found,) = odradek("queue", "describe", queue, "--json").json
    assert found["priority"] is None


def test_metrics_of_other_groups_are_left_out():
    text = (
        'odradek_share_partition_acquired_records{group="a\\"b",topic="t",partition="1"} 3.0\n'
        'odradek_share_partition_acquired_records{group="c",topic="t",partition="1"} 4.0\n'
        'odradek_share_partition_start_offset{group="c",topic="t",partition="1"} 4.0\n'
    )
    assert {key: each.acquired for key, each in parse(text, 'a"b').items()} == {
        TopicPartition("t", 1): 3
    }


def test_features_are_changed(odradek, queue):
    worked(odradek, queue, "--from", "earliest", "--count", 1)
    (row,) = [e for e in odradek("cluster", "feature", "--json").json if e["name"] == FEATURE]
    level = row["level"]
    assert odradek("cluster", "feature").lines[0].split() == ["Feature", "Level", "Supported"]
    dry = odradek("cluster", "feature", f"{FEATURE}=0", "--lower", "--dry-run")
    assert dry.lines == [f"Would change {FEATURE} from {level} to 0"]
    assert "INVALID_UPDATE_VERSION" in odradek("cluster", "feature", f"{FEATURE}=0", code=1).err
    assert "Did you mean" in odradek("cluster", "feature", "share.versio=1", code=2).err
    assert "number" in odradek("cluster", "feature", f"{FEATURE}=x", code=2).err
    try:
        odradek("cluster", "feature", f"{FEATURE}=0", "--lower")
        told = odradek("queue", "work", queue, queue, "--count", 1, code=1).err
        assert f"odradek cluster feature {FEATURE}=1" in told
    finally:
        changed = odradek("cluster", "feature", f"{FEATURE}={level}")
    assert changed.lines == [f"Changed {FEATURE} from 0 to {level}"]
    assert worked(odradek, queue, "--count", 1).lines == ["v1"]


def test_work_runs_a_command(odradek, queue, tmp_path):
    script = tmp_path / "handle"
    script.write_text(
        f'value=$(cat); echo "$value $ODRADEK_DELIVERY_COUNT $ODRADEK_OFFSET" >> {tmp_path}/seen\n'
        'case "$value" in v1) exit 65;; v3) [ "$ODRADEK_DELIVERY_COUNT" -gt 1 ];; esac\n'
    )
    outcome = worked(
        odradek, queue, "--from", "earliest", "--run", f"sh {script}", "--reject-on", 65, "-n", 6
    )
    seen = (tmp_path / "seen").read_text().splitlines()
    assert sorted(seen) == ["v0 1 0", "v1 1 1", "v2 1 2", "v3 1 3", "v3 2 3", "v4 1 4"]
    assert f"{queue}-0@1: rejected" in outcome.err
    assert f"{queue}-0@3: released after delivery 1" in outcome.err
    assert "No records wait" in odradek("queue", "peek", queue).err


def test_a_command_that_does_not_exist_costs_no_record_its_deliveries(odradek, queue):
    words = ("queue", "work", queue, queue, "--from", "earliest", "--idle", "10s", "--run")
    failed = odradek(*words, "./no-such-command", code=1)
    assert "the command is not found (exit code 127): ./no-such-command" in failed.err
    assert worked(odradek, queue, "--count", 5).lines == ["v0", "v1", "v2", "v3", "v4"]


def test_sigterm_ends_work_after_the_current_record(odradek, queue, tmp_path):
    """The command is started by this process, and sends it the signal."""
    command = f"cat >> {tmp_path}/seen; kill -TERM $PPID"
    odradek("queue", "work", queue, queue, "--from", "earliest", "--run", command)
    assert (tmp_path / "seen").read_text() == "v0"
    assert worked(odradek, queue, "--count", 1).lines == ["v1"]


def test_reset_and_delete(odradek, queue, tmp_path):
    for _ in range(2):  # the start offset is stored with the next acknowledgement
        worked(odradek, queue, "--from", "earliest", "--count", 2)
    dry = odradek("queue", "reset", queue, "--to", "beginning")
    assert dry.lines[1].split() == [queue, "0", "4", "0"]
    assert "--execute" in dry.err
    odradek("queue", "reset", queue, "--topic", f"{queue}:0", "--to", "3", "--execute")
    assert [line.split("\t")[1] for line in odradek("queue", "peek", queue).lines] == ["v3", "v4"]
    assert worked(odradek, queue, "--count", 1).lines == ["v3"]
    saved = tmp_path / "starts.json"
    kept = odradek("queue", "reset", queue, "--to-current", "--json")
    saved.write_text(kept.out)
    start = str(kept.json[0]["start"])
    odradek("queue", "reset", queue, "--to", "1", "--execute")
    assert odradek("queue", "peek", queue).lines[0].split("\t")[1] == "v1"
    back = odradek("queue", "reset", queue, "--file", saved, "--execute")
    assert back.lines[1].split() == [queue, "0", "1", start]
    saved.write_text(f"{queue},0,2\n")
    assert odradek("queue", "reset", queue, "--file", saved).lines[1].split()[-1] == "2"
    told = odradek("queue", "reset", queue, "--to", "1", "--to-current", code=2)
    assert "use one of --to, --to-current and --file" in told.err
    odradek("queue", "delete", queue, "--topic", queue)
    (found,) = odradek("queue", "describe", queue, "--json").json
    assert found["partitions"] == []
    assert odradek("queue", "delete", queue, "--yes").lines == [f"Deleted {queue}"]
    assert queue not in odradek("queue", "list").out


def test_errors_say_what_to_do(odradek, queue):
    assert "GROUP_ID_NOT_FOUND" in odradek("queue", "describe", "no-such-group", code=1).err
    worked(odradek, queue, "--from", "earliest", "--count", 1)
    told = odradek("group", "describe", queue, code=1).err
    assert f"odradek queue describe {queue}" in told
    assert "odradek group list" in odradek("queue", "peek", "no-such-group", code=1).err
    assert "no such topic" in odradek("queue", "work", queue, "no-such-topic", code=1).err
    assert "--run" in odradek("queue", "work", queue, queue, "--reject-on", 3, code=2).err
    odradek("consume", queue, "--group", f"{queue}-classic", "--count", 1)
    other = odradek("queue", "work", f"{queue}-classic", queue, "--idle", "10s", code=1)
    assert "Error: " in other.err


def test_delayed_records_are_sent_and_shown(odradek, queue):
    odradek("config", "set", "group", queue, "share.auto.offset.reset=earliest")
    assert worked(odradek, queue, "--count", 5).lines == [f"v{number}" for number in range(5)]
    sent = odradek("queue", "delay", "send", queue, "later", "too", "--in", "1h", "--key", "k")
    assert sent.err.startswith(f"Wrote 2 records to {queue}, to be delivered 2")
    odradek("queue", "delay", "send", queue, "first", "--at", "2000-01-01")
    odradek("queue", "delay", "send", queue, "soon", "--in", "30m")
    odradek("produce", queue, "plain")
    shown = odradek("queue", "delay", "list", queue)
    assert "odradek.share.delay.enable is false" in shown.err
    odradek("config", "set", "group", queue, "odradek.share.delay.enable=true")
    shown = odradek("queue", "delay", "list", queue)
    assert shown.err == ""
    assert [line.split()[2:] for line in shown.lines[1:]] == [
        [f"{queue}-0@8", "-", "soon"],
        [f"{queue}-0@5", "k", "later"],
        [f"{queue}-0@6", "k", "too"],
    ]
    first, *_ = odradek("queue", "delay", "list", queue, "--count", 1, "--json").json
    assert (first["offset"], first["value"], first["topic"]) == (8, "soon", queue)
    assert worked(odradek, queue, "--count", 2).lines == ["first", "plain"]
    assert odradek("queue", "delay", "list", queue, "--topic", "other").out == ""


def test_delay_send_needs_one_time(odradek, queue):
    for times in ((), ("--in", "1h", "--at", "now"), ("--at", "tomorrow")):
        odradek("queue", "delay", "send", queue, "x", *times, code=2)
