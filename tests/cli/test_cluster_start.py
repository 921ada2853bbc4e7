"""`odradek cluster start`: three processes, one of which is killed."""

from __future__ import annotations

import os
import re
import signal
import socket

import pytest
from compat.lab.wire_client import WireClient
from tests.cli.conftest import invoke
from tests.support.child import ODRADEK, Child

from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_cluster_response import DescribeClusterResponse


def free_base():
    """A port such that the cluster's other ports are free too."""
    for base in range(61_000 + os.getpid() % 20 * 200, 65_000, 10):
        try:
            for each in (*range(base, base + 3), *range(base + 100, base + 103)):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", each))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


def brokers(port):
    try:
        with WireClient(port, timeout=5) as client:
            answer = client.call(
                "DescribeCluster", 0, DescribeClusterRequest(), DescribeClusterResponse
            )
            return sorted(each.broker_id for each in answer.brokers)
    except OSError:
        return []


@pytest.mark.cluster
@pytest.mark.timeout(180)
def test_three_nodes_of_which_one_is_killed(tmp_path):
    base = free_base()
    words = ["cluster", "start", "--data", str(tmp_path / "données"), "--port", str(base)]
    with Child([*ODRADEK, *words], stops=True) as process:
        printed = process.wait_for("Ctrl-C")
        pids = [int(each) for each in re.findall(r"process (\d+)", printed)]
        assert len(pids) == 3, printed
        process.until(lambda: brokers(base) == [1, 2, 3])
        os.kill(pids[1], signal.SIGKILL)
        process.wait_for("node 2 ended (signal 9); started again")
    assert brokers(base) == []


def test_a_busy_port(tmp_path):
    base = free_base()
    with socket.create_server(("127.0.0.1", base)):
        outcome = invoke("cluster", "start", "--data", tmp_path / "c", "--port", base)
    assert outcome.code == 1
    assert f"another process listens on port {base}" in outcome.err
