"""Apache Kafka's kafka-metadata-quorum against a quorum of our controllers."""

import asyncio

import pytest
from compat.lab.toolchain import Missing
from compat.tools.workbench import Workbench

from odradek.model import uuids

from .test_dynamic_quorum import DynamicCluster

pytestmark = [pytest.mark.java, pytest.mark.cluster]


def test_voters_are_described_added_and_removed(tmp_path):
    try:
        bench = Workbench(None, tmp_path)
    except Missing as reason:
        pytest.skip(str(reason))
    with bench:
        asyncio.run(check(tmp_path, bench))


async def check(path, bench):
    async def tool(address, *words):
        return await asyncio.to_thread(
            bench.tool, "MetadataQuorumCommand", *address, *words, bootstrap=False
        )

    nodes = DynamicCluster(path, {1: "broker,controller", 2: "controller"}, servers=(1,))
    await nodes.start(1)
    try:
        nodes.format(2, "--no-initial-controllers")
        await nodes.start(2)
        await nodes.until_registered(1, 2)
        broker = ("--bootstrap-server", f"127.0.0.1:{nodes.ports[1]}")
        controllers = ("--bootstrap-controller", f"127.0.0.1:{nodes.controller_ports[2]}")
        first, second = (
            uuids.to_text(nodes.nodes[each].identity.directory_ids[str(path / str(each))])
            for each in (1, 2)
        )
        replication = await tool(broker, "describe", "--replication")
        replication.says(rf"^1\s+{first}\s.*Leader", rf"^2\s+{second}\s.*Observer")

        file = str(path / "2.properties")
        added = await tool(broker, "--command-config", file, "add-controller")
        added.says(rf"Added controller 2 with directory id {second}")
        await nodes.until_voters_are(1, 2)
        status = await tool(controllers, "describe", "--status")
        status.says(r"^LeaderId: +1$", r'^CurrentVoters: .*"id": 1.*"id": 2')

        words = ("--controller-id", "1", "--controller-directory-id", first)
        removed = await tool(broker, "remove-controller", *words)
        removed.says(rf"Removed +KRaft controller 1 with directory id {first}")
        await nodes.until_voters_are(2)
        await nodes.until(lambda: nodes.nodes[2].controller.is_active)
        again = await asyncio.to_thread(
            bench.try_tool, "MetadataQuorumCommand", *broker, "remove-controller", *words,
            bootstrap=False,
        )  # fmt: skip
        assert again.code == 1
        assert "VoterNotFoundException" in again.err + again.out or "not a voter" in again.err
        replication = await tool(controllers, "describe", "--replication")
        replication.says(rf"^2\s+{second}\s.*Leader", rf"^1\s+{first}\s.*Observer")
    finally:
        await nodes.stop_all()
