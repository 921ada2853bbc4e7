"""When a snapshot of the metadata begins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from odradek.broker.metadata.snapshot_generator import SnapshotGenerator
from odradek.config.load import load
from odradek.core.metadata.image import EMPTY_IMAGE


def test_a_timer_that_fires_while_records_are_loaded_is_started_again(tmp_path):
    async def scenario():
        written = asyncio.Event()

        async def create_snapshot(snapshot_id, values, last_append_ms):
            written.set()

        settings = {"log.dirs": str(tmp_path), "metadata.log.max.snapshot.interval.ms": "1"}
        loader = SimpleNamespace(is_catching_up=True, image=EMPTY_IMAGE)
        raft = SimpleNamespace(
            log=SimpleNamespace(latest_snapshot=None), create_snapshot=create_snapshot
        )
        generator = SnapshotGenerator(load({}, settings).config, raft, loader)
        batch = SimpleNamespace(size=10, append_timestamp_ms=0)
        generator.handle_commit([batch])
        await asyncio.sleep(0.05)
        assert not written.is_set()
        loader.is_catching_up = False
        generator.handle_commit([batch])
        await written.wait()
        await generator.close()

    asyncio.run(scenario())
