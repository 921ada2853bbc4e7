from __future__ import annotations

import asyncio

from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.raft.snapshots import SnapshotId
from odradek.wire.generated.topic_record import TopicRecord


def test_a_snapshot_without_later_records_is_the_image():
    """Otherwise a broker would find all its logs to belong to no partition."""
    loop = asyncio.new_event_loop()
    loader = MetadataLoader(Publishers(loop), lambda: 10)
    loader.handle_load_snapshot(SnapshotId(10, 2), [TopicRecord(name="t", topic_id=bytes(16))])
    loader.finish_catching_up()
    assert (loader.image.offset, loader.image.epoch) == (9, 2)
    assert list(loader.image.topics.by_name) == ["t"]
    assert not loader.is_catching_up
    loop.close()
