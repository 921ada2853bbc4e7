"""The sources of a node's values, which are called layers, and their precedence.

The layers have the same precedence as in Kafka (KIP-226): a dynamic value for this broker, a
dynamic value for all brokers, a static value (`--override` or the file), the default. Some settings
have the same meaning in different units (`log.roll.ms`, `log.roll.hours`). A dynamic value of such
a setting hides the static values of its synonyms. Within one layer, the order in `BROKER_SYNONYMS`
is the precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.config.definition import ConfigurationError, Status, UpdateMode, Value
from odradek.config.registry import DYNAMIC_ONLY, broker_setting, broker_settings, broker_synonyms
from odradek.model.config_resource import Source


class Found(NamedTuple):
    """A value of one layer, as text."""

    name: str
    text: str | None
    """The value; None if the default is null or the value is hidden."""
    source: Source


class BrokerLayers:
    """The layers of one node. The object is immutable, so a change creates a new object."""

    __slots__ = ("assumed", "cluster_default", "effective", "per_broker", "static")

    def __init__(
        self,
        static: Mapping[str, str],
        cluster_default: Mapping[str, str] | None = None,
        per_broker: Mapping[str, str] | None = None,
        assumed: frozenset[str] = frozenset(),
    ) -> None:
        """`assumed` are the names in `static` that nobody has set."""
        self.static = static
        self.assumed = assumed
        self.cluster_default = cluster_default or {}
        self.per_broker = per_broker or {}
        self.effective: Mapping[str, str] = self._ranked()
        """The values that are set by name, each from the layer with the highest precedence."""

    def _ranked(self) -> Mapping[str, str]:
        merged = dict(self.static)
        for layer in (self.cluster_default, self.per_broker):
            for name, text in layer.items():
                if not name.startswith("listener.name."):
                    for sibling in broker_synonyms(name):
                        merged.pop(sibling, None)
                merged[name] = text
        return merged

    def shown(self, name: str) -> str:
        """Return `name is value` for a message, with the name that a person has set.

        If nobody has set the value, the text says that it is the default.
        """
        names = [each for each in broker_synonyms(name) if each in self.effective]
        is_set = names and names[0] not in self.assumed
        found = names[0] if is_set else name
        value = self.value(found)
        text = ",".join(value) if isinstance(value, tuple) else value
        return f"{found} is {text}{'' if is_set else ' by default'}"

    def value(self, name: str) -> Value:
        """Return the parsed value of a broker setting.

        Raises:
            ConfigurationError: the text is invalid, or a required setting is missing.
        """
        setting = broker_settings()[name]
        text = self.effective.get(name)
        if text is not None:
            return setting.parse(text)
        if setting.required:
            raise ConfigurationError(f'Missing required configuration "{name}"; set it.')
        return setting.default

    def found(self, names: tuple[str, ...]) -> Iterator[Found]:
        """Yield all values set for `names`, by descending precedence. The defaults are last."""
        layers = (
            (self.per_broker, Source.DYNAMIC_BROKER),
            (self.cluster_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )
        for layer, source in layers:
            for name in names:
                if name in layer:
                    yield Found(name, layer[name], source)
        for name in names:
            setting = broker_settings().get(name)
            if setting is None or name in DYNAMIC_ONLY:
                continue
            if setting.default_text is not None:
                yield Found(name, setting.default_text, Source.DEFAULT)


def usable_dynamic(values: Mapping[str, str], per_broker: bool) -> tuple[dict[str, str], list[str]]:
    """Return the stored dynamic values that can be applied, and the problems of all other values.

    The other values are ignored, as in Kafka (DynamicBrokerConfig.fromPersistentProps).
    """
    usable: dict[str, str] = {}
    problems: list[str] = []
    for name, text in values.items():
        problem = dynamic_problem(name, text, per_broker)
        if problem is None:
            usable[name] = text
        else:
            problems.append(problem)
    return usable, problems


def dynamic_problem(name: str, text: str, per_broker: bool) -> str | None:
    """Return the reason why a dynamic value cannot be used; None if it can be used."""
    setting = broker_setting(name)
    if setting is None:
        return None  # Kafka keeps unknown settings, for its plug-ins.
    if setting.update_mode is UpdateMode.READ_ONLY:
        return f"{name} is read-only: change it in the configuration file and restart"
    if name in RESTART_ONLY:
        return f"{name} cannot be changed while the node runs: change the file and restart"
    if name == setting.name and name in LISTENER_ONLY:
        return f"{name} can be changed only for one listener: listener.name.<listener>.{name}"
    if not per_broker and _is_per_broker(name, setting.name, setting.update_mode):
        return f"{name} can be changed only for one broker: name its id"
    try:
        is_default = setting.parse(text) == setting.default
    except ConfigurationError as error:
        return str(error)
    if setting.status is Status.REFUSED and not is_default:
        return f"{name} is not supported: {setting.reason}"
    return None


def _is_per_broker(name: str, base: str, mode: UpdateMode) -> bool:
    if name != base:
        return base not in {
            "max.connections",
            "max.connection.creation.rate",
            "num.network.threads",
        }
    return mode is UpdateMode.PER_BROKER


RESTART_ONLY = frozenset(("listeners", "listener.security.protocol.map", "config.providers"))
"""Settings that can be changed while Apache Kafka runs, but not while Odradek runs."""

LISTENER_ONLY = frozenset(
    f"ssl.{each}"
    for each in (
        "keystore.type",
        "keystore.location",
        "keystore.password",
        "key.password",
        "truststore.type",
        "truststore.location",
        "truststore.password",
        "keystore.certificate.chain",
        "keystore.key",
        "truststore.certificates",
    )
)
"""Settings that can be changed only for one listener while the node runs."""
