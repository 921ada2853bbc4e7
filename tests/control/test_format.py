"""Formatting of log directories, and rejected directories."""

import errno

import pytest

from odradek.broker.raft.snapshots import (
    STARTING,
    read_snapshot,
    snapshot_batches,
    write_snapshot,
)
from odradek.config.load import load
from odradek.config.properties import parse_properties
from odradek.core.controller.activation import bootstrap_records
from odradek.core.metadata.errors import MetadataError
from odradek.core.metadata.record import decode_record
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.model.uuids import from_text, to_text
from odradek.node import format as format_module
from odradek.node.format import FormatError, Formatter
from odradek.wire.generated.feature_level_record import FeatureLevelRecord

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
FILES = OsFileSystem()


def formatter(*paths, **settings):
    overrides = {name.replace("_", "."): value for name, value in settings.items()}
    static = {"log.dirs": ",".join(map(str, paths)), **overrides}
    return Formatter(load({}, static).config, FILES, system_random_bytes, 1_700_000_000_000)


def levels(records):
    return {each.name: each.feature_level for each in records}


def test_an_empty_directory_is_formatted_once(tmp_path):
    path = tmp_path / "data"
    first = formatter(path).ensure()
    assert first.is_new
    second = formatter(path).ensure()
    assert not second.is_new
    assert (second.cluster_id, second.directory_ids) == (first.cluster_id, first.directory_ids)
    assert second.bootstrap == first.bootstrap
    assert len(from_text(first.cluster_id)) == 16
    assert levels(first.bootstrap) == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert first.bootstrap[0].name == "metadata.version"


def test_the_voter_is_in_the_first_snapshot(tmp_path):
    identity = formatter(tmp_path).ensure(CLUSTER_ID)
    assert identity.cluster_id == CLUSTER_ID
    name = "00000000000000000000-0000000000.checkpoint"
    snapshot = read_snapshot(FILES, f"{tmp_path}/__cluster_metadata-0/{name}")
    (voter,) = snapshot.settings.voters.voters.values()
    assert snapshot.settings.kraft_version == 1
    assert voter.key == (1, identity.directory_ids[str(tmp_path)])
    assert tuple(map(decode_record, snapshot.values)) == identity.bootstrap


def test_the_first_records_of_the_zero_checkpoint_count(tmp_path):
    """Apache Kafka 4.4 writes them only there, and earlier releases wrote none there."""
    first = formatter(tmp_path).ensure()
    ours = f"{tmp_path}/__cluster_metadata-0/{STARTING.name}"
    levels_of_4_0 = {"metadata.version": 25, "group.version": 1}
    other = Formatter(
        load({}, {"log.dirs": f"{tmp_path}/other"}).config,
        FILES,
        system_random_bytes,
        0,
        levels_of_4_0,
    )
    other.ensure()
    (tmp_path / "bootstrap.checkpoint").unlink()
    assert formatter(tmp_path).ensure().bootstrap == first.bootstrap
    bootstrap = tmp_path / "other" / "bootstrap.checkpoint"
    bootstrap.rename(tmp_path / "bootstrap.checkpoint")
    assert formatter(tmp_path).ensure().bootstrap == first.bootstrap
    snapshot = read_snapshot(FILES, ours)
    batches = snapshot_batches(0, 0, snapshot.settings.messages(), (), 0)
    write_snapshot(FILES, ours, batches, f"{tmp_path}/__cluster_metadata-0")
    assert levels(formatter(tmp_path).ensure().bootstrap) == levels_of_4_0


@pytest.mark.parametrize(
    ("settings", "has_voters"),
    [
        ({"controller.quorum.voters": "1@localhost:9093"}, False),
        ({}, True),
    ],
)
def test_controllers_have_a_zero_checkpoint(tmp_path, settings, has_voters):
    settings = {"process.roles": "controller", "node.id": "1", **settings}
    settings |= {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}
    identity = formatter(tmp_path, **settings).format(standalone=True)
    snapshot = read_snapshot(FILES, f"{tmp_path}/__cluster_metadata-0/{STARTING.name}")
    assert tuple(map(decode_record, snapshot.values)) == identity.bootstrap
    assert bool(snapshot.settings.voters.voters) is has_voters


@pytest.mark.parametrize(("level", "name"), [(34, "4.5-IV0"), (99, "of an unknown release")])
def test_first_records_of_a_newer_level_are_refused(level, name):
    records = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
    with pytest.raises(MetadataError, match=rf"metadata\.version {level} .{name}."):
        bootstrap_records(records, 1, in_transaction=False)


