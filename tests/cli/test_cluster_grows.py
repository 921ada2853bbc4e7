"""A cluster of three nodes gets a fourth, and loses it again, by commands."""

from __future__ import annotations

import json
import re
import signal

import pytest
from tests.cli.conftest import invoke
from tests.support.child import ODRADEK, Child
from tests.support.waiting import until

from odradek.operations import cluster_health
from odradek.testing import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3, topics={"orders": 12, "users": 6}) as cluster:
        yield cluster


@pytest.fixture
def run(cluster, monkeypatch):
    """Runs a command that has to succeed, unless `code` says otherwise."""
    # The disk of the machine may be nearly full.
    monkeypatch.setattr(cluster_health, "FREE_SHARE_NOTED", 0.0)

    def run(*words, code=0):
        outcome = invoke(*words, bootstrap=cluster.bootstrap_servers)
        assert outcome.code == code, outcome
        return outcome

    return run


def serving(run):
    """Return the number of brokers that serve clients."""
    found = run("cluster", "describe", "--json").json["brokers"]
    return sum(not each["fenced"] for each in found)


def test_a_node_is_killed_and_returns(cluster, run):
    assert run("cluster", "status").out.startswith("The cluster is healthy.")
    cluster.kill(2)
    until(lambda: all(cluster.leader("orders", each) != 2 for each in range(12)))
    text = run("cluster", "status", code=1).out
    assert text.startswith("The cluster serves all requests, but it is degraded.")
    assert "broker 2 (127.0.0.1:" in text
    assert "18 partitions under-replicated: broker 2 not in sync" in text
    assert "Start broker 2." in text
    status = run("cluster", "status", "--json", code=1).json
    assert (status["state"], status["under_replicated"], status["offline"]) == ("degraded", 18, 0)
    refused = run("cluster", "drain", 2, code=1).err
    assert "every broker that runs has a replica already of 18 partitions" in refused
    assert "odradek cluster add-broker" in refused
    refused = run("cluster", "remove", 2, code=1).err
    assert "broker 2 has replicas of 18 partitions" in refused
    assert "drain 2" in refused
    cluster.start(2)
    cluster.wait_until_in_sync()
    assert run("cluster", "status", "--json").json["state"] == "healthy"
    assert "broker 2 runs at 127.0.0.1:" in run("cluster", "remove", 2, code=1).err
    assert "there is no broker 9" in run("cluster", "drain", 9, code=1).err


def test_a_broker_comes_and_goes(cluster, run, tmp_path):
    home = tmp_path / "new"
    refused = run("cluster", "add-broker", "--node-id", 2, "-d", home, code=1).err
    assert "the cluster already has a node 2" in refused
    assert run("cluster", "add-broker", "-d", home).out == f"Prepared broker 4 in {home}\n"
    assert "already has a node" in run("cluster", "add-broker", "-d", home, code=1).err
    with Child([*ODRADEK, "serve", "--config", home / "server.properties"], stops=True) as node:
        node.until(lambda: serving(run) == 4)
        plan = run("cluster", "rebalance", "--dry-run", "--json").json["moves"]
        assert sum(4 in each["to"] for each in plan) == 13
        run("cluster", "rebalance")
        status = run("cluster", "status", "--json").json
        assert status["problems"] == []
        held = len(run("cluster", "drain", 4, "--dry-run", "--json").json["moves"])
        assert held == 13
        done = run("cluster", "drain", 4)
        assert done.out == "Moved 13 partitions\n"
        assert "stop it, then run: odradek cluster remove 4" in done.err
        assert json.loads(run("cluster", "drain", 4, "--json").out)["moves"] == []
        assert "is also a voter" not in done.err
    until(lambda: serving(run) == 3)
    assert run("cluster", "remove", 4).out == "Removed broker 4\n"
    assert run("cluster", "status", "--json").json["brokers"] == [
        {"id": each, "fenced": False} for each in (1, 2, 3)
    ]


def test_a_node_that_is_a_voter_too(cluster, run, tmp_path):
    """A drain can be cancelled. The next one says that the node is a voter."""
    home = tmp_path / "new"
    run("cluster", "add-broker", "-d", home, "--host", "127.0.0.1", "--node-id", 5)
    with Child([*ODRADEK, "serve", "--config", home / "server.properties"], stops=True) as node:
        node.until(lambda: serving(run) == 4)
        assert "is also a voter" in run("cluster", "drain", 3).err
        assert all(3 not in cluster.replicas("orders", each) for each in range(12))
        assert run("cluster", "drain", 3, "--cancel", "--json").json["cancelled"] == 0
        run("cluster", "rebalance")
        run("cluster", "drain", 5)
    until(lambda: serving(run) == 3)
    run("cluster", "remove", 5)


def test_most_controllers_are_lost(run, cluster):
    for each in (1, 2):
        cluster.kill(each)
    bootstrap = cluster.nodes[3].bootstrap_servers
    words = ("cluster", "status", "--timeout", "2s")
    until(lambda: invoke(*words, "--json", bootstrap=bootstrap).json["active_controller"] is None)
    outcome = invoke(*words, bootstrap=bootstrap)
    assert outcome.code == 1, outcome
    assert outcome.out.startswith("The cluster does not serve all requests.")
    assert "no active controller" in outcome.out
    assert "A majority of them must run." in outcome.out
    assert "broker 1 does not respond" in outcome.out
    cluster.start(1, 2)
    cluster.wait_until_in_sync()
    assert run("cluster", "status", "--json").json["state"] == "healthy"


def test_a_drain_is_interrupted():
    """A new replica on node 4 cannot fetch from its leader, so its move goes on until Ctrl-C."""
    settings = {"broker.session.timeout.ms": 600_000}
    with Cluster(4, topics={"orders": 8}, settings=settings) as cluster:
        held = next(each for each in range(8) if 4 not in cluster.replicas("orders", each))
        leader = next(each for each in (1, 2, 3) if each != cluster.controller())
        cluster.move_leader("orders", held, leader)
        cluster.partition(leader, 4)
        before = cluster.replicas("orders", held)
        words = ["cluster", "drain", str(before[1])]
        words += ["-b", cluster.nodes[before[1]].bootstrap_servers]
        with Child([*ODRADEK, *words]) as process:
            process.until(lambda: 4 in cluster.replicas("orders", held))
            process.signal(signal.SIGINT)
            assert process.wait() == 130, process.last_words
            assert re.search(r"Cancelled [1-9] moves? in progress", process.output)
        until(lambda: sorted(cluster.replicas("orders", held)) == sorted(before))
