"""Connectors in tests without a worker: `odradek.testing.connectors`."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.connectors import DatagenConnector, FileStreamSinkConnector, FileStreamSourceConnector
from odradek.core.connect.errors import ConfigError
from odradek.testing.connectors import SinkHarness, SourceHarness


def test_a_source_goes_on_from_what_is_committed(tmp_path: Path):
    file = tmp_path / "in"
    file.write_text("a\nb\r\nc\rd\nhalf")
    with SourceHarness(FileStreamSourceConnector, {"file": str(file), "topic": "t"}) as source:
        assert [each.value for each in source.take(2)] == ["a", "b"]
        source.commit()
        source.restart()
        assert [each.value for each in source.take(2)] == ["c", "d"]
        assert source.take(0) == []


def test_a_sink_writes_what_it_lets_commit(tmp_path: Path):
    file = tmp_path / "out"
    with SinkHarness(FileStreamSinkConnector, {"file": str(file)}) as sink:
        sink.put(["a", None, {"k": [1, 2.5, True]}])
        assert sink.commit() == 3
        assert file.read_text() == "a\nnull\n{k=[1, 2.5, true]}\n"


def test_the_same_seed_makes_the_same_records():
    config = {"kafka.topic": "t", "quickstart": "orders", "random.seed": "5", "max.interval": "0"}

    def take(count: int) -> list[str]:
        with SourceHarness(DatagenConnector, config) as source:
            return [str(each.value) for each in source.take(count)]

    first = take(6)
    assert take(6) == first
    with SourceHarness(DatagenConnector, config) as source:
        source.take(3)
        source.commit()
        source.restart()
        assert [str(each.value) for each in source.take(3)] == first[3:]


def test_a_wrong_configuration_is_refused():
    with pytest.raises(ConfigError, match="Missing required configuration"):
        SourceHarness(FileStreamSourceConnector, {})
