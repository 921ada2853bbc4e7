"""Other clients authenticate, and change credentials. `compat.logins` has more logins."""

import logging
import subprocess

import pytest
from compat.lab import java
from compat.lab.maven import kafka_jars
from compat.lab.toolchain import Missing
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer

from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord


def options(ports, mechanism, user, password):
    return {
        "bootstrap.servers": f"127.0.0.1:{ports['CLIENT']}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


@pytest.fixture(scope="module")
def scram(broker):
    """Credentials of carol for both mechanisms, set with the client for administrators."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("carol", info, b"carol, secret=", b"salt" * 5)
        admin.alter_user_scram_credentials([change])["carol"].result(20)
    return admin


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "alice", "alice-secret"),
        ("SCRAM-SHA-256", "carol", "carol, secret="),
        ("SCRAM-SHA-512", "carol", "carol, secret="),
    ],
)
def test_librdkafka(ports, scram, mechanism, user, password):
    producer = Producer(options(ports, mechanism, user, password))
    reports = []
    producer.produce("orders", mechanism, on_delivery=lambda error, _: reports.append(error))
    assert producer.flush(20) == 0
    assert reports == [None]
    consumer = Consumer(
        {
            **options(ports, mechanism, user, password),
            "group.id": f"group-{mechanism}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    values = []
    while mechanism.encode() not in values:
        values += [each.value() for each in consumer.consume(10, 0.2)]
    consumer.close()


def test_kafka_python(ports):
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{ports['CLIENT']}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="alice-secret",
    )
    assert producer.send("orders", b"kafka-python").get(20).partition == 0
    producer.close()


def test_credentials_are_described_without_keys_and_deleted(scram):
    change = UserScramCredentialUpsertion(
        "dave", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000), b"dave-secret"
    )
    scram.alter_user_scram_credentials([change])["dave"].result(20)
    described = scram.describe_user_scram_credentials(["dave"])["dave"].result(20)
    (info,) = described.scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 5000)
    deletion = UserScramCredentialDeletion("dave", ScramMechanism.SCRAM_SHA_256)
    scram.alter_user_scram_credentials([deletion])["dave"].result(20)
    with pytest.raises(KafkaException, match="does not exist: dave"):
        scram.describe_user_scram_credentials(["dave"])["dave"].result(20)
    with pytest.raises(KafkaException, match="Attempt to delete a user credential"):
        scram.alter_user_scram_credentials([deletion])["dave"].result(20)


def test_a_password_is_nowhere_in_the_log_and_in_its_messages(scram, broker, caplog):
    with caplog.at_level(logging.DEBUG):
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion("erin", info, b"swordfish", b"salt")
        scram.alter_user_scram_credentials([change])["erin"].result(20)
    assert "swordfish" not in caplog.text
    record = broker.node.broker.metadata.image.scram[1, "erin"]
    assert set(record._fields) < set(UserScramCredentialRecord.__slots__)
    with open(f"{broker.data}/__cluster_metadata-0/00000000000000000000.log", "rb") as file:
        content = file.read()
    assert record.stored_key in content
    assert b"swordfish" not in content


@pytest.mark.java
def test_apache_kafkas_tool(ports, broker, tmp_path):
    try:
        command = java.command(
            "kafka.admin.ConfigCommand",
            kafka_jars(),
            options=["-XX:TieredStopAtLevel=1"],
        )
    except Missing as reason:
        pytest.skip(str(reason))
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="bob" password="bob-secret";\n'
    )
    words = (
        f"--bootstrap-server 127.0.0.1:{ports['CLIENT']} --command-config {file} --alter "
        "--entity-type users --entity-name frank --add-config SCRAM-SHA-512=[password=frank]"
    )
    run = subprocess.run(
        [*command, *words.split()], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert (2, "frank") in broker.node.broker.metadata.image.scram
