"""Which settings of its clients a connector may override."""

from __future__ import annotations

import pytest
from tests.connect.lab import Lab

from odradek.testing import Broker

JAVA = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"


@pytest.mark.parametrize(
    ("policy", "name", "is_allowed"),
    [
        ("All", "bootstrap.servers", True),
        ("None", "sasl.mechanism", False),
        ("Principal", "sasl.mechanism", True),
        (JAVA, "security.protocol", True),
        ("Principal", "sasl.login.callback.handler.class", False),
        ("Allowlist", "bootstrap.servers", False),
    ],
)
def test_policies(tmp_path, policy, name, is_allowed):
    with (
        Broker() as broker,
        Lab(
            broker.bootstrap_servers,
            tmp_path,
            connector_client_config_override_policy=policy,
        ) as lab,
    ):
        config = {"connector.class": "FileStreamSource", "file": "x", "topic": "t"}
        body = {**config, "name": "a", f"producer.override.{name}": "x"}
        path = "/connector-plugins/FileStreamSource/config/validate"
        found = lab.ask("PUT", path, body).body["configs"]
        errors = [error for each in found for error in each["value"]["errors"]]
        refused = any("does not allow" in error for error in errors)
        assert refused != is_allowed
