"""Apache Kafka's kafka-acls and console producer against a node with an authorizer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from compat.lab.toolchain import Missing
from compat.tools.workbench import Workbench

from odradek.config.authorizer import STANDARD_AUTHORIZER
from odradek.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.cluster]
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}


class Address(NamedTuple):
    """The broker as the workbench sees it."""

    bootstrap: str
    port: int


def test_acls_are_added_listed_and_removed(tmp_path: Path) -> None:
    with Broker(settings=SETTINGS, topics={"t": 1, "u": 1}) as broker:
        try:
            bench = Workbench(Address(broker.bootstrap_servers, broker.port), tmp_path)
        except Missing as reason:
            pytest.skip(str(reason))
        with bench:
            check(bench)


def check(bench: Workbench) -> None:
    allow = ("--allow-principal", "User:a", "--producer", "--topic", "t")
    bench.tool("AclCommand", "--add", *allow).says("Adding ACLs")
    prefixed = ("--resource-pattern-type", "prefixed", "--topic", "pre")
    deny = ("--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "Read")
    bench.tool("AclCommand", "--add", *deny, *prefixed)
    listed = bench.tool("AclCommand", "--list")
    listed.says(
        r"resourceType=TOPIC, name=t, patternType=LITERAL",
        r"principal=User:a, host=\*, operation=WRITE, permissionType=ALLOW",
        r"resourceType=TOPIC, name=pre, patternType=PREFIXED",
        r"principal=User:\*, host=10.0.0.1, operation=READ, permissionType=DENY",
    )
    # The client is User:ANONYMOUS: it may no longer write to `t`, or see it.
    refused = bench.try_tool("GetOffsetShell", "--topic", "t")
    assert "t:0:" not in refused.out
    bench.tool("GetOffsetShell", "--topic", "u").says(r"^u:0:0")
    bench.tool("AclCommand", "--remove", "--force", *allow)
    bench.tool("GetOffsetShell", "--topic", "t").says(r"^t:0:0")
