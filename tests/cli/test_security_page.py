"""The configuration in docs/security.md works as the page says."""

import re
from pathlib import Path

import pytest
from compat.lab.toolchain import free_port
from tests.cli.conftest import invoke
from tests.support.child import ODRADEK, Child

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A directory with the files that the configuration names."""
    directory = tmp_path_factory.mktemp("page") / "keys"
    assert invoke("secure", "init", directory).code == 0
    assert invoke("secure", "user", directory, "billing").code == 0
    return directory


@pytest.fixture(scope="module")
def ports(keys):
    """Runs the node; its ports by listener name."""
    text, _ = re.findall(r"```properties\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ports = {}
    for name, port in re.findall(r"([A-Z]+)://:(\d+)", text):
        ports[name] = free_port()
        text = text.replace(f":{port}", f":{ports[name]}")
    text = text.replace("/etc/odradek", str(keys)).replace("node1.example", "localhost")
    file = keys / "page.properties"
    file.write_text(text.replace("/var/lib/odradek", str(keys / "page-data")))
    admin = "SCRAM-SHA-512=[name=admin,password=admin-secret]"
    assert invoke("doctor", "--config", file).code == 0
    assert invoke("format", "--config", file, "-S", admin).code == 0
    with Child([*ODRADEK, "serve", "--config", file], stops=True) as node:
        node.until(lambda: not as_user(ports, keys, "topic", "list").code)
        yield ports


def as_user(ports, keys, *words, name="admin", password="admin-secret"):
    return with_settings(
        ports["USERS"],
        keys,
        *words,
        **{
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
        },
    )


def as_service(ports, keys, name, *words):
    key = {} if name is None else {"ssl.keystore.location": keys / f"user-{name}.pem"}
    return with_settings(ports["SERVICES"], keys, *words, **{"security.protocol": "SSL"}, **key)


def with_settings(port, keys, *words, **settings):
    settings["ssl.truststore.location"] = keys / "ca.pem"
    options = [each for pair in settings.items() for each in ("-X", "{}={}".format(*pair))]
    return invoke(*words, *options, bootstrap=f"localhost:{port}")


def test_a_user_with_a_password(ports, keys):
    assert as_user(ports, keys, "topic", "create", "orders").code == 0
    refused = as_user(ports, keys, "topic", "list", password="wrong")
    assert refused.code == 1
    assert "authentication failed" in refused.err.lower()


def test_a_service_with_a_certificate(ports, keys):
    assert as_user(ports, keys, "topic", "create", "bills").code == 0
    assert as_service(ports, keys, "billing", "topic", "list", "--quiet").lines == []
    assert as_user(ports, keys, "acl", "add", "billing", "read", "topic:bills").code == 0
    assert as_service(ports, keys, "billing", "topic", "list", "--quiet").lines == ["bills"]
    assert as_service(ports, keys, None, "topic", "list", "--timeout", "2s").code == 1
