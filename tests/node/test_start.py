"""Failing starts of a node."""

from __future__ import annotations

import gc
import logging
import os
import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.config.load import load
from odradek.network.listeners import ListenError
from odradek.node.broker_role import BrokerRole
from odradek.node.run import StartError, run
from odradek.testing import Broker, BrokerError


def test_a_busy_port_is_found_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(port=taken.getsockname()[1], data=str(tmp_path))
        with pytest.raises(BrokerError, match="in use"):
            broker.start()
    assert os.listdir(tmp_path) == [".lock"]


def test_groups_that_are_being_loaded_are_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(topics={"orders": 1}, data=str(tmp_path)) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()

    async def refuse(role: BrokerRole, *_: object) -> None:
        assert role.broker.coordinators.groups.runtime.is_loading
        raise ListenError("no")

    monkeypatch.setattr(BrokerRole, "register", refuse)
    with caplog.at_level(logging.WARNING), pytest.raises(StartError, match="no"):
        run(load(None, {"listeners": "PLAINTEXT://127.0.0.1:0"}, str(tmp_path)).config, print)
    gc.collect()
    assert caplog.messages == []
