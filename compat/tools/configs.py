"""ConfigCommand: settings of topics, brokers and loggers."""

from __future__ import annotations

import re

from compat.scenarios.stage import equal, eventually
from compat.tools.workbench import Output, Workbench, check

TOOL = "kafka.admin.ConfigCommand"


def _until(bench: Workbench, pattern: str, *entity: str) -> Output:
    return eventually(
        lambda: bench.tool(TOOL, "--describe", *entity),
        lambda output: re.search(pattern, output.out) is not None,
        f"{pattern} in the description of {' '.join(entity)}",
    )


@check("ConfigCommand topics")
def topics(bench: Workbench) -> None:
    """Describe, with and without defaults; add, append, subtract, delete; refuse a bad value."""
    topic = bench.topic("tool-settings", 1, "--config", "retention.ms=1000000")
    entity = ("--topic", topic)
    _until(bench, "retention.ms=1000000", *entity).says(
        rf"^Dynamic configs for topic {topic} are:",
        r"retention\.ms=1000000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=1000000",
    )
    bench.tool(TOOL, "--describe", "--all", *entity).says(
        r"^  cleanup\.policy=delete .*DEFAULT_CONFIG:log\.cleanup\.policy=delete",
        r"^  compression\.type=producer ",
        r"^  segment\.bytes=1073741824 ",
        r"^  max\.message\.bytes=1048588 ",
    )
    change = "retention.ms=5000,cleanup.policy=[compact,delete]"
    bench.tool(TOOL, "--alter", *entity, "--add-config", change).says("Completed updating config")
    _until(bench, r"cleanup\.policy=compact,delete ", *entity).says(r"retention\.ms=5000 ")
    bench.tool(TOOL, "--alter", *entity, "--delete-config", "retention.ms,cleanup.policy")
    _until(bench, r"are:\s*(min\.insync\.replicas=1 .*)?$", *entity)
    bad = bench.try_tool(TOOL, "--alter", *entity, "--add-config", "retention.ms=never")
    equal(bad.code, 1, "exit code for a bad value")
    bench.tool(TOOL, "--describe", *entity).says_not("retention.ms")


@check("ConfigCommand brokers")
def brokers(bench: Workbench) -> None:
    """Dynamic settings of one broker and of all; what is read-only is refused."""
    broker = str(bench.broker_id())
    one = ("--broker", broker)
    bench.tool(TOOL, "--alter", *one, "--add-config", "log.cleaner.threads=2")
    _until(bench, "log.cleaner.threads=2", *one).says(
        rf"^Dynamic configs for broker {broker} are:",
        r"DYNAMIC_BROKER_CONFIG:log\.cleaner\.threads=2, .*DEFAULT_CONFIG:log\.cleaner\.threads=1",
    )
    bench.tool(TOOL, "--describe", "--all", *one).says(
        rf"^  node\.id={broker} ", r"^  log\.retention\.hours=168 ", r"^  num\.partitions=1 "
    )
    bench.tool(TOOL, "--alter", "--broker-defaults", "--add-config", "log.retention.ms=86400001")
    _until(bench, "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=86400001", "--broker-defaults")
    fixed = bench.try_tool(TOOL, "--alter", *one, "--add-config", "log.dirs=elsewhere")
    equal(fixed.code, 1, "exit code for a read-only setting")
    bench.tool(TOOL, "--alter", *one, "--delete-config", "log.cleaner.threads")
    bench.tool(TOOL, "--alter", "--broker-defaults", "--delete-config", "log.retention.ms")
    eventually(
        lambda: bench.tool(TOOL, "--describe", *one).out,
        lambda out: "log.cleaner.threads" not in out,
        "the setting is gone",
    )


@check("ConfigCommand loggers")
def loggers(bench: Workbench) -> None:
    """Levels of the broker's loggers are listed and set."""
    entity = ("--broker-logger", str(bench.broker_id()))
    listed = bench.tool(TOOL, "--describe", *entity)
    name = listed.find(r"^  ([\w.$-]+)=(?:INFO|WARN) ")[1]
    bench.tool(TOOL, "--alter", *entity, "--add-config", f"{name}=ERROR")
    _until(bench, rf"  {re.escape(name)}=ERROR ", *entity)
    bench.tool(TOOL, "--alter", *entity, "--delete-config", name)
    unknown = bench.try_tool(TOOL, "--alter", *entity, "--add-config", "no.such.logger=INFO")
    equal(unknown.code, 1, "exit code for an unknown logger")


def _gone(bench: Workbench, *entity: str) -> None:
    eventually(
        lambda: bench.tool(TOOL, "--describe", *entity).lines(),
        lambda lines: not lines,
        f"no quotas of {' '.join(entity)}",
    )


@check("ConfigCommand users")
def users(bench: Workbench) -> None:
    """Quotas of a user, of its client ids and of the default, and SCRAM credentials beside them."""
    entity = ("--user", "tool-ann")
    rates = "producer_byte_rate=1024,request_percentage=50.5"
    bench.tool(TOOL, "--alter", *entity, "--add-config", rates).says("Completed updating config")
    _until(bench, "producer_byte_rate=1024", *entity).says(
        r"^Quota configs for user-principal 'tool-ann' are ", r"request_percentage=50\.5"
    )
    both = ("--user", "tool-ann", "--client-defaults")
    bench.tool(TOOL, "--alter", *both, "--add-config", "consumer_byte_rate=2048")
    _until(bench, "consumer_byte_rate=2048", *both).says(
        r"^Quota configs for user-principal 'tool-ann', the default client-id are "
    )
    bench.tool(TOOL, "--alter", *entity, "--add-config", "SCRAM-SHA-256=[password=secret]")
    _until(bench, "SCRAM-SHA-256=iterations=", *entity).says("producer_byte_rate=1024")
    for wrong in ("producer_byte_rate=0", "producer_byte_rate=fast", "connection_creation_rate=5"):
        refused = bench.try_tool(TOOL, "--alter", *entity, "--add-config", wrong)
        equal(refused.code, 1, f"exit code for {wrong}")
    bench.tool(TOOL, "--alter", *entity, "--delete-config", "SCRAM-SHA-256")
    bench.tool(TOOL, "--alter", *both, "--delete-config", "consumer_byte_rate")
    bench.tool(TOOL, "--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage")
    _gone(bench, *entity)


@check("ConfigCommand clients")
def clients(bench: Workbench) -> None:
    """Quotas of a client id, and of the default."""
    for entity, title in (
        (("--client", "tool-app"), "client-id 'tool-app'"),
        (("--client-defaults",), "the default client-id"),
    ):
        rate = "controller_mutation_rate=1000.5"
        bench.tool(TOOL, "--alter", *entity, "--add-config", rate)
        _until(bench, r"controller_mutation_rate=1000\.5", *entity).says(
            rf"^Quota configs for {title} are "
        )
        bench.tool(TOOL, "--alter", *entity, "--delete-config", "controller_mutation_rate")
        _gone(bench, *entity)


@check("ConfigCommand ips")
def ips(bench: Workbench) -> None:
    """Connection rates of an address, and of the default."""
    for entity, title in (
        (("--ip", "10.9.8.7"), "ip '10.9.8.7'"),
        (("--ip-defaults",), "the default ip"),
    ):
        rate = "connection_creation_rate=100000"
        bench.tool(TOOL, "--alter", *entity, "--add-config", rate)
        _until(bench, "connection_creation_rate=100000", *entity).says(rf"{title} are ")
        bench.tool(TOOL, "--alter", *entity, "--delete-config", "connection_creation_rate")
        _gone(bench, *entity)