def test_voters_of_the_configuration_are_not_written(tmp_path):
    static = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
    }
    Formatter(load({}, static).config, FILES, system_random_bytes, 0).ensure()
    assert (tmp_path / "meta.properties").exists()
    first = read_snapshot(FILES, f"{tmp_path}/__cluster_metadata-0/{STARTING.name}").settings
    assert (first.kraft_version, first.voters.voters) == (0, {})


def test_levels_may_be_chosen(tmp_path):
    config = load({}, {"log.dirs": str(tmp_path)}).config
    chosen = {"metadata.version": 29, "transaction.version": 0}
    identity = Formatter(config, FILES, system_random_bytes, 0, chosen).format()
    assert levels(identity.bootstrap) == {"metadata.version": 29}
    again = Formatter(config, FILES, system_random_bytes, 0).ensure()
    assert levels(again.bootstrap) == {"metadata.version": 29}


def test_a_directory_that_is_added_joins_the_others(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    first = formatter(one).ensure()
    both = formatter(one, two).ensure()
    assert both.cluster_id == first.cluster_id
    assert both.directory_ids[str(one)] == first.directory_ids[str(one)]
    assert both.directory_ids[str(two)] != first.directory_ids[str(one)]
    assert formatter(one, two).ensure() == both


def test_formatting_that_was_cut_off_is_done_again(tmp_path):
    formatter(tmp_path).ensure()
    (tmp_path / "meta.properties").unlink()
    again = formatter(tmp_path).ensure()
    assert again.is_new
    assert formatter(tmp_path).ensure().cluster_id == again.cluster_id


def properties(path, **changes):
    lines = {"version": "1", "cluster.id": CLUSTER_ID, "node.id": "1", "directory.id": CLUSTER_ID}
    lines.update({name.replace("_", "."): value for name, value in changes.items()})
    path.mkdir(exist_ok=True)
    text = "".join(f"{name}={value}\n" for name, value in lines.items() if value is not None)
    (path / "meta.properties").write_text("#\n#Sat Nov 21 02:22:38 UTC 2026\n" + text)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"node_id": "2"}, "belongs to node 2, but node.id is 1; set node.id=2"),
        ({"version": "0"}, "version 0"),
        ({"cluster_id": None}, "has no cluster.id"),
        ({"version": None}, "version 0 has no broker.id"),
        ({"version": "2"}, "version 2 is not known"),
        ({"version": "one"}, "version is one, which is no number"),
        ({"node_id": "one"}, "node.id is one, which is no number"),
        ({"node_id": None, "broker_id": "1"}, "version 1 has no node.id"),
        ({"directory_id": "short"}, "directory.id is short, which is no id"),
        ({"directory_id": ""}, "directory.id is , which is no id"),
        ({"directory_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, "a reserved directory.id"),
    ],
)
def test_properties_that_do_not_fit(tmp_path, changes, problem):
    properties(tmp_path, **changes)
    with pytest.raises(FormatError, match=problem):
        formatter(tmp_path).ensure()


def read_properties(path):
    return parse_properties((path / "meta.properties").read_bytes())


def test_directories_of_releases_before_ids_get_ids(tmp_path):
    """Apache Kafka before 3.7 wrote no directory.id."""
    paths = [tmp_path / name for name in ("one", "two", "three")]
    for path in paths:
        properties(path, directory_id=None, future="kept")
    properties(paths[1])
    identity = formatter(*paths).ensure()
    assert len(set(identity.directory_ids.values())) == 3
    assert identity.directory_ids[str(paths[1])] == from_text(CLUSTER_ID)
    for path in (paths[0], paths[2]):
        assert read_properties(path) == {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": "1",
            "directory.id": to_text(identity.directory_ids[str(path)]),
            "future": "kept",
        }
    assert formatter(*paths).ensure() == identity


def test_only_a_start_chooses_ids(tmp_path):
    properties(tmp_path, directory_id=None)
    assert formatter(tmp_path).read().directory_ids == {}
    assert "directory.id" not in read_properties(tmp_path)


@pytest.mark.parametrize("version", ["0", None])
def test_a_node_that_was_migrated_from_zookeeper_keeps_its_version(tmp_path, version):
    properties(tmp_path, version=version, node_id=None, broker_id="1", directory_id=None)
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(FormatError, match="version 0, and there is no metadata log"):
        formatter(tmp_path).ensure()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").touch()
    identity = formatter(tmp_path).ensure()
    found = read_properties(tmp_path)
    assert (found["version"], found["broker.id"], "node.id" in found) == ("0", "1", False)
    assert from_text(found["directory.id"]) == identity.directory_ids[str(tmp_path)]
    assert formatter(tmp_path).ensure() == identity


