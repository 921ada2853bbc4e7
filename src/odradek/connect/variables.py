"""Variables in configurations of connectors, such as `${file:/etc/secrets.properties:password}` (KIP-297).

The worker's `config.providers` names the providers. Configurations are stored and shown with the variables;
only the code of connectors, converters and clients gets the values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from odradek.config.checks import ConfigurationError
from odradek.config.providers import PREFIX, PROVIDERS, resolve
from odradek.core.connect.errors import ConfigError

Config = Mapping[str, str | None]


class Variables:
    """The providers of a worker."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._settings = {
            name: value
            for name, value in worker.items()
            if name == PROVIDERS or name.startswith(PREFIX)
        }

    def values(self, config: Config) -> dict[str, str]:
        """Return a configuration with the values of its variables.

        Raises:
            ConfigError: a variable has no value.
        """
        given = {name: value for name, value in config.items() if value is not None}
        if not self._settings:
            return given
        found = resolved({**given, **self._settings})
        return {name: found[name] for name in given}

    def restored(self, config: Config, raw: Config) -> dict[str, str | None]:
        """Return a task's configuration with the variables that the connector's (`raw`) has."""
        values = self.values(raw)
        return {
            name: raw[name] if name in values and values[name] != raw[name] else value
            for name, value in config.items()
        }


def resolved(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with the values of their variables.

    Raises:
        ConfigError: a provider is not supported, or a variable has no value.
    """
    try:
        return resolve(settings, os.environ)
    except ConfigurationError as error:
        raise ConfigError(str(error)) from error
