"""The metadata log of a real cluster is read, replayed and written again."""

from odradek.broker.raft.control import QuorumSettings
from odradek.broker.raft.metadata_log import replay_settings
from odradek.broker.raft.snapshots import SnapshotId, read_snapshot, snapshot_batches
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.record import decode_record, decode_record_and_version, encode_record
from odradek.core.metadata.snapshot import image_records
from odradek.core.metadata.versions import LEVEL_MAX, record_version
from odradek.core.raft.voters import VoterSet
from odradek.env.file_system import OsFileSystem
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records


def replay(path):
    loader, settings = BatchLoader(), QuorumSettings(VoterSet())
    changes = []
    for batch in iterate_batches(path.read_bytes()):
        batch.check()
        if batch.is_control:
            replay_settings(settings, batch)
            loader.load((), batch.next_offset, batch.leader_epoch)
        else:
            records = [decode_record(record.value) for record in iterate_records(batch)]
            loader.load(records, batch.base_offset, batch.leader_epoch)
        if (change := loader.flush()) is not None:
            changes.append(change)
    return loader.image, settings, changes


def test_the_log_of_a_cluster_becomes_its_image(kafka_fixtures):
    image, settings, _ = replay(kafka_fixtures / "cluster_metadata.log")
    assert settings.kraft_version == 1
    assert list(settings.voters.voters) == [1]
    assert image.features.metadata_version == 30
    assert image.features.level("share.version") == 1
    assert {2, 3} <= set(image.cluster.brokers)
    assert image.cluster.brokers[2].listeners["PLAINTEXT"].port == 39095
    assert not image.cluster.brokers[2].fenced
    assert sorted(image.cluster.controllers) == [1]
    assert "__consumer_offsets" in image.topics.by_name
    partition = image.topics.partition("__consumer_offsets", 0)
    assert set(partition.isr) <= set(partition.replicas) <= {2, 3}
    assert image.configs.of(2, "__consumer_offsets")["cleanup.policy"] == "compact"
    assert image.next_producer_id > 0


def test_the_bootstrap_transaction_is_shown_at_once(kafka_fixtures):
    _, _, changes = replay(kafka_fixtures / "cluster_metadata.log")
    with_features = [image for delta, image in changes if delta.features.changed]
    assert len(with_features) == 1
    assert len(with_features[0].features.finalized) == 6


def test_every_record_is_written_in_the_version_that_apache_kafka_chose(kafka_fixtures):
    seen = 0
    for batch in iterate_batches((kafka_fixtures / "cluster_metadata.log").read_bytes()):
        for record in () if batch.is_control else iterate_records(batch):
            message, version = decode_record_and_version(record.value)
            assert record_version(message, LEVEL_MAX) == version
            assert encode_record(message, LEVEL_MAX) == record.value
            seen += 1
    assert seen > 600


def test_our_snapshot_of_it_is_the_same_image(kafka_fixtures, tmp_path):
    image, settings, _ = replay(kafka_fixtures / "cluster_metadata.log")
    values = [encode_record(record, LEVEL_MAX) for record in image_records(image)]
    path = tmp_path / SnapshotId(image.offset + 1, image.epoch).name
    batches = snapshot_batches(image.epoch, 5, settings.messages(), values, 7)
    path.write_bytes(b"".join(batches))
    snapshot = read_snapshot(OsFileSystem(), str(path))
    assert snapshot.last_contained_timestamp == 5
    assert snapshot.settings.voters == settings.voters
    records = map(decode_record, snapshot.values)
    _, again = BatchLoader().load_snapshot(records, image.offset, image.epoch)
    assert again == image


def test_snapshots_are_written_byte_for_byte(kafka_fixtures):
    for name in ("bootstrap.checkpoint", "00000000000000000000-0000000000.checkpoint"):
        path = kafka_fixtures / name
        snapshot = read_snapshot(OsFileSystem(), str(path))
        ours = snapshot_batches(
            0, snapshot.last_contained_timestamp, snapshot.settings.messages(), snapshot.values, 0
        )
        theirs = list(iterate_batches(path.read_bytes()))
        for mine, batch in zip(ours, theirs, strict=True):
            # The times differ, and therefore the checksums. All other bytes are equal.
            assert mine[:17] == batch.data[:17]
            assert mine[21:27] == batch.data[21:27]
            assert mine[43:] == batch.data[43:]
