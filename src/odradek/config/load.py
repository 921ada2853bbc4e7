"""Makes the configuration of a node from a server.properties file and overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from odradek.config import broker_config, cipher_suites, jaas_file, providers, sasl, tls
from odradek.config.broker_config import BrokerConfig
from odradek.config.checks import ConfigurationError, Secret
from odradek.config.consistency import problems
from odradek.config.definition import Setting, Status
from odradek.config.layers import BrokerLayers
from odradek.config.listeners import SECURITY_PROTOCOLS
from odradek.config.oauth import CALLBACK_HANDLER
from odradek.config.oauth_login import LOGIN_HANDLER
from odradek.config.properties import parse_properties
from odradek.config.registry import broker_setting, broker_settings


class When(Enum):
    """The condition under which a default of Odradek applies to a setting without a value."""

    ALWAYS = "always"
    SINGLE_NODE = "on a node that is broker and controller and the only voter"
    NO_FILE = "without a configuration file"


class FriendlyDefault(NamedTuple):
    """A default of Odradek that differs from Apache Kafka's."""

    name: str
    value: str
    when: When
    reason: str


_ALONE = "Kafka's default needs several brokers"
_PER_LISTENER = sasl.PER_LISTENER | tls.PER_LISTENER | broker_config.PER_LISTENER
_OTHER_HANDLER = re.compile(rf"\.(plain|scram-sha-\d+|gssapi)\.{re.escape(CALLBACK_HANDLER)}\Z")
_OF_OAUTH = (CALLBACK_HANDLER, LOGIN_HANDLER)
"""Settings of which only the values for OAUTHBEARER have an effect."""
FRIENDLY_DEFAULTS = (
    FriendlyDefault("process.roles", "broker,controller", When.ALWAYS, "Kafka has no default"),
    FriendlyDefault("node.id", "1", When.ALWAYS, "Kafka has no default"),
    FriendlyDefault("offsets.topic.replication.factor", "1", When.SINGLE_NODE, _ALONE),
    FriendlyDefault("transaction.state.log.replication.factor", "1", When.SINGLE_NODE, _ALONE),
    FriendlyDefault("transaction.state.log.min.isr", "1", When.SINGLE_NODE, _ALONE),
    FriendlyDefault(
        "share.coordinator.state.topic.replication.factor", "1", When.SINGLE_NODE, _ALONE
    ),
    FriendlyDefault("share.coordinator.state.topic.min.isr", "1", When.SINGLE_NODE, _ALONE),
    FriendlyDefault(
        "group.initial.rebalance.delay.ms", "0", When.NO_FILE, "the first consumer starts at once"
    ),
    FriendlyDefault(
        "socket.send.buffer.bytes", "1048576", When.NO_FILE, "halves the cost of a fetch of 1 MB"
    ),
)
"""All defaults that differ from Apache Kafka's defaults, except `default_data_directory`."""


class Loaded(NamedTuple):
    """A configuration, and its warnings."""

    config: BrokerConfig
    warnings: tuple[str, ...]


def default_data_directory(environment: Mapping[str, str]) -> str:
    """Return the default data directory: `odradek` in XDG_DATA_HOME or ~/.local/share."""
    home = environment.get("HOME", "")
    base = environment.get("XDG_DATA_HOME") or str(Path(home, ".local", "share"))
    return str(Path(base, "odradek"))


