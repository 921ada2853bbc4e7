"""Formats log records as lines of text or as JSON (one object per line)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

ROOT = "odradek"
_COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class TextFormatter(logging.Formatter):
    """Formats a record as `12:30:01.250 warning network: closed the connection …`."""

    def __init__(self, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; if the record has a traceback, the traceback follows."""
        time = datetime.fromtimestamp(record.created).astimezone()
        level = record.levelname.lower()
        if self._colour and record.levelno in _COLOURS:
            level = f"\x1b[{_COLOURS[record.levelno]}m{level}\x1b[0m"
        name = record.name.removeprefix(f"{ROOT}.")
        line = (
            f"{time:%H:%M:%S}.{time.microsecond // 1000:03} {level} {name}: {record.getMessage()}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formats a record as an object: time, level, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        content: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        content.update((k, v) for k, v in vars(record).items() if k not in _OWN)
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


def configure_logging(level: str, form: str, stream: TextIO, colour: bool = False) -> None:
    """Write log records of `level` and above to a stream; `form` is `text` or `json`.

    This applies only to Odradek's own loggers.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(colour))
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


def printable(text: str) -> str:
    """Return a text from a request without line ends, so that it cannot forge a line of the log."""
    return text if text.isprintable() else repr(text)
