"""What a distributed worker checks in the configuration of a connector besides its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.core.connect.api import Connector, SinkConnector, SourceConnector
from odradek.core.connect.client_names import sink_group
from odradek.core.connect.config_def import ConfigValue

_SUPPORT, _BOUNDARY = "exactly.once.support", "transaction.boundary"
_GROUP = "consumer.override.group.id"
_UNEXPECTED = "An unexpected error occurred during validation: {error}"

Values = dict[str, ConfigValue]
Check = Callable[[Connector, Mapping[str, str], Values], None]


def distributed_checks(group: str, *, is_exact: bool) -> Check:
    """Return the checks of a worker of a group; `is_exact` if sources run exactly once."""

    def check(connector: Connector, config: Mapping[str, str], values: Values) -> None:
        if isinstance(connector, SinkConnector):
            _check_group(config, values, group)
        elif isinstance(connector, SourceConnector):
            _check_support(connector, config, values, is_exact=is_exact)
            _check_boundary(connector, config, values)

    return check


def _check_group(config: Mapping[str, str], values: Values, group: str) -> None:
    name = config.get("name", "")
    if sink_group(config, name) != group:
        return
    if _GROUP in config:
        text = f"Consumer group {group} conflicts with Connect worker group {group}"
        values.setdefault(_GROUP, ConfigValue(_GROUP, group)).errors.append(text)
        return
    values["name"].errors.append(
        f"Consumer group for sink connector named {name} conflicts with Connect worker group {group}"
    )


def _check_support(
    connector: SourceConnector, config: Mapping[str, str], values: Values, *, is_exact: bool
) -> None:
    value = values[_SUPPORT]
    if value.errors or str(value.value).lower() != "required":
        return
    if not is_exact:
        value.errors.append("This worker does not have exactly-once source support enabled.")
    try:
        supports = connector.exactly_once_support(config)
    except Exception as error:  # noqa: BLE001 - it is code of the connector
        value.errors.append(_UNEXPECTED.format(error=error))
        return
    if supports is None:
        value.errors.append(
            "The connector does not implement the API required for preflight validation of exactly-once "
            "source support. Please consult the documentation for the connector to determine whether it "
            "supports exactly-once semantics, and then consider reconfiguring the connector to use the value "
            '"requested" for this property (which will disable this preflight check and allow the connector '
            "to be created)."
        )
    elif not supports:
        value.errors.append(
            "The connector does not support exactly-once semantics with the provided configuration."
        )


def _check_boundary(connector: SourceConnector, config: Mapping[str, str], values: Values) -> None:
    value = values[_BOUNDARY]
    if value.errors or str(value.value).lower() != "connector":
        return
    try:
        can_define = connector.can_define_transaction_boundaries(config)
    except Exception as error:  # noqa: BLE001 - it is code of the connector
        value.errors.append(_UNEXPECTED.format(error=error))
        return
    if not can_define:
        value.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given "
            "configuration. Please reconfigure it to use a different transaction boundary definition."
        )