def read_file(path: Path) -> dict[str, str]:
    """Read the settings of a server.properties file.

    Raises:
        ConfigurationError: the file cannot be read, or is malformed.
    """
    try:
        return parse_properties(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def load(
    file: Mapping[str, str] | None,
    overrides: Mapping[str, str],
    data_directory: str | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Loaded:
    """Return the configuration of a node.

    `file` is the result of `read_file`, or None without a file. `overrides` override the file.
    `data_directory` is used if neither of them has a data directory. `environment` has the values of
    variables (see `providers`), and may name a file with logins (see `jaas_file`).

    Raises:
        ConfigurationError: the settings are invalid. The message has one line for each problem.
    """
    given = providers.resolve({**(file or {}), **overrides}, environment)
    given |= jaas_file.logins(given, environment)
    named = frozenset(given)
    if "broker.id" in given:
        given.setdefault("node.id", given["broker.id"])
    static = _with_friendly_defaults(given, has_file=file is not None)
    static.setdefault("broker.id", static["node.id"])
    if data_directory is not None and not {"log.dir", "log.dirs"} & given.keys():
        static["log.dirs"] = data_directory
    wrong, warnings = _review(given)
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    config = BrokerConfig(BrokerLayers(static, assumed=frozenset(static.keys() - named)))
    wrong = problems(config)
    if wrong:
        raise ConfigurationError("\n".join(wrong))
    warnings += _misleading_names(config)
    return Loaded(config, tuple(warnings))


def _misleading_names(config: BrokerConfig) -> list[str]:
    """Return a warning for each listener whose name promises TLS or SASL that it does not have."""
    return [
        f"the listener {each.name} uses the protocol {each.security_protocol} "
        "(listener.security.protocol.map)"
        for each in config.listeners
        if each.name in SECURITY_PROTOCOLS
        and any(
            word in each.name and word not in each.security_protocol for word in ("SASL", "SSL")
        )
    ]


def _with_friendly_defaults(given: Mapping[str, str], has_file: bool) -> dict[str, str]:
    static: dict[str, str] = dict(given)
    for default in FRIENDLY_DEFAULTS:
        if default.when is When.NO_FILE and has_file:
            continue
        if default.when is When.SINGLE_NODE and not _is_single_node(static):
            continue
        static.setdefault(default.name, default.value)
    return static


def _is_single_node(static: Mapping[str, str]) -> bool:
    roles = {role.strip() for role in static["process.roles"].split(",")}
    quorum = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
    return roles == {"broker", "controller"} and all("," not in static.get(n, "") for n in quorum)


def _review(given: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the problems and the warnings of single settings."""
    wrong: list[str] = []
    warnings: list[str] = []
    for name, text in given.items():
        setting = broker_setting(name)
        if setting is None:
            if not name.startswith(providers.PREFIX):
                warnings.append(_unknown(name))
            continue
        try:
            is_default = setting.parse(text) == setting.default
        except ConfigurationError as error:
            wrong.append(str(error))
            continue
        if "${" in text:
            warnings.append(
                f"{name} holds ${{...}}, which is taken as it stands: config.providers does not name "
                "its provider"
            )
        if not is_default:
            _review_status(name, text, setting, wrong, warnings)
    return wrong, warnings


def _review_status(
    name: str, text: str, setting: Setting, wrong: list[str], warnings: list[str]
) -> None:
    if (
        name != setting.name
        and setting.status is Status.HONOURED
        and setting.name not in _PER_LISTENER
    ):
        warnings.append(f"{name} has no effect: this setting is not supported for single listeners")
    elif setting.name == CALLBACK_HANDLER and _OTHER_HANDLER.search(name):
        wrong.append(
            f"{name} is not supported: the class would not be used, and the node would accept other "
            "logins; remove the setting"
        )
    elif setting.name in _OF_OAUTH and not name.endswith(f".oauthbearer.{setting.name}"):
        warnings.append(
            f"{name} has no effect: only listener.name.<listener>.oauthbearer.{setting.name} is "
            "supported"
        )
    elif name == "sasl.jaas.config":
        warnings.append(
            f"{name} has no effect: name it listener.name.<listener>.<mechanism>.{name}"
        )
    elif setting.name == cipher_suites.PROTOCOLS:
        old = [
            each.strip() for each in text.split(",") if each.strip() in cipher_suites.OLD_VERSIONS
        ]
        warnings += (f"{name}: {each} is insecure, and is not offered" for each in old)
    elif setting.name == cipher_suites.SETTING:
        warnings += (f"{name}: {each}" for each in _problems_of_suites(setting, text))
    elif setting.status is Status.UNSUPPORTED:
        warnings.append(f"{name} has no effect: {setting.reason}")
    elif setting.status is Status.REFUSED:
        wrong.append(f"{name} is not supported: {setting.reason}")


def _problems_of_suites(setting: Setting, text: str) -> tuple[str, ...]:
    names = setting.parse(text)
    assert isinstance(names, tuple)
    try:
        return cipher_suites.choose(names, cipher_suites.VERSIONS).problems
    except ValueError:
        return ()  # the listeners that use it report it


def _unknown(name: str) -> str:
    if name.startswith("zookeeper."):
        return f"{name} has no effect: there is no ZooKeeper since Apache Kafka 4.0"
    import difflib  # Imported here because only misspelt names need it.

    close = difflib.get_close_matches(name, broker_settings(), n=1, cutoff=0.8)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{name} has no effect: Apache Kafka 4.3 has no such setting{hint}"


def shown(config: BrokerConfig) -> dict[str, str]:
    """Return the values that are set, for the log at the start. Secrets are hidden."""
    result: dict[str, str] = {}
    for name, text in sorted(config.layers.effective.items()):
        setting = broker_setting(name)
        hidden = setting is None or setting.is_sensitive
        result[name] = repr(Secret(text)) if hidden else text
    return result
