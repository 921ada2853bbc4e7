"""A large Metadata response is built in pieces, with the same content."""

from __future__ import annotations

import pytest
from compat.lab.wire_client import WireClient

from odradek.handlers import k03_metadata
from odradek.testing import Broker

TOPICS = {"one": 1, "five": 5, "three": 3}


@pytest.mark.parametrize("piece", [1, 2, 9])
def test_pieces_make_the_same_answer(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    settings = {"auto.create.topics.enable": "false"}  # else "none" is there soon
    with Broker(topics=TOPICS, settings=settings) as broker, WireClient(broker.port) as client:
        asked = ["five", "none", "one", "three", "in valid"]
        whole = client.metadata(*asked)
        turns = broker.node.selector.turns
        monkeypatch.setattr(k03_metadata, "PIECE", piece)
        assert client.metadata(*asked) == whole
        assert broker.node.selector.turns - turns >= sum(TOPICS.values()) // piece
