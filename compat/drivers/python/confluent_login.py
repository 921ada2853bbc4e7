"""The verb `login` of librdkafka's driver."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat.drivers.python.lines import Command, UnsupportedVerb

TOKEN_SECONDS = 300
NO_PROVIDER = "No provider for SASL mechanism GSSAPI"
"""The error of librdkafka if it was built without GSSAPI, as in the wheels of confluent-kafka."""
BROKEN_PIPE = "Send failed: Broken pipe"
"""The broker has closed the connection. librdkafka reports this only if it sends before it has seen it, so
it depends on the time."""


def login(command: Command) -> Command:
    """Write and read a record with the given credentials, and tell the client's errors."""
    if command.get("is_delegation_token"):
        raise UnsupportedVerb("librdkafka does not log in with delegation tokens")
    errors: list[str] = []

    def failed(error: KafkaError) -> None:
        # The code says only that another error has occurred at all addresses.
        if error.code() != KafkaError._ALL_BROKERS_DOWN and BROKEN_PIPE not in error.str():
            errors.append(f"{error.name()}: {error.str()}")

    delivered: list[int] = []

    def report(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failed(error)
        else:
            delivered.append(message.offset())

    settings = login_settings(command)
    settings["error_cb"] = failed
    producer = _producer({**settings, "message.timeout.ms": command["timeout_ms"], "linger.ms": 0})
    producer.produce(command["topic"], command["value"].encode(), partition=0, on_delivery=report)
    while not errors and not delivered:
        producer.poll(0.05)
    producer.purge()
    if not errors:
        _read(command, settings, delivered[0], errors)
    return {"said": errors[:1]}


def _producer(settings: Command) -> Producer:
    try:
        return Producer(settings)
    except KafkaException as error:
        said = error.args[0].str()
        if NO_PROVIDER in said:
            raise UnsupportedVerb(said.partition(": ")[2]) from error
        raise


def _read(command: Command, settings: Command, offset: int, errors: list[str]) -> None:
    consumer = Consumer({**settings, "group.id": "not-used", "enable.auto.commit": False})
    consumer.assign([TopicPartition(command["topic"], 0, offset)])
    end = time.monotonic() + command["timeout_ms"] / 1000
    try:
        while not errors and time.monotonic() < end:
            message: Any = consumer.poll(0.1)
            if message is not None and message.error() is None:
                if message.value() != command["value"].encode():
                    errors.append("another record was read")
                return
        errors.append("the record was not read")
    finally:
        consumer.close()


def login_settings(command: Command) -> dict[str, Any]:
    """The settings of a client with the credentials of a login."""
    settings: dict[str, Any] = {
        "bootstrap.servers": command["bootstrap"],
        "security.protocol": command["protocol"],
        "log_level": 0,
    }
    if command.get("trust"):
        settings["ssl.ca.location"] = command["trust"]
    if command.get("key"):
        settings["ssl.certificate.location"] = command["key"]
        settings["ssl.key.location"] = command["key"]
    if command.get("mechanism"):
        settings["sasl.mechanism"] = command["mechanism"]
    if command.get("token"):
        settings["oauth_cb"] = lambda config: (command["token"], time.time() + TOKEN_SECONDS)
    elif command.get("krb5"):
        settings |= _kerberos(command)
    elif command.get("mechanism"):
        settings["sasl.username"] = command["user"]
        settings["sasl.password"] = command["password"]
    return settings


def _kerberos(command: Command) -> dict[str, Any]:
    """Return the settings of GSSAPI. librdkafka gets tickets with the program kinit, in its own thread."""
    os.environ["KRB5_CONFIG"] = command["krb5"]
    settings = {"sasl.kerberos.service.name": command["service"]}
    if command.get("tickets"):
        os.environ["KRB5CCNAME"] = f"FILE:{command['tickets']}"
        return {**settings, "sasl.kerberos.kinit.cmd": "true"}
    keys = Path(command["keys"])
    tickets = keys.with_suffix(".librdkafka")
    tickets.unlink(missing_ok=True)
    os.environ["KRB5CCNAME"] = f"FILE:{tickets}"
    settings["sasl.kerberos.keytab"] = str(keys)
    return {**settings, "sasl.kerberos.principal": command["principal"]}
