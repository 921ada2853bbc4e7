"""Clients with access tokens (OAUTHBEARER) on the listener with SASL: right, wrong and short-lived ones.

The errors of the clients are the same with Apache Kafka and Odradek.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat import access_tokens
from compat.access_tokens import INVALID, WRONG
from compat.clients import CLIENTS
from compat.driver import Driver, Record
from compat.lab.dialogue import DialogueError, Refused
from compat.lab.toolchain import Missing
from compat.scenarios.stage import equal, holds
from compat.tools.workbench import Output, Workbench, check

SHORT_SECONDS = 2
SHORT_TOKENS = 4
LONG_SECONDS = 300
_PATIENCE_SECONDS = 30.0


def _address(bench: Workbench) -> str:
    if not bench.broker.listeners:
        raise Missing("the broker has no listener with SASL")
    return bench.broker.listeners[0].partition("://")[2]


@check("access tokens: Java")
def java(bench: Workbench) -> None:
    """Tools log in with a token in a file; wrong tokens are refused."""
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
    for kind in WRONG:
        if kind == "unsigned":
            refused = run("TopicCommand", access_tokens.unsecured_properties(), "--list")
        else:
            path.write_text(access_tokens.token(kind), encoding="utf-8")
            # Tools before this one may have left their login, which other words do not find.
            other = properties.replace("required", f"required kind={kind}")
            refused = run("TopicCommand", other, "--list")
        equal(refused.code, 1, f"exit code with the token {kind}")
        expected = f"Error while executing topic command : {INVALID}"
        holds(expected in refused.shown(), f"{expected} with {kind} in {refused.shown()}")


def _librdkafka(
    address: str, make: Callable[[], tuple[str, float]], report: Callable[[Any], None]
) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda config: make(),
        "error_cb": report,
        "log_level": 0,
    }


@check("access tokens: librdkafka")
def librdkafka(bench: Workbench) -> None:
    """Records are delivered over the lives of several tokens; wrong tokens are refused."""
    from confluent_kafka import Producer

    address = _address(bench)
    made: list[float] = []

    def short() -> tuple[str, float]:
        made.append(time.time())
        text = access_tokens.token(lifetime_seconds=SHORT_SECONDS)
        return text, time.time() + SHORT_SECONDS

    errors: list[str] = []

    def delivered(error: object, record: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer(_librdkafka(address, short, lambda error: None))
    while len(made) < SHORT_TOKENS:
        producer.produce("access-tokens-librdkafka", b"x", on_delivery=delivered)
        producer.poll(0.1)
    equal(producer.flush(_PATIENCE_SECONDS), 0, "number of records that are not delivered")
    equal(errors, [], "errors of deliveries")
    for kind in WRONG:
        error = _error_of_librdkafka(address, access_tokens.token(kind))
        holds(f"SASL authentication error: {INVALID}" in error, f"the error with {kind} in {error}")


def _error_of_librdkafka(address: str, token: str) -> str:
    from confluent_kafka import Producer

    reported: list[str] = []
    producer = Producer(
        _librdkafka(
            address,
            lambda: (token, time.time() + LONG_SECONDS),
            lambda error: reported.append(error.str()),
        )
    )
    end = time.monotonic() + _PATIENCE_SECONDS
    while not reported and time.monotonic() < end:
        producer.poll(0.1)
    return reported[0] if reported else ""


@check("access tokens: aiokafka")
def aiokafka(bench: Workbench) -> None:
    """A record is delivered with a right token; nothing is delivered with an expired one."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.errors import KafkaError

    address = _address(bench)

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def __init__(self, kind: str) -> None:
            self.kind = kind

        async def token(self) -> str:
            return access_tokens.token(self.kind)

    async def produce(kind: str, seconds: float) -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(kind),
        )
        try:
            async with asyncio.timeout(seconds):
                await producer.start()
                await producer.send_and_wait("access-tokens-aiokafka", b"x")
        except (KafkaError, TimeoutError) as error:
            return type(error).__name__
        finally:
            await producer.stop()
        return ""

    equal(asyncio.run(produce("right", _PATIENCE_SECONDS)), "", "error with a right token")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    # The client does not read the error of RFC 7628, and tries again without an end.
    equal(asyncio.run(produce("expired", 3)), "TimeoutError", "error with an expired token")


@check("access tokens: franz-go")
def franz_go(bench: Workbench) -> None:
    """A record is delivered and read with a right token; wrong tokens are refused."""
    port = int(_address(bench).rpartition(":")[2])
    (client,) = (each for each in CLIENTS if each.name == "franz-go")
    command = client.command()

    def start(kind: str) -> Driver:
        text = f"sasl.mechanism=OAUTHBEARER\ntoken={access_tokens.token(kind)}\n"
        file = bench.file(f"franz-go-{kind}.properties", text)
        environment = {"CLIENT_PROPERTIES": file}
        return Driver(client.name, command, port, Path(bench.directory), environment)

    topic = "access-tokens-franz-go"
    driver = start("right")
    try:
        driver.create_topic(topic)
        driver.produce(topic, [Record(b"x")])
        equal([each.value for each in driver.read(topic, 1)], [b"x"], "read with a token")
    finally:
        driver.close()
    for kind in WRONG:
        error = ""
        try:
            driver = start(kind)
            try:
                driver.create_topic(f"{topic}-{kind}")
            finally:
                driver.close(patience=0)
        except (DialogueError, Refused) as refused:
            error = str(refused)
        # The client does not show the error of RFC 7628.
        expected = "unexpected data in oauth response"
        holds(expected in error, f"{expected} with {kind} in {error}")
