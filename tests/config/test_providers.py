"""Variables in configuration files, and logins in files of Java's JAAS."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.client.security import read_client_properties
from odradek.config.checks import ConfigurationError
from odradek.config.jaas import LoginModule, format_login_module, parse_login_module
from odradek.config.load import load, shown
from odradek.config.providers import resolve

CLASSES = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{CLASSES}FileConfigProvider",
    "config.providers.dir.class": f"{CLASSES}DirectoryConfigProvider",
    "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text("word=one-two\nrack:a\n")
    (tmp_path / "word").write_text("three\n")
    return tmp_path


def test_variables_are_replaced(secrets: Path) -> None:
    text = f"<${{file:{secrets}/secrets.properties:word}}|${{dir:{secrets}:word}}|${{env:RACK}}>"
    found = resolve({**PROVIDERS, "broker.rack": text}, {"RACK": "${env:OTHER}"})
    assert found == {**PROVIDERS, "broker.rack": "<one-two|three\n|${env:OTHER}>"}


def test_variables_of_other_providers_stay() -> None:
    settings = {**PROVIDERS, "broker.rack": "${vault:a:b} ${env} $x {y}"}
    assert resolve(settings, {}) == settings
    assert resolve({"broker.rack": "${env:RACK}"}, {"RACK": "a"}) == {"broker.rack": "${env:RACK}"}


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ("${file:%s/secrets.properties:absent}", "the file has no such key"),
        ("${file:%s/absent:word}", "the file cannot be read: No such file"),
        ("${file:/etc/passwd:word}", "not among allowed.paths"),
        ("${file:%s/../passwd:word}", "not among allowed.paths"),
        ("${file:word}", "names no file"),
        ("${dir:%s:absent}", "cannot be read"),
        ("${dir:%s:../word}", "must be the name of a file"),
        ("${env:ABSENT}", "no such environment variable"),
        ("${env:path:RACK}", "has no path"),
        ("${env:HOME}", "does not match allowlist.pattern"),
    ],
)
def test_a_variable_without_a_value_is_an_error(secrets: Path, variable: str, problem: str) -> None:
    settings = {
        **PROVIDERS,
        "config.providers.file.param.allowed.paths": f"/nowhere,{secrets}",
        "config.providers.env.param.allowlist.pattern": "[A-GI-Z]+",
        "ssl.key.password": variable.replace("%s", str(secrets)),
    }
    with pytest.raises(ConfigurationError, match=r"^ssl\.key\.password: ") as error:
        resolve(settings, {"RACK": "a", "HOME": "b"})
    assert problem in str(error.value)


def test_other_classes_are_refused() -> None:
    settings = {"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"}
    with pytest.raises(ConfigurationError, match=r"set config\.providers\.vault\.class to"):
        resolve(settings, {})


def test_a_node_and_a_client_read_variables(secrets: Path) -> None:
    variable = f"${{file:{secrets}/secrets.properties:word}}"
    file = {**PROVIDERS, "ssl.key.password": variable, "broker.rack": variable}
    config, warnings = load(file, {})
    assert (config.broker_rack, warnings) == ("one-two", ())
    assert shown(config)["ssl.key.password"] == "[hidden]"
    client = secrets / "client.properties"
    lines = [f"{name}={value}" for name, value in {**PROVIDERS, "sasl.password": variable}.items()]
    client.write_text("\n".join(lines))
    assert read_client_properties(client)["sasl.password"] == "one-two"


SECTIONS = f"""
// the logins of a broker
users.KafkaServer {{ {PLAIN} required user_alice="a{{b" user_bob='x\\\\"y'; }};
KafkaServer {{
    {SCRAM} required username="node" password="secret";
    {PLAIN} requisite username="node" password="other";
    com.example.Other optional debug=true;
}};
KafkaClient {{ {PLAIN} required username=c password=d; }};
"""
LISTENERS = {
    "listeners": "USERS://127.0.0.1:9092,NODES://127.0.0.1:9093,CONTROLLER://127.0.0.1:9094",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9094",
    "listener.security.protocol.map": "USERS:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.sasl.enabled.mechanisms": "SCRAM-SHA-256",
}


def _options(file: Path) -> dict[str, str]:
    return {"KAFKA_OPTS": f"-Xmx1g '-Djava.security.auth.login.config={file}' -Dx=y"}


def test_logins_are_read_from_a_file_of_java(tmp_path: Path) -> None:
    file = tmp_path / "kafka server.conf"
    file.write_text(SECTIONS)
    given = {"listener.name.nodes.plain.sasl.jaas.config": f"{PLAIN} required user_x=y;"}
    config, warnings = load({**LISTENERS, **given}, {}, environment=_options(file))
    effective = config.layers.effective

    def module(listener: str, mechanism: str) -> LoginModule:
        name = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
        return parse_login_module(name, effective[name])

    assert not warnings
    assert module("users", "plain").users == {"alice": "a{b", "bob": 'x\\"y'}
    assert module("nodes", "plain").users == {"x": "y"}
    assert module("nodes", "scram-sha-256").options == {"username": "node", "password": "secret"}
    assert module("controller", "scram-sha-512") == module("nodes", "scram-sha-256")
    assert "listener.name.users.scram-sha-256.sasl.jaas.config" not in effective
    assert "secret" not in str(shown(config))


def test_a_node_without_sasl_reads_no_file_of_java(tmp_path: Path) -> None:
    load({}, {}, environment=_options(tmp_path / "absent"))


@pytest.mark.parametrize(
    "text",
    [
        "KafkaServer",
        "KafkaServer {",
        f"KafkaServer {{ {PLAIN} required secret=1; }}",
        f"KafkaServer {{ {PLAIN} required secret=1 }};",
        f"{{ {PLAIN} required secret=1; }};",
        None,
    ],
)
def test_a_malformed_file_of_java_is_an_error(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"jaas\.conf") as error:
        load(LISTENERS, {}, environment=_options(file))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("value", ["", "a b", 'a"b', "a\\", "a\nb", "ü;={}"])
def test_a_login_module_is_written_as_it_is_read(value: str) -> None:
    module = LoginModule(SCRAM, {"username": "x", "password": value})
    assert parse_login_module("x", format_login_module(module)) == module
