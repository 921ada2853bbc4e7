from __future__ import annotations

import os

import pytest
from tests.log.support import BROKER_CONFIG, LogWorkspace

from odradek.broker.raft.metadata_log import MetadataLog
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
