"""The node's loggers as a configuration resource.

The name of a setting is the name of a logger, and its value is the logger's level. Levels have
Kafka's names. Only Odradek's own loggers (`odradek...`) and `root` are listed and can be changed.
Changes last until the node stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from odradek.model.config_resource import Operation
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.incremental_alter_configs_request import AlterableConfig

ROOT = "root"
OURS = "odradek"
TRACE = 5
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """Return the level of each logger. A logger without a level has its parent's level."""
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in _names()}


def alter(changes: Iterable[AlterableConfig], validate_only: bool) -> None:
    """Change the levels of loggers. If one change is invalid, none is made.

    Raises:
        ApiError: INVALID_CONFIG for an unknown logger or level; INVALID_REQUEST for an unsupported
            operation.
    """
    checked = [_checked(each) for each in changes]
    if not validate_only:
        for name, level in checked:
            _logger(name).setLevel(level)


def _checked(change: AlterableConfig) -> tuple[str, int]:
    name, value = change.name, change.value
    if change.config_operation not in (Operation.SET, Operation.DELETE):
        operation = Operation(change.config_operation).name
        problem = f"{operation} operation is not allowed for the BROKER_LOGGER resource"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    if name not in _names():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if change.config_operation == Operation.DELETE:
        if name == ROOT:
            problem = f"Removing the log level of the {ROOT} logger is not allowed"
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)
        return name, logging.NOTSET
    level = LEVELS.get(value or "")
    if level is None:
        known = ", ".join(sorted(LEVELS))
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {known}",
        )
    return name, level


def _names() -> list[str]:
    known = logging.root.manager.loggerDict
    ours = sorted(name for name in known if name == OURS or name.startswith(f"{OURS}."))
    return [ROOT, *ours]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    return next((name for name, least in LEVELS.items() if level >= least), "TRACE")
