"""An exception in a handler does not stop the node, and is logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from compat.lab.wire_client import WireClient

from odradek.testing import Broker


def test_a_quick_answer_that_fails_ends_the_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def defect(*_: Any) -> None:
        raise RuntimeError("a defect")

    with Broker(topics={"one": 1}) as broker, WireClient(broker.port) as bystander:
        dispatcher = broker.node.dispatcher
        dispatcher.inject = None  # with injected faults nothing is answered quickly
        dispatcher.entries[0].quick = defect
        before = bystander.metadata("one")
        with (
            WireClient(broker.port) as client,
            caplog.at_level(logging.ERROR),
            pytest.raises(ConnectionError),
        ):
            client.produce_one("one", b"lost")
        assert "Produce failed" in caplog.text
        assert bystander.metadata("one") == before
