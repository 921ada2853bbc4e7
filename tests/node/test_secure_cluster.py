"""Clusters whose nodes use TLS, SASL and ACLs among themselves."""

import asyncio
import ssl
import threading

import pytest
from confluent_kafka import Consumer, Producer

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


class Load:
    """Clients that produce and consume until they are told to stop. They count their failures."""

    def __init__(self, nodes):
        self.sent = 0
        self.read = []
        self.failures = []
        self._stopping = threading.Event()
        common = {
            "bootstrap.servers": nodes.bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            **nodes.client_settings,
        }
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 5})
        self._consumer = Consumer(
            {**common, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe(["a"])
        self._threads = [
            threading.Thread(target=self._produce), threading.Thread(target=self._consume),
        ]  # fmt: skip

    def start(self):
        for each in self._threads:
            each.start()

    def stop(self):
        """Wait until all records are written and read."""
        self._stopping.set()
        for each in self._threads:
            each.join()
        self._consumer.close()

    def _produce(self):
        while not self._stopping.wait(0.005):
            self._producer.produce("a", b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(str(error))

    def _consume(self):
        while not self._stopping.is_set() or len(set(self.read)) < self.sent:
            record = self._consumer.poll(0.2)
            if record is None:
                continue
            if record.error() is not None:
                self.failures.append(str(record.error()))
            else:
                self.read.append(int(record.value()))


@pytest.mark.cluster
@run
async def test_certificates_and_their_authority_are_replaced_under_load(tmp_path):
    """First clients and nodes trust both authorities; then the nodes get new certificates; then the old authority
    is not trusted any more. At last each node restarts, so that each connection is a new one."""
    async with secure_cluster(tmp_path, THREE, min_insync_replicas="2") as nodes:
        await asyncio.to_thread(nodes.create_topic, "a", partitions=3, replication_factor=3)
        second = await asyncio.to_thread(nodes.authority, "second")
        old = tmp_path / "old.pem"
        old.write_bytes((nodes.directory / "ca.pem").read_bytes())
        nodes.trust(old, second / "ca.pem", by=nodes.client_trust)
        load = Load(nodes)
        load.start()
        try:
            await nodes.until(lambda: load.read)
            nodes.trust(old, second / "ca.pem")
            await asyncio.to_thread(nodes.read_files_again, 1, 2, 3)
            for each in THREE:
                nodes.use_certificate(each, second)
                expected = _certificate(nodes.key_file(each))
                await asyncio.to_thread(nodes.read_files_again, each)
                served = None
                while served != {expected}:  # the change reaches the node some time later
                    served = await asyncio.to_thread(nodes.served_certificates, each)
            nodes.trust(second / "ca.pem")
            await asyncio.to_thread(nodes.read_files_again, 1, 2, 3)

            for each in THREE:
                sent = load.sent
                await nodes.stop(each)
                await nodes.start(each)
                await nodes.until(
                    lambda: all(len(nodes.partition(1, "a", index).isr) == 3 for index in range(3))
                )
                await nodes.until(lambda sent=sent: load.sent > sent)
        finally:
            await asyncio.to_thread(load.stop)
        assert load.failures == []
        assert sorted(load.read) == list(range(load.sent))


def _certificate(file):
    text = file.read_text()
    begin = text.index("-----BEGIN CERTIFICATE")
    return ssl.PEM_cert_to_DER_cert(
        text[begin : text.index("-----END CERT", begin)] + "-----END CERTIFICATE-----\n"
    )
