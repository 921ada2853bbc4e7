"""`odradek spark adopt-checkpoint`: a checkpoint of Spark's Kafka connector becomes one of ours.

`tests/spark/test_adoption.py` runs the queries.
"""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import invoke

from odradek.client.cluster import Cluster

QUERY = "d956aceb-30f3-453c-9b8e-0a46296eeb8c"
BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


@pytest.fixture
def old(tmp_path, topic, odradek):
    """The checkpoint of a query after micro-batch 7, with a source of files beside the topic."""
    odradek("produce", topic, *"abcde", "-p", 0)
    old = tmp_path / "old"
    write(old / "metadata", json.dumps({"id": QUERY}))
    for batch, offset in ((6, 2), (7, 3)):
        write(
            old / "offsets" / str(batch),
            "v1",
            BATCH,
            f'{{"{topic}":{{"0":{offset},"1":0}}}}',
            '{"logOffset":4}',
        )
        write(old / "commits" / str(batch), "v1", "{}")
    write(old / "offsets" / ".7.crc", "checksum")
    write(old / "sources" / "0" / "0", "v1", f'{{"{topic}":{{"0":0,"1":0}}}}')
    write(old / "sources" / "1" / "0", "v1")
    write(old / "state" / "0" / "metadata", "state")
    return old


def test_it_continues_after_the_last_batch(odradek, bootstrap, topic, old, tmp_path):
    new = tmp_path / "new"
    adopted = odradek("spark", "adopt-checkpoint", old, new, "--json").json
    assert adopted == {
        "query_id": QUERY,
        "batch": 7,
        "topics": [topic],
        "partitions": 2,
        "checkpoint": str(new),
    }
    with Cluster(bootstrap) as cluster:
        (topic_id,) = (cluster.topic(topic).id.hex(),)
    version, batch, offsets, other = (new / "offsets" / "7").read_text().splitlines()
    assert (version, batch, other) == ("v1", BATCH, '{"logOffset":4}')
    assert json.loads(offsets) == {topic: {"0": 3, "1": 0}, "/ids": {topic: topic_id}}
    assert not (new / "offsets" / ".7.crc").exists()
    assert sorted(each.name for each in (new / "sources").iterdir()) == ["1"]
    for kept in ("metadata", "offsets/6", "commits/7", "state/0/metadata"):
        assert (new / kept).read_text() == (old / kept).read_text()
    again = odradek("spark", "adopt-checkpoint", new, tmp_path / "newer", code=1)
    assert "already a checkpoint of the source odradek" in again.err


def no_metadata(old, topic):
    (old / "metadata").unlink()


def no_batch(old, topic):
    for each in (old / "offsets").iterdir():
        each.unlink()


def incomplete(old, topic):
    (old / "commits" / "7").unlink()


def newer_version(old, topic):
    write(old / "offsets" / "7", "v3", BATCH, "{}")


def no_topics(old, topic):
    write(old / "offsets" / "7", "v1", BATCH, '{"logOffset":4}', "-")


def another_cluster(old, topic):
    write(old / "offsets" / "7", "v1", BATCH, f'{{"{topic}":{{"0":6,"1":0}}}}')


def more_partitions(old, topic):
    write(old / "offsets" / "7", "v1", BATCH, f'{{"{topic}":{{"0":3,"1":0,"2":0}}}}')


def no_such_topic(old, topic):
    write(old / "offsets" / "7", "v1", BATCH, '{"no-such-topic":{"0":3}}')


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (no_metadata, "is no checkpoint of a streaming query: it has no file metadata"),
        (no_batch, "has no micro-batch yet: start with a new checkpoint"),
        (incomplete, "micro-batch 7 was begun and is not complete"),
        (newer_version, "this version of checkpoints is unknown"),
        (no_topics, "is not the checkpoint of a query that reads topics"),
        (another_cluster, "is this the cluster of the query?"),
        (more_partitions, "-2 is in the checkpoint, and not in this cluster"),
        (no_such_topic, "no-such-topic"),
    ],
)
def test_what_cannot_be_adopted(odradek, topic, old, tmp_path, damage, sentence):
    damage(old, topic)
    outcome = odradek("spark", "adopt-checkpoint", old, tmp_path / "new", code=1)
    assert sentence in outcome.err
    assert not (tmp_path / "new").exists()


def test_an_incomplete_batch_can_be_repeated(odradek, topic, old, tmp_path):
    incomplete(old, topic)
    new = tmp_path / "new"
    adopted = odradek("spark", "adopt-checkpoint", old, new, "--may-repeat", "--json").json
    assert adopted["batch"] == 6
    assert not (new / "commits" / "7").exists()


def test_a_target_that_exists(odradek, old, tmp_path):
    outcome = odradek("spark", "adopt-checkpoint", old, tmp_path, code=1)
    assert "exists: name a directory that does not" in outcome.err


def test_no_directory():
    assert invoke("spark", "adopt-checkpoint", "/no/such/directory", "new").code == 2