@pytest.mark.parametrize("content", [b"version=1\n", b"version=1\nnode.id=1\n\xff", b"a=\\u1"])
def test_a_damaged_file_makes_one_directory_unusable(tmp_path, content):
    one, two = tmp_path / "one", tmp_path / "two"
    properties(one)
    two.mkdir()
    (two / "meta.properties").write_bytes(content)
    identity = formatter(one, two).ensure()
    assert list(identity.directory_ids) == [str(one)]
    assert f"cannot read {two}/meta.properties: " in identity.failed[str(two)]
    assert (two / "meta.properties").read_bytes() == content
    with pytest.raises(FormatError, match=r"cannot read .*two/meta\.properties"):
        formatter(one, two, metadata_log_dir=str(two)).ensure()


def test_a_directory_that_cannot_get_an_id_is_unusable(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    properties(one, directory_id=None)
    properties(two, directory_id=None)

    def fail(file_system, path, data):
        if path.startswith(str(two)):
            raise OSError(errno.EROFS, "read-only")
        real(file_system, path, data)

    real = format_module.replace_file
    monkeypatch.setattr(format_module, "replace_file", fail)
    identity = formatter(one, two).ensure()
    assert list(identity.directory_ids) == [str(one)]
    assert "cannot write directory.id" in identity.failed[str(two)]
    with pytest.raises(FormatError, match=r"cannot write directory\.id"):
        formatter(two, one).ensure()


def test_a_metadata_log_in_another_directory_is_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    formatter(one).ensure()
    properties(two, cluster_id=read_properties(one)["cluster.id"])
    with pytest.raises(FormatError, match=r"set metadata.log.dir=.*/one"):
        formatter(two, one).ensure()
    assert formatter(two, one, metadata_log_dir=str(one)).ensure()


def test_another_cluster_is_refused(tmp_path):
    properties(tmp_path)
    with pytest.raises(FormatError, match=f"belongs to cluster {CLUSTER_ID}"):
        formatter(tmp_path).ensure("AAAAAAAAAAAAAAAAAAAAAA")
    assert formatter(tmp_path).ensure(CLUSTER_ID).cluster_id == CLUSTER_ID


def test_directories_of_two_clusters_are_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    properties(one)
    properties(two, cluster_id="zBVAPnO9QN-AkE6CAb8MwQ", directory_id="zBVAPnO9QN-AkE6CAb8MwQ")
    with pytest.raises(FormatError, match=r"disagree on cluster\.id"):
        formatter(one, two).ensure()


def test_a_copied_directory_is_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    properties(one)
    properties(two)
    with pytest.raises(FormatError, match="one is a copy of the other"):
        formatter(one, two).ensure()


def test_partitions_without_an_owner_are_refused(tmp_path):
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(FormatError, match=r"orders-0 but no meta\.properties"):
        formatter(tmp_path).ensure()
    (tmp_path / "orders-0").rmdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").touch()
    with pytest.raises(FormatError, match=r"__cluster_metadata-0 but no meta\.properties"):
        formatter(tmp_path).ensure()


def test_formatting_twice_is_refused(tmp_path):
    formatter(tmp_path).format()
    with pytest.raises(FormatError, match="is formatted already"):
        formatter(tmp_path).format()


def test_a_path_that_cannot_be_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="Not a directory"):
        formatter(tmp_path / "file" / "data").ensure()


def test_cluster_ids_are_checked(tmp_path):
    with pytest.raises(FormatError, match="is not a cluster id"):
        formatter(tmp_path).format("my-cluster")


def test_bootstrap_records_that_apache_kafka_wrote(tmp_path, kafka_fixtures):
    properties(tmp_path)
    source = kafka_fixtures / "bootstrap.checkpoint"
    (tmp_path / "bootstrap.checkpoint").write_bytes(source.read_bytes())
    identity = formatter(tmp_path).ensure()
    assert levels(identity.bootstrap) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    ours = formatter(tmp_path / "new").ensure()
    snapshot = read_snapshot(FILES, f"{tmp_path}/new/bootstrap.checkpoint")
    assert tuple(map(decode_record, snapshot.values)) == ours.bootstrap


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", f"__cluster_metadata-0/{STARTING.name}"])
def test_damaged_first_records_are_named(tmp_path, name):
    formatter(tmp_path).ensure()
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    (tmp_path / "__cluster_metadata-0" / STARTING.name).unlink()
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"{name} is damaged"):
        formatter(tmp_path).ensure()
