"""The verb `login` of our own client's drivers, blocking and asyncio."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat.drivers.python.lines import Command
from odradek.client import Consumer, Producer, aio
from odradek.client.errors import ClientError

_MODULES = "org.apache.kafka.common.security."
_PLAIN = f"{_MODULES}plain.PlainLoginModule"
_SCRAM = f"{_MODULES}scram.ScramLoginModule"
_OAUTH = f"{_MODULES}oauthbearer.OAuthBearerLoginModule"


def login(command: Command) -> Command:
    """Write and read a record with the given credentials, and tell the client's error."""
    with login_settings(command) as settings:
        try:
            offset = _written(command, settings)
            return {"said": _read(command, settings, offset)}
        except (ClientError, ValueError) as error:
            return {"said": [f"{type(error).__name__}: {error}"]}


def _written(command: Command, settings: dict[str, Any]) -> int:
    with Producer(settings | limits(command)) as producer:
        value = command["value"].encode()
        return producer.send(command["topic"], value, partition=0).wait().offset


def _read(command: Command, settings: dict[str, Any], offset: int) -> list[str]:
    end = time.monotonic() + command["timeout_ms"] / 1000
    with Consumer(settings) as consumer:
        consumer.assign([(command["topic"], 0, offset)])
        while time.monotonic() < end:
            batch = consumer.poll(0.2)
            if batch is not None:
                return _compared(command, batch.values())
    return ["the record was not read"]


async def login_with_asyncio(command: Command) -> Command:
    """Do as `login` with the clients of asyncio."""
    with login_settings(command) as settings:
        try:
            async with aio.Producer(settings | limits(command)) as producer:
                value = command["value"].encode()
                sent = await producer.send(command["topic"], value, partition=0)
                offset = (await sent).offset
            async with aio.Consumer(settings) as consumer:
                consumer.assign([(command["topic"], 0, offset)])
                async with asyncio.timeout(command["timeout_ms"] / 1000):
                    while (batch := await consumer.poll(0.2)) is None:
                        pass
            return {"said": _compared(command, batch.values())}
        except TimeoutError:
            return {"said": ["the record was not read"]}
        except (ClientError, ValueError) as error:
            return {"said": [f"{type(error).__name__}: {error}"]}


def _compared(command: Command, values: list[Any]) -> list[str]:
    return [] if values[0] == command["value"].encode() else ["another record was read"]


def limits(command: Command) -> dict[str, Any]:
    """The settings of a producer that tries for the time of a login."""
    return {
        "max.block.ms": command["timeout_ms"],
        "delivery.timeout.ms": command["timeout_ms"] + 10,
        "request.timeout.ms": command["timeout_ms"],
    }


@contextmanager
def login_settings(command: Command) -> Iterator[dict[str, Any]]:
    """The settings of a client with the credentials of a login; a file of a token is there until the end."""
    settings: dict[str, Any] = {
        "bootstrap.servers": command["bootstrap"],
        "security.protocol": command["protocol"],
    }
    if command.get("trust"):
        settings["ssl.ca.location"] = command["trust"]
    if command.get("key"):
        settings["ssl.keystore.location"] = command["key"]
    if command.get("mechanism"):
        settings["sasl.mechanism"] = command["mechanism"]
    with tempfile.TemporaryDirectory(prefix="login-") as directory:
        if command.get("token"):
            file = Path(directory) / "token"
            file.write_text(command["token"], encoding="utf-8")
            settings["sasl.oauthbearer.token.endpoint.url"] = file.as_uri()
            settings["sasl.jaas.config"] = f"{_OAUTH} required;"
        elif command.get("krb5"):
            settings |= _kerberos(command)
        elif command.get("mechanism"):
            settings["sasl.jaas.config"] = _jaas(command)
        yield settings


def _jaas(command: Command) -> str:
    module = _PLAIN if command["mechanism"] == "PLAIN" else _SCRAM
    text = f'{module} required username="{command["user"]}" password="{command["password"]}"'
    return f'{text} tokenauth="true";' if command.get("is_delegation_token") else f"{text};"


def _kerberos(command: Command) -> dict[str, Any]:
    os.environ["KRB5_CONFIG"] = command["krb5"]
    settings = {"sasl.kerberos.service.name": command["service"]}
    if command.get("tickets"):
        os.environ["KRB5CCNAME"] = f"FILE:{command['tickets']}"
        return settings
    settings["sasl.kerberos.keytab"] = command["keys"]
    return {**settings, "sasl.kerberos.principal": command["principal"]}
