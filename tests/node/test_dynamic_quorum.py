"""Clusters whose voters are in the log: formatted with their first controllers, then changed."""

import asyncio

import pytest
from tests.cli.conftest import invoke
from tests.raft.requests import ask

from odradek.broker.raft.metadata_log import METADATA_PARTITION
from odradek.broker.raft.snapshots import STARTING, read_snapshot
from odradek.config.properties import parse_properties
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.model import uuids
from odradek.model.errors import ErrorCode
from odradek.node.format import FormatError
from odradek.node.node import Node
from odradek.wire.generated.add_raft_voter_request import AddRaftVoterRequest, Listener
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.remove_raft_voter_request import RemoveRaftVoterRequest

from .cluster import CLUSTER_ID, Cluster

QUICK = {"controller_quorum_fetch_timeout_ms": "800"}
"""A controller that is not a voter joins after this time. A fetch waits for up to 500 ms."""


def run(test):
    def runner(tmp_path):
        asyncio.run(test(tmp_path))

    runner.__name__ = test.__name__
    return runner


class DynamicCluster(Cluster):
    """The nodes find the quorum with the addresses of `servers`, which are node ids."""

    def __init__(self, path, roles, servers, **settings):
        super().__init__(path, roles, **settings)
        addresses = (f"127.0.0.1:{self.controller_ports[each]}" for each in servers)
        self.settings["controller.quorum.voters"] = ""
        self.settings["controller.quorum.bootstrap.servers"] = ",".join(addresses)

    def format(self, node_id, *options):
        """Run `odradek format`; return the id of the directory."""
        static = self.config(node_id).layers.static
        file = self.path / f"{node_id}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in static.items()))
        outcome = invoke("format", "--config", file, "-t", CLUSTER_ID, *options)
        assert outcome.code == 0, outcome.err
        properties = (self.path / str(node_id) / "meta.properties").read_bytes()
        return uuids.from_text(parse_properties(properties)["directory.id"])

    def voters_known_by(self, node_id):
        return sorted(self.nodes[node_id]._metadata.raft.settings.voters.voters)

    async def until_voters_are(self, *ids):
        await self.until(
            lambda: all(self.voters_known_by(each) == sorted(ids) for each in self.nodes)
        )

    async def until_registered(self, *ids):
        await self.until(
            lambda: all(
                set(each._metadata.loader.image.cluster.controllers) == set(ids)
                for each in self.nodes.values()
            )
        )

    async def stop_all(self):
        brokers = [each.config.node_id for each in self.brokers()]
        await self.stop(*brokers)
        await self.stop(*self.nodes)


async def remove(port, node_id, directory_id):
    """Ask until the voters' last change, which each node knows before it is committed, is over."""
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id
    )
    while (answer := await ask(port, request)).error_code == ErrorCode.REQUEST_TIMED_OUT:
        await asyncio.sleep(0.05)
    assert answer.error_code == 0


@pytest.mark.cluster
@run
@pytest.mark.slow("controllers join and leave a quorum of processes")
async def test_a_controller_is_added_and_another_removed_while_a_broker_works(tmp_path):
    roles = {**dict.fromkeys((1, 2, 3, 4), "controller"), 11: "broker"}
    nodes = DynamicCluster(tmp_path, roles, servers=(1, 2), **QUICK)
    directories = {each: uuids.make(system_random_bytes(16)) for each in (1, 2, 3)}
    initial = ",".join(
        f"{each}@127.0.0.1:{nodes.controller_ports[each]}:{uuids.to_text(directory)}"
        for each, directory in directories.items()
    )
    for each, directory in directories.items():
        assert nodes.format(each, "--initial-controllers", initial) == directory
    path = f"{tmp_path}/1/{METADATA_PARTITION}/{STARTING.name}"
    first = read_snapshot(OsFileSystem(), path).settings
    assert (first.kraft_version, sorted(first.voters.voters)) == (1, [1, 2, 3])
    directories[4] = nodes.format(4, "--no-initial-controllers")
    nodes.format(11)
    await nodes.start(1, 2, 3, 11)
    try:
        await nodes.until_registered(1, 2, 3)
        await nodes.create(11, "a")
        await nodes.produce("a", [b"1"])

        await nodes.start(4)
        await nodes.until_registered(1, 2, 3, 4)
        endpoint = nodes.nodes[4].config.advertised_controller_listeners[0]
        add = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=30_000,
            voter_id=4,
            voter_directory_id=directories[4],
            listeners=[Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
        )
        assert (await ask(nodes.ports[11], add)).error_code == 0
        await nodes.until_voters_are(1, 2, 3, 4)
        active = await nodes.active()
        await remove(nodes.ports[11], active, directories[active])
        left = {1, 2, 3, 4} - {active}
        await nodes.until_voters_are(*left)
        await nodes.stop(active)
        assert await nodes.active() in left
        await nodes.create(11, "b")
        await nodes.produce("a", [b"2"])
        assert await nodes.consume("a", 2, "readers") == [b"1", b"2"]

        await nodes.stop(11)
        await nodes.start(11)
        await nodes.create(11, "c")
        port = nodes.controller_ports[4]
        told = await ask(port, DescribeClusterRequest(endpoint_type=2))
        assert {each.broker_id: each.port for each in told.brokers} == nodes.controller_ports
        assert told.controller_id in left
    finally:
        await nodes.stop_all()


@pytest.mark.cluster
@run
async def test_a_node_with_both_roles_grows_and_gives_up_its_vote(tmp_path):
    roles = {1: "broker,controller", 2: "controller"}
    nodes = DynamicCluster(tmp_path, roles, servers=(1,), **QUICK)
    await nodes.start(1)  # it names no other controller, so it formats its directory
    try:
        await nodes.create(1, "a")
        await nodes.produce("a", [b"1"])
        first = nodes.nodes[1].identity.directory_ids[str(tmp_path / "1")]
        nodes.settings["controller.quorum.auto.join.enable"] = "true"
        with pytest.raises(FormatError, match="joins a cluster"):
            await Node(nodes.config(2)).start()
        nodes.format(2, "-N")
        await nodes.start(2)
        del nodes.settings["controller.quorum.auto.join.enable"]
        await nodes.until_voters_are(1, 2)
        await remove(nodes.ports[1], 1, first)
        await nodes.until(lambda: nodes.nodes[2].controller.is_active)
        await nodes.until_voters_are(2)
        await nodes.create(1, "b")
        await nodes.produce("b", [b"2"])
        await nodes.stop(1)
        await nodes.start(1)  # an observer now
        await nodes.create(1, "c")
        assert await nodes.consume("a", 1, "readers") == [b"1"]
    finally:
        await nodes.stop_all()
