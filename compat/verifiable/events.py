"""Events on standard output, and the end after SIGTERM."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from odradek.client.errors import BrokerError
from odradek.client.security import read_client_properties

_lock = threading.Lock()


def emit(name: str, **fields: Any) -> None:
    """Print an event, with the time and its name first."""
    show({"timestamp": int(time.time() * 1000), "name": name, **fields})


def show(fields: dict[str, Any]) -> None:
    """Print an object in one line."""
    with _lock:
        print(json.dumps(fields, separators=(",", ":")), flush=True)


class Stop:
    """Whether the program has to end."""

    def __init__(self) -> None:
        self.is_set = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._set)

    def _set(self, *_: object) -> None:
        self.is_set = True


def parser(name: str, *required: str) -> argparse.ArgumentParser:
    """A parser with what all programs take."""
    made = argparse.ArgumentParser(prog=f"python -m compat.verifiable {name}", allow_abbrev=False)
    for each in required:
        made.add_argument(each, required=True)
    made.add_argument("--max-messages", type=int, default=-1)
    return made


def settings_in(*files: str | None) -> dict[str, object]:
    """The settings in configuration files, without the classes of Java in them."""
    found: dict[str, object] = {}
    for each in files:
        if each is not None:
            found.update(read_client_properties(Path(each)))
    return {name: value for name, value in found.items() if not _is_of_java(name)}


def _is_of_java(name: str) -> bool:
    return name.endswith(("serializer", "interceptor.classes"))


def text_of(data: bytes | None) -> str | None:
    """A key or a value as Java's deserializer of texts returns it."""
    return None if data is None else data.decode(errors="replace")


def partitions_of(given: Iterable[tuple[str, int]]) -> list[dict[str, object]]:
    """Partitions in events."""
    return [{"topic": topic, "partition": index} for topic, index in given]


def kind_of(error: BaseException) -> str:
    """The class of an error, as an event names it; Kafka's code if a broker has returned one."""
    if isinstance(error, BrokerError):
        return error.code.name
    return type(error).__name__


def complain(error: BaseException) -> None:
    """Tell on standard error why the program ends."""
    print(f"{kind_of(error)}: {error}", file=sys.stderr, flush=True)
