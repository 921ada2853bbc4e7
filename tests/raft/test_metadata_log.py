from __future__ import annotations

import os

import pytest
from tests.log.support import BROKER_CONFIG, LogWorkspace

from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.raft.snapshots import SnapshotId
from odradek.log.errors import LogDamaged


def test_a_missing_batch_is_an_error(tmp_path):
    workspace = LogWorkspace(tmp_path)
    log = MetadataLog.open(workspace.storage, workspace.directory, BROKER_CONFIG)
    log.append([b"a"], 1, 0)
    log.append([b"b"], 1, 0)
    (first, second) = log.batches(0)
    os.truncate(f"{log.path}/{0:020}.log", first.size + second.size - 1)
    found = log.batches(0)
    assert next(found).base_offset == 0
    with pytest.raises(LogDamaged, match="offset 1 is missing"):
        next(found)


def test_a_snapshot_that_ends_after_the_log_replaces_the_log_and_the_older_snapshots(tmp_path):
    workspace = LogWorkspace(tmp_path)
    log = MetadataLog.open(workspace.storage, workspace.directory, BROKER_CONFIG)
    log.append([b"a", b"b"], 1, 0)
    older, newer = SnapshotId(1, 1), SnapshotId(4, 2)
    for each in (older, newer):
        log.write_snapshot(each, [])
    log.close()
    log = MetadataLog.open(workspace.storage, workspace.directory, BROKER_CONFIG)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 4, 2)
    assert log.snapshots == [newer]
    assert [each for each in os.listdir(log.path) if each.endswith(".checkpoint")] == [newer.name]
