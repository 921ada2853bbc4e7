"""A defect in one request's way does not end the node, and is not passed over in silence."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from compat.lab.wire_client import WireClient

from odradek.handlers import k00_produce
from odradek.testing import Broker


def test_a_quick_answer_that_fails_ends_the_connection_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(k00_produce.quick_produce, "decode", defect)
    with Broker(topics={"one": 1}) as broker, WireClient(broker.port) as bystander:
        broker.node.dispatcher.inject = None  # with faults at hand nothing is answered quickly
        before = bystander.metadata("one")
        with (
            WireClient(broker.port) as client,
            caplog.at_level(logging.ERROR),
            pytest.raises(ConnectionError),
        ):
            client.produce_one("one", b"lost")
        assert "Produce failed" in caplog.text
        assert bystander.metadata("one") == before
