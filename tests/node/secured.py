"""Clusters whose nodes use TLS, SASL and ACLs, also among themselves."""

import contextlib
import socket
import ssl

from tests.node.cluster import Cluster
from tests.tls.conftest import Authority

from odradek.client.admin.configs import Change, Resource, alter_configs
from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster as Client
from odradek.client.errors import ClientError
from odradek.client.security import parse_security
from odradek.model.config_resource import ResourceType

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="node-secret" user_node="node-secret" user_alice="alice-secret";'
)


class SecureCluster(Cluster):
    """Each listener has the protocol SASL_SSL. The nodes are the super user `User:node`."""

    listener = "CLIENTS"

    def __init__(self, path, roles, **settings):
        super().__init__(path, roles, **settings)
        self.authority = Authority(self._directory("first"), "first authority")
        self.trust_file = path / "trust.pem"
        self.trust(self.authority)
        for each in roles:
            self.certify(each, self.authority)
        self.client_settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "node",
            "sasl.password": "node-secret",
            "ssl.ca.location": str(self.trust_file),
        }

    def _directory(self, name):
        made = self.path / name
        made.mkdir()
        return made

    def new_authority(self, name):
        return Authority(self._directory(name), f"{name} authority")

    def trust(self, *authorities):
        text = "".join(each.certificate.read_text() for each in authorities)
        self._replace(self.trust_file, text)

    def certify(self, node_id, authority):
        """Give a node a new key with a certificate of this authority."""
        made = authority.issue(f"/O=example/CN=node-{node_id}")
        self._replace(self.key_file(node_id), made.read_text())

    def key_file(self, node_id):
        return self.path / f"node-{node_id}.pem"

    def _replace(self, file, text):
        temporary = file.with_suffix(".new")
        temporary.write_text(text)
        temporary.rename(file)

    def listener_settings(self, node_id):
        def prefixed(listener, settings):
            return {f"listener.name.{listener}.{name}": each for name, each in settings.items()}

        both = {
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": JAAS,
            "ssl.keystore.location": str(self.key_file(node_id)),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(self.trust_file),
            "ssl.truststore.type": "PEM",
        }
        return {
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "CLIENTS",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:node",
            **prefixed("clients", both),
            **prefixed("controller", {**both, "ssl.client.auth": "required"}),
        }

    def client(self, **changes):
        """Our own client."""
        changed = {name.replace("_", "."): each for name, each in changes.items()}
        security = parse_security({**self.client_settings, **changed})
        return Client(self.bootstrap, security=security, timeout_ms=60_000)

    def create_topic(self, name, **attributes):
        with self.client() as client:
            (made,) = create_topics(client, [NewTopic(name, **attributes)]).values()
        if isinstance(made, ClientError):
            raise made

    def read_files_again(self):
        """Let the brokers read keys and certificates again, as an administrator does."""
        with self.client() as client:
            for each in self.brokers():
                node_id = each.config.node_id
                broker = Resource(ResourceType.BROKER, str(node_id))
                changes = [
                    Change(
                        f"listener.name.{listener}.ssl.keystore.location",
                        str(self.key_file(node_id)),
                    )
                    for listener in ("clients", "controller")
                ]
                assert alter_configs(client, {broker: changes}) == {broker: None}

    def served_issuer(self, port):
        """The name of the authority that has issued the certificate at a port."""
        context = ssl.create_default_context(cafile=str(self.trust_file))
        context.load_cert_chain(self.key_file(next(iter(self.ports))))
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
        ):
            issuer = dict(pair for part in encrypted.getpeercert()["issuer"] for pair in part)
        return issuer["commonName"]


@contextlib.asynccontextmanager
async def secure_cluster(path, roles, **settings):
    made = SecureCluster(path, roles, **settings)
    await made.start(*roles)
    try:
        yield made
    finally:
        await made.stop(*[each.config.node_id for each in made.brokers()])
        await made.stop(*made.nodes)
