"""Brokers connect to several controllers with SCRAM; the controllers use PLAIN among themselves."""

import asyncio

import pytest
from tests.node.cluster import CLUSTER_ID, Cluster

from odradek.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from odradek.env.file_system import OsFileSystem
from odradek.env.randomness import system_random_bytes
from odradek.network.authentications import Outcome
from odradek.node.add_scram import parse_credential
from odradek.node.feature_levels import choose_levels
from odradek.node.format import Formatter

MECHANISM = "SCRAM-SHA-512"
ROLES = {**dict.fromkeys((1, 2, 3), "controller"), **dict.fromkeys((4, 5), "broker")}
LOGIN = 'required username="{0}" password="{0}-secret"'


class ScramCluster(Cluster):
    """The directories are formatted with the credential of the brokers."""

    def listener_settings(self, node_id):
        prefix = "listener.name.controller"
        is_controller = self.roles[node_id] == "controller"
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            f"{prefix}.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "sasl.mechanism.controller.protocol": "PLAIN" if is_controller else MECHANISM,
            f"{prefix}.plain.sasl.jaas.config": (
                f"{PLAIN_LOGIN_MODULE} {LOGIN.format('controller')} "
                'user_controller="controller-secret";'
            ),
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": (
                f"{SCRAM_LOGIN_MODULE} {LOGIN.format('broker')};"
            ),
            f"{prefix}.connections.max.reauth.ms": "4000",
        }

    def format(self):
        text = f"{MECHANISM}=[name=broker,password=broker-secret]"
        for each in ROLES:
            credentials = [parse_credential(text, system_random_bytes)]
            levels = choose_levels(None, (), is_dynamic=False)
            formatter = Formatter(
                self.config(each), OsFileSystem(), system_random_bytes, 0, levels, credentials
            )
            formatter.format(CLUSTER_ID, False, None)

    def controllers(self):
        return [self.nodes[each]._controller.service.server for each in self.controller_ports]

    def counted(self, outcome):
        return sum(
            dict(each.authentications.of(outcome))["CONTROLLER"] for each in self.controllers()
        )


@pytest.mark.cluster
@pytest.mark.slow("a cluster of processes starts with several mechanisms")
def test_brokers_and_controllers_log_in_with_different_mechanisms(tmp_path):
    async def run():
        nodes = ScramCluster(tmp_path, ROLES)
        nodes.format()
        for topic in ("first", "second"):
            await nodes.start(*ROLES)
            await nodes.create(4, topic, 2, 2)
            principals = {
                connection.peer.principal
                for server in nodes.controllers()
                for connection in server.connections
            }
            assert principals >= {"User:broker", "User:controller"}
            await nodes.until(lambda: nodes.counted(Outcome.SUCCESSFUL_AGAIN) > 3)
            assert nodes.counted(Outcome.EXPIRED) == 0
            await nodes.stop(4, 5)
            await nodes.stop(1, 2, 3)

    asyncio.run(run())
