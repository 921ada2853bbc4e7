"""Clusters with the files of `odradek secure`: TLS, SASL and ACLs everywhere."""

import contextlib
import socket
import ssl

from tests.cli.conftest import invoke
from tests.node.cluster import SETTINGS, Cluster

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster as Client
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.config.load import load
from odradek.config.properties import parse_properties
from odradek.model.config_resource import ResourceType


class SecureCluster(Cluster):
    """Controllers also require certificates of their clients."""

    def __init__(self, path, roles, **settings):
        super().__init__(path, roles, **settings)
        self.directory = self.authority("first")
        self.client_settings = self._properties("librdkafka.properties")
        del self.client_settings["bootstrap.servers"]
        self.client_trust = path / "clients-ca.pem"
        self.client_settings["ssl.ca.location"] = str(self.client_trust)
        self.trust(self.directory / "ca.pem", by=self.client_trust)

    def authority(self, name):
        """A directory with an authority and the certificates of all nodes."""
        nodes = (f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())
        options = (word for each in nodes for word in ("--node", each))
        made = invoke("secure", "init", self.path / name, *options)
        assert made.code == 0, made.err
        return self.path / name

    def _properties(self, name):
        return parse_properties((self.directory / name).read_bytes())

    def config(self, node_id):
        listeners = [f"SASL_SSL://127.0.0.1:{self.ports[node_id]}"]
        if node_id in self.controller_ports:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        settings = {
            **SETTINGS,
            **self._properties(f"server-{node_id}.properties"),
            "process.roles": self.roles[node_id],
            "listeners": ",".join(listeners),
            "controller.quorum.voters": self.voters,
            "listener.name.controller.ssl.client.auth": "required",
            "offsets.topic.replication.factor": str(self.broker_count),
            **self.settings,
        }
        loaded = load(settings, {})
        assert loaded.warnings == ()
        return loaded.config

    # -- certificates -------------------------------------------------------------------------

    def trust(self, *authorities, by=None):
        """Let nodes, or clients, trust only these authorities."""
        data = b"".join(each.read_bytes() for each in authorities)
        self._replace(by or self.directory / "ca.pem", data)

    def use_certificate(self, node_id, authority):
        self._replace(self.key_file(node_id), (authority / f"node-{node_id}.pem").read_bytes())

    def key_file(self, node_id):
        return self.directory / f"node-{node_id}.pem"

    def _replace(self, file, data):
        temporary = file.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(file)

    def read_files_again(self, *ids):
        """Let brokers read keys and certificates again, as an administrator does."""
        with self.client() as client:
            for each in ids:
                broker = Resource(ResourceType.BROKER, str(each))
                changes = [
                    Change(f"listener.name.{name}.ssl.keystore.location", str(self.key_file(each)))
                    for name in ("sasl_ssl", "controller")
                ]
                done = alter_configs(client, {broker: changes})
                assert done == {broker: None}, done

    def served_certificates(self, node_id):
        """The certificates at the ports of a node."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.key_file(node_id))
        certificates = set()
        for port in (self.ports[node_id], self.controller_ports[node_id]):
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
            ):
                certificates.add(encrypted.getpeercert(binary_form=True))
        return certificates

    # -- clients ------------------------------------------------------------------------------

    def client(self):
        """Our own client, as the super user."""
        security = parse_security(self.client_settings)
        return Client(self.bootstrap, security=security, timeout_ms=60_000)

    def create_topic(self, name, **attributes):
        with self.client() as client:
            (made,) = create_topics(client, [NewTopic(name, **attributes)]).values()
        if isinstance(made, ClientError):
            raise made


@contextlib.asynccontextmanager
async def secure_cluster(path, roles, **settings):
    made = SecureCluster(path, roles, **settings)
    await made.start(*roles)
    try:
        yield made
    finally:
        await made.stop(*[each.config.node_id for each in made.brokers()])
        await made.stop(*made.nodes)
