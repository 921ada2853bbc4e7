"""A broker stops if it cannot report a failed log directory (log.dir.failure.timeout.ms)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from .cluster import cluster


@pytest.mark.cluster
def test_a_broker_stops_if_no_controller_knows_its_failed_directory(tmp_path: Path, caplog) -> None:
    async def scenario() -> None:
        roles = {1: "controller", 2: "broker"}
        settings = {
            "log_dirs": "{node}/a,{node}/b",
            "metadata_log_dir": "{node}/a",
            "log_dir_failure_timeout_ms": "300",
        }
        async with cluster(tmp_path, roles, **settings) as nodes:
            broker = nodes.nodes[2]
            await nodes.kill_controller(1)
            lost = broker.broker.storage.logs.directories[1]
            lost.fail("test", OSError(errno.EIO, "Input/output error"))
            await broker.failed.wait()
            nodes.nodes.pop(2)
            await broker.stop()

    asyncio.run(scenario())
    assert "has failed, and no controller knows" in caplog.text
