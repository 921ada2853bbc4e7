"""Clients with access tokens (OAUTHBEARER) on the listener with SASL: tokens in files, and brief tokens.

`compat.logins` tries other wrong tokens, with all clients.
"""

from __future__ import annotations

import time

from compat import access_tokens
from compat.access_tokens import INVALID
from compat.lab.toolchain import Missing
from compat.scenarios.stage import equal, holds
from compat.tools.workbench import Output, Workbench, check

SHORT_SECONDS = 5
"""With tokens of two seconds, librdkafka sometimes connects again and again at the end of a token: it looks
for a leader once in a second, and a session that begins then ends after milliseconds."""
SHORT_TOKENS = 3
_PATIENCE_SECONDS = 30.0


def _address(bench: Workbench) -> str:
    if not bench.broker.listeners:
        raise Missing("the broker has no listener with SASL")
    return bench.broker.listeners[0].partition("://")[2]


@check("access tokens: Java")
def java(bench: Workbench) -> None:
    """Tools log in with a token in a file; an expired one is refused."""
    address = _address(bench)

    def run(tool: str, properties: str, *words: str, given: str = "") -> Output:
        file = bench.file("access-token.properties", properties)
        words = ("--bootstrap-server", address, "--command-config", file, *words)
        return bench.try_tool(tool, *words, given=given, bootstrap=False)

    path = bench.token_file
    path.write_text(access_tokens.token(), encoding="utf-8")
    properties = access_tokens.java_properties(path)
    topic = ("--topic", "access-tokens")
    made = run("TopicCommand", properties, "--create", "--if-not-exists", *topic)
    equal(made.code, 0, f"exit code of TopicCommand, which said {made.shown()}")
    written = run("ConsoleProducer", properties, *topic, given="one\ntwo\n")
    equal(written.code, 0, f"exit code of ConsoleProducer, which said {written.shown()}")
    ends = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
    run("consumer.ConsoleConsumer", properties, *topic, *ends).says("^one$", "^two$")
    path.write_text(access_tokens.token("expired"), encoding="utf-8")
    # Tools before this one may have left their login, which other words do not find.
    refused = run("TopicCommand", properties.replace("required", "required kind=expired"), "--list")
    equal(refused.code, 1, "exit code with an expired token")
    expected = f"Error while executing topic command : {INVALID}"
    holds(expected in refused.shown(), f"{expected} in {refused.shown()}")


@check("access tokens: librdkafka")
def librdkafka(bench: Workbench) -> None:
    """Records are delivered over the lives of several tokens."""
    from confluent_kafka import Producer

    address = _address(bench)
    made: list[float] = []

    def short(config: str) -> tuple[str, float]:
        made.append(time.time())
        text = access_tokens.token(lifetime_seconds=SHORT_SECONDS)
        return text, time.time() + SHORT_SECONDS

    errors: list[str] = []

    def delivered(error: object, record: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": short,
            "error_cb": lambda error: None,
            "log_level": 0,
        }
    )
    while len(made) < SHORT_TOKENS:
        producer.produce("access-tokens-librdkafka", b"x", on_delivery=delivered)
        producer.poll(0.1)
    equal(producer.flush(_PATIENCE_SECONDS), 0, "number of records that are not delivered")
    equal(errors, [], "errors of deliveries")
