"""`odradek format` with --release-version and --feature, side by side with `kafka-storage format`."""

from __future__ import annotations

import pytest
from compat.lab.toolchain import Missing
from confluent_kafka import Producer
from tests.cli.conftest import invoke
from tests.oracle.jvm import formats

from odradek.broker.raft.snapshots import read_snapshot
from odradek.core.metadata.record import decode_record
from odradek.core.metadata.releases import LEVEL_NAMES, default_levels, level_of_release
from odradek.core.metadata.versions import LEVEL_MAX, LEVEL_MIN, SUPPORTED_FEATURES
from odradek.env.file_system import OsFileSystem
from odradek.testing import Broker

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
COMBINED = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""
QUORUMS = {
    "dynamic": f"{COMBINED}controller.quorum.bootstrap.servers=127.0.0.1:9093\n",
    "static": f"{COMBINED}controller.quorum.voters=1@127.0.0.1:9093\n",
    "broker": """process.roles=broker
node.id=2
listeners=PLAINTEXT://127.0.0.1:9092
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:9093
""",
}
CASES = [
    (quorum, words)
    for quorum, options in (("dynamic", ("-s",)), ("static", ()))
    for words in (
        options,
        *((*options, "-r", name) for name in ("3.3-IV3", "3.4", "3.5", "3.7-IV4", "3.9", "4.0.1")),
        *(
            (*options, "-r", name)
            for name in ("4.0-IV1", "4.0-IV2", "4.1-IV0", "4.2-IV0", "4.2", "4.3", "4.4-IV0")
        ),
        *(
            (*options, "-r", name)
            for name in ("3.2", "4.4", "4.5", "4", "4.0-IV9", "", "4.3-IV0-x")
        ),
        *((*options, "-f", f"metadata.version={level}") for level in (6, 7, 20, 30, 31, 33, 99)),
        (*options, "-f", "metadata.version=20", "-r", "3.8"),
        (*options, "-f", "kraft.version=0"),
        (*options, "-f", "kraft.version=1"),
        (*options, "-f", "kraft.version=2"),
        (*options, "-r", "3.3", "-f", "kraft.version=1"),
    )
] + [
    ("static", words)
    for words in (
        *(("-f", text) for text in ("nonsense=1", "group.version", "group.version=", "=1", "x")),
        *(("-f", f"group.version{end}") for end in ("=x", "=-1", "=2", "=99999", "=1=1", " = 0")),
        ("-f", "group.version=1", "-f", "group.version=0"),
        ("--feature", "transaction.version=1", "--feature", "share.version=0"),
        ("-r", "3.9", "-f", "group.version=1", "-f", "transaction.version=2"),
        ("-r", "3.9", "-f", "share.version=1", "-f", "streams.version=1"),
        ("-r", "3.9", "-f", "eligible.leader.replicas.version=1"),
        ("-r", "4.0-IV0", "-f", "eligible.leader.replicas.version=1"),
        ("-r", "4.0-IV1", "-f", "eligible.leader.replicas.version=1"),
        ("-r", "3.9", "-f", "eligible.leader.replicas.version=0"),
        ("-r", "3.5-IV1", "-S", "SCRAM-SHA-256=[name=alice,password=secret]"),
        ("-N", "-f", "kraft.version=1"),
    )
]
CASES += [
    ("dynamic", ("-N", "-f", "kraft.version=1")),
    ("dynamic", ("-N", "-f", "kraft.version=0")),
    ("dynamic", ("-N", "-r", "4.1")),
    ("broker", ("-r", "4.1", "-f", "kraft.version=0")),
    ("broker", ("-f", "kraft.version=1")),
    ("broker", ("-N", "-f", "kraft.version=1")),
]


def formatted(path):
    """The first levels, and the kraft.version of the first snapshot."""
    if not (path / "meta.properties").exists():
        return None
    files = OsFileSystem()
    checkpoint = path / CHECKPOINT
    older = path / "bootstrap.checkpoint"  # which Apache Kafka writes before 4.4
    if not checkpoint.exists():
        checkpoint = older
    if not checkpoint.exists():
        return None, None
    first = read_snapshot(files, str(checkpoint))
    assert not older.exists() or read_snapshot(files, str(older)).values == first.values
    levels = [(each.name, each.feature_level) for each in map(decode_record, first.values)]
    return levels, first.settings.kraft_version or None


