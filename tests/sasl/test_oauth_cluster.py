"""A cluster whose nodes log in to each other with access tokens that live for seconds."""

import json
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.model.principal import ANONYMOUS
from odradek.testing import Cluster

from . import issuer
from .test_oauth_listener import MODULE

pytestmark = pytest.mark.cluster

LIFETIME_S = 2
KEY = issuer.ec_key(kid="first")


def token(sub, lifetime_s):
    now_s = int(time.time())
    claims = {"sub": sub, "iat": now_s, "exp": now_s + lifetime_s}
    return issuer.signed(KEY, {"alg": "ES256", "kid": "first"}, claims)


def settings(url):
    jaas = f"{MODULE} required;"
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": jaas,
        "listener.name.controller.oauthbearer.sasl.jaas.config": jaas,
        "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
        "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
        "sasl.oauthbearer.client.credentials.client.id": "node",
        "sasl.oauthbearer.client.credentials.client.secret": "hush",
        "offsets.topic.replication.factor": "3",
        "connection.failed.authentication.delay.ms": "1",
    }


def test_nodes_replace_their_tokens(caplog):
    asked = []

    def answer(headers, body):
        asked.append(headers["Authorization"])
        return 200, json.dumps({"access_token": token("node", LIFETIME_S)})

    with issuer.Endpoint() as endpoint:
        endpoint.documents |= {"/keys": issuer.key_set(KEY), "/token": answer}
        with Cluster(settings=settings(endpoint.url)) as cluster:
            client = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda config: (token("alice", 600), time.time() + 600),
                "log_level": 0,
            }
            admin = AdminClient(client)
            admin.poll(0.1)  # the client gets its token
            topic = NewTopic("orders", num_partitions=3, replication_factor=3)
            admin.create_topics([topic])["orders"].result(30)
            producer, errors = Producer({**client, "acks": "all"}), []
            sent, begun = 0, len(asked)
            while len(asked) < begun + 6 or sent < 100:  # the nodes have replaced their tokens
                producer.produce(
                    "orders", b"%d" % sent, on_delivery=lambda error, _: errors.append(error)
                )
                sent += 1
                producer.poll(0.05)
            assert producer.flush(60) == 0
            assert set(errors) == {None}
            consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            read = set()
            while len(read) < sent:
                record = consumer.poll(1)
                if record is not None and record.error() is None:
                    read.add(int(record.value()))
            consumer.close()
            principals = {
                connection.peer.principal
                for node in cluster.nodes.values()
                for connection in list(node.node.server.connections)
            }
            # A connection that replaces another one may not be authenticated yet.
            assert principals - {ANONYMOUS} == {"User:node", "User:alice"}
    assert "hush" not in caplog.text
    assert len(set(asked)) == 1
