"""Clusters whose nodes use TLS, SASL and ACLs among themselves."""

import asyncio

from .secured import secure_cluster

TWO = {1: "broker,controller", 2: "broker"}


def run(test):
    def runner(tmp_path):
        asyncio.run(test(tmp_path))

    runner.__name__ = test.__name__
    return runner


@run
async def test_nodes_replicate_over_sasl_ssl(tmp_path):
    async with secure_cluster(tmp_path, TWO) as nodes:
        await asyncio.to_thread(nodes.create_topic, "a", partitions=2, replication_factor=2)
        await nodes.produce("a", [b"%d" % each for each in range(50)])
        for index in range(2):
            assert sorted(nodes.partition(1, "a", index).isr) == [1, 2]
        assert max(await nodes.consume("a", 50, "readers"), key=int) == b"49"
