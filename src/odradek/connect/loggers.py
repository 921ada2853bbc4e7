"""The levels of loggers, which the REST API shows and changes (KIP-495)."""

from __future__ import annotations

import logging
from typing import Any

_LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_NAMES = {number: name for name, number in _LEVELS.items()}


def is_level(name: str) -> bool:
    """Return whether there is such a level."""
    return name.upper() in _LEVELS


class Loggers:
    """The loggers of this process. `root` is the one above all."""

    def __init__(self) -> None:
        self._changed: dict[str, int] = {}

    def listed(self) -> dict[str, Any]:
        """Return the loggers with a level of their own, by name."""
        known = logging.Logger.manager.loggerDict
        found = {
            name: self._shown(name, each)
            for name, each in known.items()
            if isinstance(each, logging.Logger) and each.level
        }
        found["root"] = self._shown("root", logging.getLogger())
        return dict(sorted(found.items()))

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a logger; None if there is no such logger."""
        if name == "root":
            return self._shown(name, logging.getLogger())
        known = logging.Logger.manager.loggerDict.get(name)
        if known is None:
            return None
        logger = known if isinstance(known, logging.Logger) else logging.getLogger(name)
        return self._shown(name, logger)

    def _shown(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        level = logger.getEffectiveLevel()
        shown = _NAMES.get(level, logging.getLevelName(level))
        return {"level": shown, "last_modified": self._changed.get(name)}

    def set(self, name: str, level: str, now_ms: int) -> list[str] | None:
        """Set the level of a logger and those below it; return their names, None without such a level."""
        number = _LEVELS.get(level.upper())
        if number is None:
            return None
        touched = [name]
        logging.getLogger("" if name == "root" else name).setLevel(number)
        for each, found in list(logging.Logger.manager.loggerDict.items()):
            is_below = name == "root" or each.startswith(name + ".")
            if is_below and isinstance(found, logging.Logger) and found.level:
                found.setLevel(number)
                touched.append(each)
        for each in touched:
            self._changed[each] = now_ms
        return sorted(set(touched))