def format_with(path, quorum, words):
    file = path / "server.properties"
    path.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{QUORUMS[quorum]}log.dirs={path}/data\n")
    return invoke("format", "--config", file, "-t", CLUSTER_ID, *words)


@pytest.mark.java
@pytest.mark.cluster
def test_bootstrap_metadata_are_those_of_kafka_storage(tmp_path) -> None:
    lines = []
    for number, (quorum, words) in enumerate(CASES):
        path = tmp_path / "kafka" / str(number)
        path.mkdir(parents=True)
        file = path / "server.properties"
        file.write_text(f"{QUORUMS[quorum]}log.dirs={path}/data\n")
        lines.append(("format", "-c", str(file), "-t", CLUSTER_ID, *words))
    try:
        said = formats(lines)
    except Missing as reason:
        pytest.skip(str(reason))
    assert len(said) == len(CASES)
    for number, (quorum, words) in enumerate(CASES):
        outcome = format_with(tmp_path / "odradek" / str(number), quorum, words)
        theirs = formatted(tmp_path / "kafka" / str(number) / "data")
        ours = formatted(tmp_path / "odradek" / str(number) / "data")
        assert (theirs is not None) == (said[number] == "ok")
        case = quorum, words, outcome.err, said[number]
        if ours and theirs == (None, None):
            assert quorum == "broker", case  # on which Apache Kafka writes nothing
        elif ours and theirs and "-N" in words:
            # Apache Kafka writes the first records, which a node that joins does not use.
            assert ours[0] == theirs[0], case
        else:
            assert ours == theirs, case
        assert (outcome.code == 0) == (ours is not None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "3.2"], "unknown metadata.version 3.2: choose one of 3.3-IV3, 3.4-IV0"),
        (["-f", "metadata.version=34"], "the levels are 7 (3.3-IV3) to 33 (4.4-IV2)"),
        (["-r", "3.9", "-f", "metadata.version=20"], "--release-version already sets"),
        (["-f", "group.version"], "write NAME=LEVEL"),
        (["-f", "nonsense=1"], "the features are eligible.leader.replicas.version, group.version"),
        (["-f", "share.version=3"], "share.version has no level 3: its levels are 0 to 2"),
        (["-f", "kraft.version=0"], "kraft.version 0 needs the setting controller.quorum.voters"),
        (
            ["-r", "3.9", "-f", "eligible.leader.replicas.version=1"],
            "needs metadata.version 23 (4.0-IV1) or higher, not 21 (3.9-IV0)",
        ),
        (["-r", "3.4", "-S", "SCRAM-SHA-256=[name=a,password=b]"], "need metadata.version 11"),
    ],
)
def test_refusals(tmp_path, words, said) -> None:
    outcome = invoke("format", "--data", tmp_path / "data", *words)
    assert outcome.code == 1
    assert said in outcome.err
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_releases() -> None:
    assert list(LEVEL_NAMES) == list(range(LEVEL_MIN, LEVEL_MAX + 1))
    assert LEVEL_NAMES[LEVEL_MAX] == "4.4-IV2"
    assert [level_of_release(each) for each in ("3.7", "3.7.2", "3.7-IV0", "3.10")] == [
        *(19, 19, 15),
        None,
    ]
    for level in LEVEL_NAMES:
        for name, default in default_levels(level).items():
            low, high = SUPPORTED_FEATURES[name]
            assert low <= default <= high


@pytest.mark.parametrize("release", ["3.3", "3.9"])
def test_a_node_with_the_features_of_an_older_release(tmp_path, release) -> None:
    outcome = invoke("format", "--data", tmp_path, "-r", release, "-f", "transaction.version=1")
    assert outcome.code == 0
    level = level_of_release(release)
    assert f"Features of {LEVEL_NAMES[level]} (metadata.version {level})" in outcome.lines
    with Broker(data=str(tmp_path), topics={"a": 1}) as broker:
        features = broker.node.broker.metadata.image.features
        assert features.metadata_version == level
        assert features.level("transaction.version") == 1
        assert features.level("group.version") == 0
        errors = []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("a", b"1", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        assert errors == [None]
