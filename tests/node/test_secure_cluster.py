"""Clusters whose nodes use TLS, SASL and ACLs among themselves."""

import asyncio
import os
import ssl

import pytest
from tests.support.progress import report

from .certificate_load import OWN_TOPIC, PARTITIONS, TOPIC, LibrdkafkaLoad, OwnLoad
from .secured import secure_cluster

TWO = {1: "broker,controller", 2: "broker"}
THREE = dict.fromkeys((1, 2, 3), "broker,controller")


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
        principals = {
            connection.peer.principal
            for node in nodes.nodes.values()
            for server in (node.server, *_controller_servers(node))
            for connection in server.connections
        }
        assert "User:node" in principals
        assert principals <= {"User:node", "User:admin"}


def _controller_servers(node):
    return [] if node._controller is None else [node._controller.service.server]


def _changes():
    """How often the authority and all certificates are replaced."""
    return int(os.environ.get("ODRADEK_CERTIFICATE_CHANGES", "1"))


@pytest.mark.cluster
@pytest.mark.timeout(1800)
@run
@pytest.mark.slow("each node gets new certificates under load")
async def test_certificates_and_their_authority_are_replaced_under_load(tmp_path):
    """The clients trust all authorities. First the nodes trust both authorities; then the nodes get new certificates, one node
    after another; then the old authority is not trusted any more. The certificates are in the same files
    as before, or, each second time, in files with other names. At last each node restarts, so that
    each connection is a new one."""
    async with secure_cluster(tmp_path, THREE, min_insync_replicas="2") as nodes:
        for topic in (TOPIC, OWN_TOPIC):
            await asyncio.to_thread(
                nodes.create_topic, topic, partitions=PARTITIONS, replication_factor=3
            )
        authorities = [
            await asyncio.to_thread(nodes.authority, f"authority-{number}")
            for number in range(_changes())
        ]
        # librdkafka reads the file only once.
        trusted = [each / "ca.pem" for each in (nodes.directory, *authorities)]
        nodes.trust(*trusted, by=nodes.client_trust)
        loads = [LibrdkafkaLoad(nodes), OwnLoad(nodes)]
        for each in loads:
            each.start()
        try:
            await nodes.until(lambda: all(each.read or each.failures for each in loads))
            for number, authority in enumerate(authorities):
                await _change_certificates(nodes, number, authority)
                await _progress(nodes, loads)
                report(number + 1, _changes(), "changes of all certificates")
            for each in THREE:
                await nodes.stop(each)
                await nodes.start(each)
                await nodes.until(lambda: _are_in_sync(nodes))
                await _progress(nodes, loads)
        finally:
            for each in loads:
                await asyncio.to_thread(each.stop)
        for each in loads:
            each.check()


async def _change_certificates(nodes, number, new):
    old = nodes.path / f"old-{number}.pem"
    old.write_bytes((nodes.directory / "ca.pem").read_bytes())
    nodes.trust(old, new / "ca.pem")
    await asyncio.to_thread(nodes.read_files_again, *THREE)
    for each in THREE:
        if number % 2:
            nodes.use_key_file(each, new)
        else:
            nodes.use_certificate(each, new)
        await asyncio.to_thread(nodes.read_files_again, each)
        await _served(nodes, each)
    nodes.trust(new / "ca.pem")
    await asyncio.to_thread(nodes.read_files_again, *THREE)


async def _served(nodes, node_id):
    """Wait until a node has its new certificate: the change reaches it some time later."""
    expected = _certificate(nodes.key_file(node_id))
    while await asyncio.to_thread(nodes.served_certificates, node_id) != {expected}:
        await asyncio.sleep(0.01)


async def _progress(nodes, loads):
    """Wait until all clients have written and read more."""
    counts = [(each.sent, len(each.read)) for each in loads]
    await nodes.until(
        lambda: all(
            each.failures or (each.sent > sent and len(each.read) > read)
            for each, (sent, read) in zip(loads, counts, strict=True)
        )
    )


def _are_in_sync(nodes):
    return all(
        len(nodes.partition(1, topic, index).isr) == 3
        for topic in (TOPIC, OWN_TOPIC)
        for index in range(PARTITIONS)
    )


@pytest.mark.cluster
@run
async def test_a_node_that_is_only_a_controller_gets_another_certificate(tmp_path):
    async with secure_cluster(tmp_path, {1: "controller", 2: "broker"}) as nodes:
        second = await asyncio.to_thread(nodes.authority, "second")
        trusted = tmp_path / "first.pem"
        trusted.write_bytes((nodes.directory / "ca.pem").read_bytes())
        nodes.trust(trusted, second / "ca.pem", by=nodes.client_trust)
        nodes.trust(trusted, second / "ca.pem")
        await asyncio.to_thread(nodes.read_files_again, 1, 2)
        for each in (1, 2):
            nodes.use_key_file(each, second)
            await asyncio.to_thread(nodes.read_files_again, each)
            await _served(nodes, each)


def _certificate(file):
    text = file.read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    return ssl.PEM_cert_to_DER_cert(
        text[begin : text.index("-----END CERT", begin)] + "-----END CERTIFICATE-----\n"
    )
