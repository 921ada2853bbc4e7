"""A quorum that does not form says why: in the log of each node, within seconds, and then rarely."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from odradek.broker.raft import obstacles
from odradek.broker.raft.obstacles import Obstacles, own_principal
from odradek.config.load import load
from odradek.core.raft.voters import Destination
from odradek.model.errors import ErrorCode
from odradek.node.node import Node
from odradek.telemetry.reminders import Reminders
from odradek.wire.generated.vote_response import PartitionData, TopicData, VoteResponse

from .cluster import CLUSTER_ID, Cluster

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BOTH = {1: "broker,controller", 2: "broker,controller"}
OTHER_CLUSTER = "zBVAPnO9QN-AkE6CAb8MwQ"


@pytest.fixture(autouse=True)
def seconds(monkeypatch):
    monkeypatch.setattr(obstacles, "SILENCE_SECONDS", 1.0)


def said_by(path, *texts, cluster_ids=(CLUSTER_ID, CLUSTER_ID), changes=None, **settings):
    """Start two nodes that have no quorum, and wait until all texts are in the log."""

    class Lines(logging.Handler):
        def __init__(self):
            super().__init__()
            self.lines = []

        def emit(self, record):
            if record.levelno >= logging.WARNING:
                self.lines.append(record.getMessage())

    handler = Lines()

    async def scenario():
        nodes = Cluster(path, BOTH, **settings)
        if changes is not None:
            changes(nodes)
        texts_of = [
            text.format(**{f"at{i}": f"127.0.0.1:{p}" for i, p in nodes.controller_ports.items()})
            for text in texts
        ]
        made = [Node(nodes.config(each), cluster_id=cluster_ids[each - 1]) for each in BOTH]
        starts = [asyncio.ensure_future(each.start()) for each in made]
        try:
            async with asyncio.timeout(60):
                while not all(any(text in line for line in handler.lines) for text in texts_of):
                    assert not any(each.done() for each in starts)
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            assert len(handler.lines) == len(set(handler.lines))  # nothing is said twice
        finally:
            for each in starts:
                each.cancel()
            await asyncio.wait(starts)

    logger = logging.getLogger("odradek")
    logger.addHandler(handler)
    try:
        asyncio.run(scenario())
    except TimeoutError:
        pytest.fail("\n".join(handler.lines))
    finally:
        logger.removeHandler(handler)


def test_votes_that_are_refused(tmp_path):
    refuses = "refuses this node's votes and fetches, which come from User:ANONYMOUS: add it to super.users"
    said_by(
        tmp_path,
        f"node 1 at {{at1}} {refuses}",
        f"node 2 at {{at2}} {refuses}",
        "this controller refuses Vote of raft-client-1 at 127.0.0.1, because its principal "
        "User:ANONYMOUS is no super user",
        authorizer_class_name=AUTHORIZER,
    )


def test_nodes_of_two_clusters(tmp_path):
    said_by(
        tmp_path,
        f"node 1 at {{at1}} belongs to another cluster, not to {OTHER_CLUSTER} as this node",
        f"node 2 at {{at2}} belongs to another cluster, not to {CLUSTER_ID} as this node",
        f"this controller refuses Vote of a node of the cluster {OTHER_CLUSTER}, because it belongs "
        f"to {CLUSTER_ID}",
        cluster_ids=(CLUSTER_ID, OTHER_CLUSTER),
    )


def test_a_port_where_nobody_listens_and_a_host_that_nobody_knows(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    def change(nodes):
        nodes.voters += f",3@127.0.0.1:{port},4@no-such-host.invalid:9093,5@127.0.0.1:{port}"

    said_by(
        tmp_path,
        f"node 3 at 127.0.0.1:{port} cannot be asked: the connection is refused",
        "node 4 at no-such-host.invalid:9093 cannot be asked: ",
        "node 2 at {at2} answers",
        changes=change,
    )


def test_a_controller_that_is_no_kafka_node(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        def change(nodes):
            nodes.voters += f",3@127.0.0.1:{port},4@127.0.0.1:{port},5@127.0.0.1:{port}"

        said_by(
            tmp_path,
            f"node 3 at 127.0.0.1:{port} cannot be asked: ",
            changes=change,
            controller_quorum_request_timeout_ms="500",
        )


def sentence(code, **settings):
    config = load(
        {
            "controller.listener.names": "C",
            "listeners": "PLAINTEXT://:1,C://:2",
            "controller.quorum.voters": "1@a:1",
            **settings,
        },
        {},
    ).config
    found = Obstacles(config, CLUSTER_ID)
    partition = PartitionData(error_code=code)
    found.answered(
        Destination(2, "::1", 9093), VoteResponse(topics=[TopicData(partitions=[partition])])
    )
    return found.sentences()[0]


def test_voters_that_differ():
    said = sentence(ErrorCode.INVALID_VOTER_KEY)
    assert said.startswith("node 2 at [::1]:9093 knows other voters than this node")
    assert "compare controller.quorum.voters, node.id and directory.id" in said


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH])
def test_what_elections_answer_is_no_problem(code):
    assert sentence(code) == "node 2 at [::1]:9093 answers"


def test_the_principal_of_a_login():
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="node" password="x" user_node="x";'
    config = load(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:1,C://:2",
            "controller.listener.names": "C",
            "controller.quorum.voters": "1@a:2,2@b:2",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,C:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.c.plain.sasl.jaas.config": login,
        },
        {},
    ).config
    assert own_principal(config) == "User:node"


def test_a_problem_is_repeated_rarely():
    now = 0.0
    reminders = Reminders(lambda: now)
    said = []
    for second in range(2000):
        now = float(second)
        if reminders.is_due("it"):
            said.append(second)
    assert said == [0, 60, 180, 420, 900, 1860]
    assert reminders.is_due("another")
