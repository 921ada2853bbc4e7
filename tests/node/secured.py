"""Clusters with the files of `odradek secure`: TLS, SASL and ACLs everywhere."""

import contextlib
import re
import socket
import ssl

from tests.cli.conftest import invoke
from tests.node.cluster import SETTINGS, Cluster, free_ports

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster as Client
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.config.load import load
from odradek.config.properties import parse_properties
from odradek.model.config_resource import ResourceType
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)


class SecureCluster(Cluster):
    """Controllers also require certificates of their clients."""

    def __init__(self, path, roles, **settings):
        super().__init__(path, roles, **settings)
        # `odradek secure init` wants the port after each for its controller.
        self.ports = dict(zip(roles, free_ports(2 * len(roles))[::2], strict=True))
        self._key_files = {}
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
        listeners = []
        if "broker" in self.roles[node_id]:
            listeners.append(f"SASL_SSL://127.0.0.1:{self.ports[node_id]}")
        if node_id in self.controller_ports:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        properties = self._properties(f"server-{node_id}.properties")
        if "broker" not in self.roles[node_id]:
            properties.pop("advertised.listeners", None)
        settings = {
            **SETTINGS,
            **properties,
            "ssl.keystore.location": str(self.key_file(node_id)),
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

    def use_key_file(self, node_id, authority):
        """Let a node use a file of another name, from the next `read_files_again` on."""
        self._key_files[node_id] = authority / f"node-{node_id}.pem"

    def key_file(self, node_id):
        return self._key_files.get(node_id, self.directory / f"node-{node_id}.pem")

    def _replace(self, file, data):
        temporary = file.with_suffix(".new")
        temporary.write_bytes(data)
        temporary.replace(file)

    def read_files_again(self, *ids):
        """Let nodes read keys and certificates again, as an administrator does."""
        with self.client() as client:
            for each in ids:
                broker = Resource(ResourceType.BROKER, str(each))
                if each in self._broker_ports:
                    done = alter_configs(client, {broker: self._key_changes(each)})
                    assert done == {broker: None}, done
                else:
                    self._change_controller(each)

    def _key_changes(self, node_id):
        both = (("sasl_ssl", self._broker_ports), ("controller", self.controller_ports))
        return [
            Change(f"listener.name.{name}.ssl.keystore.location", str(self.key_file(node_id)))
            for name, ports in both
            if node_id in ports
        ]

    def _change_controller(self, node_id):
        """As `kafka-configs --bootstrap-controller`, as a node with its certificate."""
        key_file = str(self.directory / "node-2.pem")
        text = (self.directory / "server-2.properties").read_text()
        settings = {
            "ssl.certificate.location": key_file,
            "ssl.key.location": key_file,
            "sasl.username": "node",
            "sasl.password": re.search(r'username="node" password="([^"]+)"', text)[1],
        }
        changes = [
            AlterableConfig(name=each.name, config_operation=each.operation, value=each.value)
            for each in self._key_changes(node_id)
        ]
        resource = AlterConfigsResource(
            resource_type=ResourceType.BROKER, resource_name=str(node_id), configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        address = f"127.0.0.1:{self.controller_ports[node_id]}"
        security = parse_security({**self.client_settings, **settings})
        with Client(address, security=security) as client:
            response = client.any().request(request, IncrementalAlterConfigsResponse, 60_000)
        assert [each.error_code for each in response.responses] == [0]

    @property
    def _broker_ports(self):
        return {each: port for each, port in self.ports.items() if "broker" in self.roles[each]}

    def served_certificates(self, node_id):
        """The certificates at the ports of a node."""
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        context.load_cert_chain(self.key_file(node_id))
        certificates = set()
        both = (self._broker_ports, self.controller_ports)
        for port in (ports[node_id] for ports in both if node_id in ports):
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
