"""The command line without the libraries of the extras, which are hidden from a child process."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import packages_distributions

import pytest
from tests.checkout import ROOT
from tests.support.child import PYTHON, Child

HIDDEN_TOO = {"google.protobuf", "grpc", "py4j"}
"""Modules of packages that extras need through others, and of a package that others share."""
SERVE = ("--override", "node.id=1", "--override", "process.roles=broker,controller")


def modules_of_extras() -> set[str]:
    """The modules of the packages that only extras need, as far as they are installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        re.split(r"[^\w-]", each, maxsplit=1)[0].lower()
        for extra, requirements in extras.items()
        if extra != "dev"
        for each in requirements
    } - {"odradek"}
    installed = packages_distributions()
    found = {
        module
        for module, packages in installed.items()
        if any(each.lower() in wanted for each in packages)
    }
    return found - {"google"} | HIDDEN_TOO


@pytest.fixture(scope="module")
def run():
    """Runs command lines in one process, in which no extra is installed."""
    command = [*PYTHON, "tests.cli.without_extras", *sorted(modules_of_extras())]
    with Child(command, directory=ROOT, hears=True, talks=True) as child:

        def run(*words):
            return json.loads(child.ask(json.dumps([str(each) for each in words])))

        yield run
        assert child.finish() == 0


def test_the_extras_are_hidden() -> None:
    assert {"cryptography", "joserfc", "pyspark", "pyarrow", "numpy"} <= modules_of_extras()


def test_each_command_has_help(run):
    paths = run("*")["paths"]
    assert ["secure", "init"] in paths
    failed = {tuple(path): told for path in paths if (told := run(*path, "--help"))["code"]}
    assert failed == {}


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("secure", "init", "{new}"), "secure"),
        (("secure", "node", "{new}", "1"), "secure"),
        (("secure", "user", "{new}", "alice"), "secure"),
        (("demo", "--output", "{new}"), "demo"),
        (("pipeline", "run", "stages"), "spark"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(run, tmp_path, words, extra):
    told = run(*(each.format(new=tmp_path / "new") for each in words))
    assert told["code"] == 1
    assert told["output"].startswith("Error: ")
    assert told["output"].endswith(f": pip install 'odradek[{extra}]'\n")
    assert not (tmp_path / "new").exists()


SASL = (
    "listeners=SASL_PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names=CONTROLLER",
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
)


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        (
            (
                "sasl.enabled.mechanisms=GSSAPI",
                "listener.name.sasl_plaintext.gssapi.sasl.jaas.config="
                "com.sun.security.auth.module.Krb5LoginModule required "
                'useKeyTab=true keyTab="/k" principal="kafka/h@R";',
            ),
            "gssapi",
        ),
        (
            (
                "sasl.enabled.mechanisms=OAUTHBEARER",
                "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=file:///k",
                "sasl.oauthbearer.expected.audience=kafka",
                "sasl.oauthbearer.expected.issuer=https://issuer",
                "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class="
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
                "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config="
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            ),
            "secure",
        ),
    ],
)
def test_a_listener_names_the_extra_that_it_needs(run, settings, extra):
    words = [word for each in (*SASL, *settings) for word in ("--override", each)]
    told = run("doctor", *SERVE, *words)
    assert told["code"] == 1
    assert f"pip install 'odradek[{extra}]'" in told["output"]


def test_a_key_store_names_the_extra_that_it_needs(run, tmp_path):
    store = tmp_path / "keys.p12"
    store.write_bytes(b"\x30\x82")  # how PKCS#12 begins
    words = [
        word
        for each in (
            "listeners=SSL://:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SSL:SSL",
            "security.inter.broker.protocol=SSL",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.location={store}",
            "ssl.keystore.password=secret",
        )
        for word in ("--override", each)
    ]
    told = run("doctor", *SERVE, *words)
    assert told["code"] == 1
    assert "pip install 'odradek[secure]'" in told["output"]
