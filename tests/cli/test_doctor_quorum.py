"""`odradek doctor` says why the controllers of a configuration refuse the node, or cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

from compat.lab.toolchain import free_port
from tests.cli.conftest import invoke

from odradek.config.load import load
from odradek.node.node import Node

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLUSTER_ID, OTHER_CLUSTER = "4L6g3nShT-eMCtK--X86sw", "zBVAPnO9QN-AkE6CAb8MwQ"


class Pair:
    """The settings of two nodes; the second one runs in a thread."""

    def __init__(self, path, **settings):
        self.path = path
        self.ports = {1: free_port(), 2: free_port()}
        self.settings = {name.replace("_", "."): value for name, value in settings.items()}

    def of(self, node_id):
        voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())
        return {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.path / str(node_id)),
            **self.settings,
        }

    @contextlib.contextmanager
    def running(self, cluster_id):
        """Node 2, which waits for a leader."""
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()

        async def run():
            start = asyncio.ensure_future(
                Node(load(self.of(2), {}).config, cluster_id=cluster_id).start()
            )
            await stop.wait()
            start.cancel()
            await asyncio.wait([start])

        thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
        thread.start()
        try:
            self._wait()
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    def _wait(self):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self.ports[2]), 10).close()
                return

    def doctor(self, code):
        """The problems of node 1, which is formatted and does not run."""
        words = [word for each in self.of(1).items() for word in ("--override", "=".join(each))]
        if not (self.path / "1").exists():
            invoke("format", "--cluster-id", CLUSTER_ID, *words)
        outcome = invoke("doctor", "--json", *words)
        assert outcome.code == code, outcome
        return [(each["severity"], each["what"]) for each in outcome.json["problems"]]


def test_a_node_that_does_not_run_is_worth_a_note(tmp_path):
    pair = Pair(tmp_path)
    where = f"node 2 at 127.0.0.1:{pair.ports[2]}"
    assert pair.doctor(0) == [("note", f"{where} cannot be asked: the connection is refused")]


def test_a_quorum_in_order(tmp_path):
    pair = Pair(tmp_path)
    with pair.running(CLUSTER_ID):
        assert pair.doctor(0) == []


def test_votes_that_will_be_refused(tmp_path):
    pair = Pair(tmp_path, authorizer_class_name=AUTHORIZER, super_users="User:admin")
    with pair.running(CLUSTER_ID):
        found = pair.doctor(1)
    assert found[0] == (
        "broken",
        "the controllers refuse each other's votes: nodes come as User:ANONYMOUS, and super.users is "
        "User:admin",
    )
    severity, text = found[1]
    assert severity == "broken"
    assert text.startswith(
        f"node 2 at 127.0.0.1:{pair.ports[2]} refuses this node's votes and fetches, which come from "
        "User:ANONYMOUS: add it to super.users"
    )


def test_only_super_users_are_let_in(tmp_path):
    pair = Pair(tmp_path, authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS")
    assert [severity for severity, _ in pair.doctor(0)] == ["note"]
    pair.settings = {
        "authorizer.class.name": AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
    }
    (severity, text), _ = pair.doctor(1)
    assert severity == "broken"
    assert text.endswith("nodes come as User:ANONYMOUS, and super.users is not set")


def test_a_node_of_another_cluster(tmp_path):
    pair = Pair(tmp_path)
    with pair.running(OTHER_CLUSTER):
        ((severity, text),) = pair.doctor(1)
    assert severity == "broken"
    assert f"belongs to another cluster, not to {CLUSTER_ID}" in text
