"""`odradek connect standalone` as a process: it copies, stops with Ctrl-C, and goes on where it was."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.support.child import ODRADEK, Child

from odradek.core.connect import java_map
from odradek.testing import Broker


def properties(path: Path, **settings: object) -> Path:
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()]
    path.write_text("".join(lines))
    return path


@pytest.mark.slow("starts a worker and the processes of its tasks")
def test_files_are_copied_until_ctrl_c(tmp_path: Path):
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\n")
    string = "org.apache.kafka.connect.storage.StringConverter"
    with Broker() as broker:
        worker = properties(
            tmp_path / "worker.properties",
            bootstrap_servers=broker.bootstrap_servers,
            key_converter=string,
            value_converter=string,
            offset_storage_file_filename=tmp_path / "offsets",
            listeners="http://127.0.0.1:0",
            task_shutdown_graceful_timeout_ms=60_000,
        )
        reader = properties(
            tmp_path / "reader.properties",
            name="reader",
            connector_class="FileStreamSource",
            file=source,
            topic="lines",
        )
        writer = properties(
            tmp_path / "writer.properties",
            name="writer",
            connector_class="FileStreamSink",
            file=sink,
            topics="lines",
        )
        command = [*ODRADEK, "connect", "standalone", worker, reader, writer]
        for line in ("two", "three"):
            with Child(command, own_session=True) as child:
                wanted = source.read_text()
                deadline = time.monotonic() + 60
                while not sink.exists() or sink.read_text() != wanted:
                    assert child.runs, child.last_words
                    assert time.monotonic() < deadline, child.last_words
                    time.sleep(0.05)
                os.killpg(child.pid, signal.SIGINT)  # as a terminal does
                assert child.wait(30) == 0, child.last_words
            stored = java_map.load((tmp_path / "offsets").read_bytes())
            assert list(stored.values()) == [b'{"position":%d}' % len(wanted)]
            source.write_text(wanted + line + "\n")
