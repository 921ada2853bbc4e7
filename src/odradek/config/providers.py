"""Replaces variables in configuration files, such as ${file:/etc/secrets.properties:password}.

As in Apache Kafka (KIP-297, KIP-421), `config.providers` names the providers, and
`config.providers.<name>.class` their classes. There are three of them, all in
`org.apache.kafka.common.config.provider`:

- FileConfigProvider: `${name:FILE:KEY}` is a value in a .properties file.
- DirectoryConfigProvider: `${name:DIRECTORY:FILE}` is the contents of a file.
- EnvVarConfigProvider: `${name:VARIABLE}` is an environment variable.

The parameter `allowed.paths` limits the first two to some directories, `allowlist.pattern` the third
one to the variables that match a pattern as a whole. Values of variables are not searched for
variables again. A variable of another provider stays as it is. In Apache Kafka, so does one that
has no value, which then may become a password; here it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from odradek.config.checks import ConfigurationError
from odradek.config.properties import parse_properties

PROVIDERS = "config.providers"
PREFIX = f"{PROVIDERS}."
_PACKAGE = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str], str]
"""(path, key) -> the value. It raises a LookupError whose text has no secret."""


def resolve(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with the values of their variables.

    Raises:
        ConfigurationError: a provider is not supported, or a variable has no value.
    """
    lookups = {
        name: _lookup(name, settings, environment)
        for name in map(str.strip, settings.get(PROVIDERS, "").split(","))
        if name
    }
    if not lookups:
        return dict(settings)
    return {
        name: text if name.startswith(PREFIX) else _replaced(name, text, lookups)
        for name, text in settings.items()
    }


def _replaced(setting: str, text: str, lookups: Mapping[str, Lookup]) -> str:
    def value(found: re.Match[str]) -> str:
        provider, path, key = found.groups(default="")
        if provider not in lookups:
            return found[0]
        try:
            return lookups[provider](path, key)
        except LookupError as error:
            raise ConfigurationError(f"{setting}: {found[0]}: {error.args[0]}") from None

    return _VARIABLE.sub(value, text)


def _lookup(name: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> Lookup:
    """Return the function of a provider."""
    setting = f"{PREFIX}{name}.class"
    paths = settings.get(f"{PREFIX}{name}.param.allowed.paths", "")
    allowed = [Path(each.strip()).resolve() for each in paths.split(",") if each.strip()]
    match settings.get(setting, "").strip().removeprefix(_PACKAGE):
        case "FileConfigProvider":
            return lambda path, key: _of_file(_permitted(path, allowed), key)
        case "DirectoryConfigProvider":
            return lambda path, key: _of_directory(_permitted(path, allowed), key)
        case "EnvVarConfigProvider":
            pattern = settings.get(f"{PREFIX}{name}.param.allowlist.pattern", ".*")
            try:
                permitted = re.compile(pattern)
            except re.error as error:
                raise ConfigurationError(
                    f"{PREFIX}{name}.param.allowlist.pattern is no regular expression: {error}"
                ) from error
            return lambda path, key: _of_environment(environment, permitted, path, key)
        case _:
            raise ConfigurationError(
                f"{PROVIDERS} names {name}: set {setting} to {_PACKAGE}FileConfigProvider, "
                "DirectoryConfigProvider or EnvVarConfigProvider; other classes are not loaded"
            )


def _permitted(path: str, allowed: list[Path]) -> Path:
    if not path:
        raise LookupError("it names no file")
    resolved = Path(path).resolve()
    if allowed and not any(resolved.is_relative_to(each) for each in allowed):
        raise LookupError("the path is not among allowed.paths")
    return resolved


def _of_file(file: Path, key: str) -> str:
    try:
        values = parse_properties(file.read_bytes())
    except OSError as error:
        raise LookupError(f"the file cannot be read: {error.strerror}") from error
    except ConfigurationError as error:
        raise LookupError(f"the file is malformed: {error}") from error
    if key not in values:
        raise LookupError("the file has no such key")
    return values[key]


def _of_directory(directory: Path, name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise LookupError("the last part must be the name of a file")
    try:
        return (directory / name).read_text(encoding="utf-8")
    except OSError as error:
        raise LookupError(f"the file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LookupError("the file is not UTF-8") from error


def _of_environment(
    environment: Mapping[str, str], permitted: re.Pattern[str], path: str, name: str
) -> str:
    if path:
        raise LookupError("an environment variable has no path")
    if permitted.fullmatch(name) is None:
        raise LookupError("the name does not match allowlist.pattern")
    if name not in environment:
        raise LookupError("there is no such environment variable")
    return environment[name]
