"""Checks the key tables of listeners with GSSAPI when a node starts, as Apache Kafka does."""

from __future__ import annotations

from functools import partial

from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError
from odradek.env import kerberos
from odradek.env.executor import Executor, Pool, call


async def check_keys(config: BrokerConfig, executor: Executor) -> None:
    """Check that the key table of each listener has the keys of its service.

    Raises:
        ConfigurationError: it does not.
    """
    for listener, sasl in config.sasl_by_listener.items():
        service = sasl.kerberos
        if service is None:
            continue
        try:
            await call(
                executor,
                partial(kerberos.accept, service.principal, service.key_table),
                Pool.LOGIN,
            )
        except kerberos.KerberosError as error:
            raise ConfigurationError(
                f"listener {listener}: GSSAPI cannot use the keys of {service.principal}: {error}"
            ) from error
