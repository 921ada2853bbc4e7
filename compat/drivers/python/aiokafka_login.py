"""The verb `login` of aiokafka's driver."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from compat.drivers.python.lines import Command, UnsupportedVerb


class _GivenToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


class _Heard(logging.Handler):
    """Collects the errors that the client logs: its exceptions do not have the reasons."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


async def login(command: Command) -> Command:
    """Write and read a record with the given credentials, and tell the client's errors."""
    if command.get("is_delegation_token"):
        raise UnsupportedVerb("aiokafka does not log in with delegation tokens")
    if command.get("krb5"):
        _use_tickets(command)
    heard = _Heard()
    logger = logging.getLogger("aiokafka")
    logger.addHandler(heard)
    said: list[str] = []
    try:
        async with asyncio.timeout(command["timeout_ms"] / 1000):
            said = await _write_and_read(command)
    except TimeoutError:
        said = ["TimeoutError"]  # the messages are of no use, and differ from login to login
    except (KafkaError, OSError, ValueError, *_kerberos_errors()) as error:
        said = [f"{type(error).__name__}: {error}", *heard.messages[:1]]
    finally:
        logger.removeHandler(heard)
    return {"said": said}


async def _write_and_read(command: Command) -> list[str]:
    settings = _settings(command)
    producer = AIOKafkaProducer(**settings)
    try:
        await producer.start()
        written = await producer.send_and_wait(
            command["topic"], command["value"].encode(), partition=0
        )
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(enable_auto_commit=False, **settings)
    try:
        await consumer.start()
        partition = TopicPartition(command["topic"], 0)
        consumer.assign([partition])
        consumer.seek(partition, written.offset)
        read = await consumer.getone()
    finally:
        await consumer.stop()
    return [] if read.value == command["value"].encode() else ["another record was read"]


def _settings(command: Command) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": command["bootstrap"],
        "security_protocol": command["protocol"],
        "request_timeout_ms": command["timeout_ms"],
    }
    if command["protocol"].endswith("SSL"):
        settings["ssl_context"] = context = ssl.create_default_context(cafile=command.get("trust"))
        if command.get("key"):
            context.load_cert_chain(command["key"])
    if command.get("mechanism"):
        settings["sasl_mechanism"] = command["mechanism"]
    if command.get("token"):
        settings["sasl_oauth_token_provider"] = _GivenToken(command["token"])
    elif command.get("krb5"):
        settings["sasl_kerberos_service_name"] = command["service"]
    elif command.get("mechanism"):
        settings["sasl_plain_username"] = command["user"]
        settings["sasl_plain_password"] = command["password"]
    return settings


def _kerberos_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the Kerberos library, which aiokafka does not catch."""
    try:
        from gssapi.exceptions import GSSError
    except ModuleNotFoundError:
        return ()
    return (GSSError,)


def _use_tickets(command: Command) -> None:
    """Let the Kerberos library, which aiokafka calls, find the tickets or the keys of the principal."""
    os.environ["KRB5_CONFIG"] = command["krb5"]
    keys, tickets = command.get("keys"), command.get("tickets")
    os.environ["KRB5_CLIENT_KTNAME"] = keys or os.devnull
    os.environ["KRB5CCNAME"] = f"MEMORY:{keys}" if keys else f"FILE:{tickets}"
