"""The broker of the demo and of pipelines."""

from __future__ import annotations

import pytest

from odradek.pipelines import broker


def test_it_is_reached_only_from_this_machine(tmp_path):
    running = broker.start(tmp_path)
    try:
        broker.check(running.servers)
        assert running.servers.startswith("127.0.0.1:")
        said = (tmp_path / "broker.log").read_text()
        assert "no authentication" not in said, "a warning if another machine can reach the broker"
    finally:
        running.stop()


def test_the_reason_why_it_does_not_start(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=9\n")
    with pytest.raises(broker.BrokerNotStartedError) as failure:
        broker.start(tmp_path)
    (line,) = str(failure.value).splitlines()
    assert line.startswith("the broker did not start: ")
    assert "9" in line
    assert line.endswith(f"(see {tmp_path / 'broker.log'})")
